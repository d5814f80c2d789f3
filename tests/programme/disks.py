"""Small disks that tests can fill."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """Give the folder of a disk of this size, which everyone may write to; skip the test where none can be made."""
    folder = Path(tempfile.mkdtemp(prefix="meritfair-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=1777", "meritfair", str(folder)]
    try:
        if sys.platform != "linux" or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("only the superuser of Linux can make a small disk")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
    finally:
        folder.rmdir()


def fill(folder: Path) -> Path:
    """Fill the disk of a folder to the last byte; return the file that does."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    assert os.statvfs(folder).f_bavail == 0
    return ballast
