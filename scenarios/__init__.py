"""Experiments, datasets, reports and the command line.

Names for users who run protocols or write scenarios. ``__init__.pyi`` lists them; a module is
imported when one of its names is first used.
"""

import lazy_loader

_imported, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        from scenarios.files.shadows import file_in_the_way

        in_the_way = file_in_the_way()
        if in_the_way is not None:
            raise ImportError(in_the_way)
    return _imported(name)
