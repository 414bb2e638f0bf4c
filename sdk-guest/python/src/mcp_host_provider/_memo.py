"""What was made of a file, kept until the file changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TypeVar

from ._results import status_of

T = TypeVar("T")


def memo(make: Callable[[Path], T]) -> Callable[[Path], T]:
    """Decorates a function of a file, whose result is kept until the size or the modification time of the file changes: within a call,
    and where the host uses instances again, across calls. It keeps the result of the last file only. A file that is missing is
    `NotFound`.

        @memo
        def events(file: Path) -> dict[str, Event]:
            return parse(file.read_text())
    """
    kept: list[tuple[Path, int, int, T]] = []

    @wraps(make)
    def get(file: Path) -> T:
        status = status_of(file)
        state = file, status.st_size, status.st_mtime_ns
        if not kept or kept[0][:3] != state:
            kept[:] = [(*state, make(file))]
        return kept[0][3]

    return get
