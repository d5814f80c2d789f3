"""A programme: who is next, round after round, with a ledger that anyone can check.

The public names are those of ``__init__.pyi``, loaded when first used.
"""

from meritfair.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
