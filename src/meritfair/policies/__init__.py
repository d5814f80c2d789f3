"""Policies: what has been seen goes in, a plan for the next episode comes out. The names are in ``__init__.pyi``."""

from meritfair.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
