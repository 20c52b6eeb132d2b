"""Detection of recognisers' JSON by the fields in the first bytes of a file."""

from __future__ import annotations

import re
from functools import lru_cache

_BEGIN = re.compile(rb"\s*[{\[]")
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)("?)(\s*:)?|[\[\]{}]', re.DOTALL)
MOST_TOKENS = 20_000
LONGEST_PATH = 200  # characters
CUT = "…"  # behind the path of a text of which the first bytes of a long file have only a part
LONG = 1 << 15  # bytes


def has_marks(marks: tuple[tuple[str, ...], ...], head: bytes) -> bool:
    """Tell whether the first bytes of a file have all the fields of one of several tuples.

    Args:
        marks: Paths of fields, such as ``segments[].words[].probability``; in JSON lines from the object of a line,
            in a list of objects from ``[]``.
        head: The first bytes.
    """
    if _BEGIN.match(head) is None:
        return False
    fields = fields_of(head)
    return any(fields.issuperset(paths) for paths in marks)


@lru_cache(maxsize=2)  # all formats look at the same file
def fields_of(head: bytes) -> frozenset[str]:
    """Return the paths of the fields in the first bytes of JSON, or of JSON lines."""
    fields: set[str] = set()
    prefixes = [""]  # path of each open value
    name = ""  # path of the value that comes next
    for count, token in enumerate(_TOKEN.finditer(head)):
        text = token[0]
        if text[:1] == b'"':
            if token[3] is not None:
                name = f"{prefixes[-1]}.{token[1].decode(errors='replace')}".removeprefix(".")
                if len(name) > LONGEST_PATH or count > MOST_TOKENS:
                    break
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
