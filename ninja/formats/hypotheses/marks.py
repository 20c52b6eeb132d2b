"""Detection of JSON written by recognisers, based on the fields in the first bytes of a file."""

from __future__ import annotations

import re
from functools import lru_cache

_BEGIN = re.compile(rb"\s*[{\[]")
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)("?)(\s*:)?|[\[\]{}]', re.DOTALL)
MOST_TOKENS = 20_000
LONGEST_PATH = 200  # maximum length of a path in characters; detection stops at a longer path
CUT = "…"  # appended to the path of a string that extends beyond the first bytes of the file
LONG = 1 << 15  # minimum number of first bytes; if fewer are available, a string that extends beyond them is ignored


def has_marks(marks: tuple[tuple[str, ...], ...], head: bytes) -> bool:
    """Return whether the first bytes of a file contain all fields of at least one tuple of `marks`.

    Args:
        marks: Tuples of field paths, such as ``segments[].words[].probability``. In JSON lines, paths are relative to
            the object on each line; in a list of objects, they begin with ``[]``.
        head: The first bytes of the file.
    """
    if _BEGIN.match(head) is None:
        return False
    fields = fields_of(head)
    return any(fields.issuperset(paths) for paths in marks)


@lru_cache(maxsize=2)  # cached, because each format examines the same file
def fields_of(head: bytes) -> frozenset[str]:
    """Return the paths of the fields that occur in the first bytes of a JSON or JSON Lines file."""
    fields: set[str] = set()
    prefixes = [""]  # path of each object or list that is still open
    name = ""  # path of the value that follows
    for count, token in enumerate(_TOKEN.finditer(head)):
        text = token[0]
        if count > MOST_TOKENS or len(name) > LONGEST_PATH:
            break
        if text[:1] == b'"':
            if token[3] is not None:
                name = f"{prefixes[-1]}.{token[1].decode(errors='replace')}".removeprefix(".")
                fields.add(name)
            elif not token[2] and len(head) >= LONG:
                fields.add(name + CUT)
        elif text == b"{":
            prefixes.append(name)
        elif text == b"[":
            name += "[]"
            prefixes.append(name)
        elif len(prefixes) > 1:
            prefixes.pop()
            name = prefixes[-1]
    return frozenset(fields)
