"""The protocols themselves: pure computation, without I/O, clocks or hidden randomness.

An author of a variant imports all names from here. The variants are in ``protocol.variants``, and
the checks for tests in ``protocol.testing``. ``__init__.pyi`` lists the names; the module of a name
is imported at its first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
