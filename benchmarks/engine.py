"""The engine's speed, as tables and JSON: `./mf python benchmarks/engine.py [--quick] [--out FILE]`.

The same as `meritfair bench`; here so that all benchmarks are found in one place.
"""

from __future__ import annotations

import sys

from meritfair.cli import main

if __name__ == "__main__":
    main(["bench", *sys.argv[1:]])
