"""The lab: sweeps over many settings.

The public names are those of ``__init__.pyi``, loaded when first used, so that a worker loads only what it needs.
"""

from meritfair.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
