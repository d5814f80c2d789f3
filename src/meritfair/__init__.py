"""meritfair: share a scarce intervention fairly, among people whose state drifts, while learning who benefits.

The public names are those of ``__init__.pyi``. They are loaded when first used, so that `import meritfair` and
`meritfair --help` are quick.
"""

import sys
from importlib import import_module

from meritfair.core.lazy import public_names

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = public_names(__name__, __file__, renamed={"Log": "StateLog"})

if sys.modules.get("gymnasium") is not None:  # then its environments are wanted, and it is not slow any more
    import_module("meritfair.gym")
