"""Detect text files with one transcript per line, and sources without lattices."""

from __future__ import annotations

import os
import re

from ninja.errors import FormatError, NinjaError
from ninja.files.names import resolve_listed
from ninja.files.stream import Table
from ninja.formats.content import LIST_HEAD, first_rows, is_list, names_script
from ninja.formats.format import HEAD, by_mark, detect
from ninja.formats.kaldi.tables import is_stm, is_trn
from ninja.formats.nbest.transcripts import NAME, has_keys
from ninja.io import detection
from ninja.io.detection import names_in
from ninja.io.inputs import Inputs
from ninja.io.reader import recognised
from ninja.io.sources import SourceFile, is_kaldi

TEXT = (".tsv", ".txt", ".text", ".csv")  # extensions that transcripts share with other formats
_SCORED = re.compile(r".*\t[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")  # text, tab, score: NeMo's beam search


def detect_transcripts(inputs: Inputs) -> str | None:
    """Return the name of the transcript format if all inputs appear to be transcripts, else None.

    The lines are assumed to begin with keys if the first words of all lines look like keys (see `has_keys`).

    Raises:
        FormatError: A file is in STM or trn format, whose speakers and ids would be read as words.
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
        fields = [(number, row.split()) for number, row in enumerate(of_file, start=1)]
        for name, is_format in (("STM", is_stm), ("trn", is_trn)):
            if is_format(fields, file.path):
                message = f"the file is in {name} format; begin each line with a key, followed only by words"
                raise FormatError(message, file.path)
        rows += of_file
    if not rows:
        return None
    return NAME if has_keys(rows) else f"{NAME}:keys=none"


def holds_lattices(file: SourceFile) -> bool:
    """Return whether a file contains lattices rather than transcripts, based on its first bytes."""
    if file.table.kind == "folder":
        return True
    if file.place.command is not None or (file.is_pipe and file.place.plain):
        return False
    try:
        stream = file.inspect()
        head = stream.head(HEAD, is_kaldi) if file.is_pipe else stream.head(HEAD)
        if file.table.kind == "any" and (names_script(head[:LIST_HEAD]) or is_list(head[:LIST_HEAD])):
            return any(map(holds_lattices, _first_listed(file, head)))
        return is_kaldi(head) or recognised(head, file.name) is not None
    except NinjaError:
        return detection.needs_content(file.name)  # the reader reports the error


def _first_listed(file: SourceFile, head: bytes) -> list[SourceFile]:
    """Return the files named by the first line of a file list or script file.

    If a file list names a file that it is not allowed to list, no file is returned.

    Raises:
        NinjaError: A script file names a file that cannot be resolved; see `resolve_listed`.
    """
    row = next(filter(None, map(bytes.strip, head.split(b"\n"))))
    if names_script(head[:LIST_HEAD]):
        tables = [Table(place) for place in resolve_listed(os.fsdecode(row.split(None, 1)[1]), file.name)]
    else:
        tables = names_in(row, file.name)[0]
    return [SourceFile(table) for table in tables]
