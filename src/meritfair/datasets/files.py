"""Arms in files: CSV or Parquet with the columns arm, p00, p01, p10, p11.

``p01`` is the probability that the next state is good from state 0 (bad) under action 1 (pull). Other
columns are ignored. A file that cannot be used is refused with its line, column and value.
"""

from __future__ import annotations

from os import PathLike

import numpy as np

from meritfair.core.errors import RowError
from meritfair.core.tables import first_duplicate, numbered, read_table, write_table
from meritfair.model.arms import Arms

_PROBABILITIES = ("p00", "p01", "p10", "p11")
_COLUMNS = ("arm", *_PROBABILITIES)


def read_arms(path: str | PathLike[str]) -> Arms:
    r"""Read arms from a .csv or .parquet file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "arms.csv")
    ...     _ = file.write_text("arm,p00,p01,p10,p11\nAda,0.2,0.6,0.5,0.9\n")
    ...     read_arms(file).names
    ('Ada',)
    """
    table = read_table(path, "arms", _COLUMNS)
    names = table.text("arm")
    twice = first_duplicate(numbered(names)[1])
    if twice:
        raise table.located(RowError(twice[1], "arm", f"the arm {names[twice[1]]!r} is already in", twice[0]))
    values = np.stack([table.numbers(column, 0, 1) for column in _PROBABILITIES], axis=-1)
    return Arms(values.reshape(-1, 2, 2), names)


def write_arms(arms: Arms, path: str | PathLike[str]) -> None:
    """Write arms to a .csv or .parquet file, so that `read_arms` gives back the same.

    An existing file is replaced only once the new one is complete. Features are not kept.
    """
    probabilities = zip(_PROBABILITIES, arms.transitions.reshape(-1, 4).T.tolist(), strict=True)
    write_table(path, "arms", {"arm": list(arms.names), **dict(probabilities)})
