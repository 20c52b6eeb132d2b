"""The files behind what a user names: which are read, which written, and what must not be both."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ninja.cli.options import check_files
from ninja.errors import NinjaError, OptionError
from ninja.files.place import STDIN
from ninja.files.target import target
from ninja.io.sources import tables


def check_places(outputs: Iterable[str | None], inputs: Iterable[object]) -> None:
    """Refuse, before anything is computed, results that would go to one file, or over a file that is read."""
    written: list[str | None] = []
    for name in outputs:
        if name is not None and (chosen := target(name)).archive != os.devnull:
            written += [chosen.archive, chosen.script]
    read = [name for each in inputs for name in (each if isinstance(each, tuple) else [each])]
    check_files(written, [path for name in read if isinstance(name, str) for path in _paths(name)])


def check_stdin(sources: Iterable[str]) -> None:
    """Refuse to read the standard input twice, however it is spelled."""
    if sum(is_stdin(name) for name in sources) > 1:
        raise OptionError("the standard input, -, can be one of the archives only")


def is_stdin(source: str) -> bool:
    """Tell whether a source is the standard input, however it is spelled."""
    return "-" in _paths(source)


def _paths(name: str) -> list[str]:
    """Return the files that a source names, - for the standard input; none where reading it will fail."""
    if name == STDIN:  # what it lists is not looked at before it is read
        return [STDIN]
    try:
        # Commands are only understood here, not run.
        places = [table.place for table in tables(name, allow_pipes=True)]
    except NinjaError:
        return []
    return ["-" if place.path == "/dev/stdin" else place.path for place in places if place.command is None]
