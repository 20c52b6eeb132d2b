"""Reader for the lattice files in a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from ninja.errors import FormatError, counted, named
from ninja.io import detection
from ninja.io.sources import SourceFile
from ninja.lattice.batch import Batch


def read_folder(
    folder: SourceFile,
    read_file: Callable[[SourceFile], Iterator[Batch]],
    on_note: Callable[[str], None],
    *,
    by_name: bool,
) -> Iterator[Batch]:
    """Yield batches from the lattice files in a folder, or from its recogniser result files if it has no lattices.

    Args:
        folder: Folder to read.
        read_file: Function that yields the batches in a file.
        on_note: Function that is called with a message about skipped files.
        by_name: Detect the content types of files only from their names, not from their first bytes.

    Raises:
        FormatError: The folder contains no lattices.
    """
    by_content: dict[detection.Holds, list[SourceFile]] = {}
    for file in folder.files:
        holds = detection.holds_by_name(file.path) if by_name else file.holds
        by_content.setdefault(holds, []).append(file)
        if holds in ("lattices", "damage"):
            yield from read_file(file)
    results = by_content.get("results", [])
    skipped = results if "lattices" in by_content else []
    for file in results:
        if skipped:
            file.close()
        else:
            yield from read_file(file)
    subfolders = [
        f"{path}/" for path in folder.paths[1] if not re.fullmatch(detection.COMPANIONS, f"{os.path.basename(path)}/")
    ]
    others = [*subfolders, *(file.path for file in by_content.get("nothing", []))]
    if not by_content.keys() - {"nothing", "companion"}:
        paths = [*others, *(file.path for file in by_content.get("companion", []))]
        names = [name.removeprefix(os.path.join(folder.path, "")) for name in paths]
        content = f", only: {named(names, detection.NAMED)}" if names else ""
        raise FormatError(f"the folder contains no lattices{content}", folder.path)
    if message := detection.describe_skipped(folder.path, others, [file.path for file in skipped]):
        on_note(f"{folder.path}: {message}")


def describe_lattices(folder: SourceFile) -> str:
    """Return a message about skipped lattice files in a folder of n-best lists; empty if no file was skipped."""
    names = [os.path.basename(file.path) for file in folder.files if file.holds == "lattices"]
    if not names:
        return ""
    return f"skipped {counted(len(names), 'lattice file')} in a folder of n-best lists: {named(names, detection.NAMED)}"
