"""Public names of a package that are loaded when first used, so that importing it is quick.

The names stand in a stub beside the package, ``__init__.pyi``, where type checkers read them too: lines such as
``from meritfair.model.arms import Arms as Arms``.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meritfair.core.deprecation import warn_renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def public_names(
    package: str, file: str, renamed: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose source is `file`.

    Names that were `renamed`, old to new, are found with a warning.
    """
    stub = ast.parse(Path(file).with_name("__init__.pyi").read_text(encoding="utf-8"))
    home_of = {
        alias.name: str(node.module) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    def load(name: str) -> Any:
        if renamed is not None and name in renamed:
            warn_renamed(f"{package}.{name}", renamed[name])
            name = renamed[name]
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(home_of[name])
        try:
            return home.__dict__[name]
        except KeyError:  # a module of a package
            return import_module(f"{home_of[name]}.{name}")

    return load, lambda: sorted(home_of), sorted(home_of)
