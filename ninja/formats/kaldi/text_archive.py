"""Detection of Kaldi text archives of lattices; they are read by ``archive``."""

from __future__ import annotations

import re

from ninja.formats.format import Format, Read, Write
from ninja.formats.kaldi.archive import KALDI_KEEPS, read_entries

# A line with a key, any number of arcs and states without costs, then an arc or state with a pair of costs; or, if no
# line of the first lattice has costs, a key followed by the space that Kaldi writes.
_ARC = rb"[ \t]*\d+(?:[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+)?)?"
_LINE = _ARC + rb"[ \t\r]*(?:\n|\Z)"
COSTS = rb"[ \t]+(?:(?=\S*\d)[-+\d.eE]*,[-+\d.eE]*|Infinity,Infinity)(?:,[\d_]*)?(?:\s|\Z)"
_MARK = re.compile(
    rb"\s*\S{1,4096}[ \t\r]*\n(?:"
    + _LINE
    + rb")*"
    + _ARC
    + COSTS
    + rb"|\s*\S{1,4096}[ \t]\r?\n(?:"
    + _LINE
    + rb")+[ \t\r]*(?:\n|\Z)"
)

FORMAT = Format(
    name="text",
    about="Kaldi archive of compact or raw lattices in text format",
    extensions=(".txt",),
    aliases=("kaldi-text",),
    mark=_MARK.match,
    read=Read(read_entries),
    keeps=KALDI_KEEPS,
    write=Write(key_is_field=True),
)
