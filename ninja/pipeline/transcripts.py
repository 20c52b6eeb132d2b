"""Detection of text files with a transcript on each line."""

from __future__ import annotations

import re

from ninja.errors import NinjaError
from ninja.formats.content import first_rows
from ninja.formats.format import HEAD, by_mark, detect
from ninja.formats.nbest.transcripts import NAME, has_keys
from ninja.io.inputs import Inputs

TEXT = (".tsv", ".txt", ".text", ".csv")  # extensions of transcripts, and of other formats
_SCORED = re.compile(r".*\t[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")  # a line of NeMo's beams


def detect_transcripts(inputs: Inputs) -> str | None:
    """Return the transcript format if all inputs are text files in no other known format, else None.

    The lines of transcripts begin with keys if the first words of all lines look like keys, see `has_keys`.
    """
    rows: list[str] = []
    for file in inputs.sources.resolvable_files:
        try:
            if file.kind != "ark":
                return None
            head = file.inspect().head(HEAD)
            is_text = file.path.removesuffix(".gz").endswith(TEXT)
            if by_mark(head) is not None or (not is_text and detect(head, file.path) is not None):
                return None
            of_file = [row.decode(inputs.encoding) for row in first_rows(head)]
        except (NinjaError, UnicodeDecodeError):
            return None
        if all(map(_SCORED.fullmatch, of_file)):
            return None
        rows += of_file
    if not rows:
        return None
    return NAME if has_keys(rows) else f"{NAME}:keys=none"
