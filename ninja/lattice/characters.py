"""Apostrophes and non-word labels, shared by the normalizers."""

from __future__ import annotations

import re

APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u02bc\uff07\u2032`\u00b4", "'"))
LABEL = re.compile(r"<[^<>\s]*>|\[[^\[\]\s]*\]|![A-Z_]+|#[0-9]+")  # as in <unk>, [noise], !SIL, #0
