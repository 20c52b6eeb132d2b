"""Lattices for pages, including one whose words are HTML, and the data of a page."""

from __future__ import annotations

import json
import re

import numpy as np

from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

DATA = re.compile(r'<script type="application/json" id="lattice">(.*?)</script>', re.DOTALL)
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img/src=x/onerror=alert(1)>',
    "{{7*7}}",
    "<!--<script>",
    "</title></textarea>&lt;",
]


def data_of(page: str) -> dict:
    return json.loads(DATA.search(page)[1])


def hostile() -> Lattice:
    """Return a lattice whose words and key would run as code if they were not treated as text."""
    table = SymbolTable.from_words(["<eps>", *HOSTILE])
    number = len(HOSTILE)
    return Lattice.from_arrays(
        HOSTILE[0],
        [*range(number + 1), number],
        range(1, number + 1),
        range(1, number + 1),
        np.zeros(number),
        np.zeros(number),
        [*[np.inf] * number, 0.0],
        words=table,
    )
