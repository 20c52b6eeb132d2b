"""Function that opens Kaldi tables of FSTs for writing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ninja.errors import OptionError
from ninja.files.gzip import Bytes, GzipWriter
from ninja.files.output import PartFile, StandardOutput, target
from ninja.files.stream import STDIN as STDOUT


@contextmanager
def opened_table(name: str) -> Iterator[tuple[Bytes, bool]]:
    """Open a table of FSTs for writing in a ``with`` block.

    Args:
        name: A path (compressed if it ends in ``.gz``, text if it ends in ``.txt``), ``-`` for stdout (text if it is
            a terminal), ``ark:FILE`` or ``ark,t:FILE``.

    Returns:
        ``(output, is_text)``, where `is_text` is True if the entries must be written as text.

    Raises:
        OptionError: The name is invalid.
    """
    chosen = target(name)
    if chosen.script is not None:
        raise OptionError(f"{name!r}: a table of FSTs cannot have a script file; use ark:FILE or ark,t:FILE")
    file = StandardOutput() if chosen.archive == STDOUT else PartFile(chosen.archive)
    try:
        packed = GzipWriter(file) if chosen.packed else None
        yield packed or file, chosen.text or (name == STDOUT and sys.stdout.isatty())
        if packed is not None:
            packed.close()
        file.finish()
    except BaseException:
        file.abandon(keep=False)
        raise
