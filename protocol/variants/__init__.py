"""Whole protocols, one file each: both roles stand side by side.

``__init__.pyi`` lists their classes; a variant's module is imported when its class is first asked
for, here or by the variant's name in ``BUILT_IN``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
