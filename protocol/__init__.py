"""The protocols themselves: pure computation, without I/O, clocks or hidden randomness.

What the author of a variant needs is imported from here; the variants are in
``protocol.variants``, and what her tests run in ``protocol.testing``. ``__init__.pyi`` lists the
names; a name's module is imported when the name is first asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
