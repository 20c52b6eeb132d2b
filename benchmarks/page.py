"""Tables in the pages of docs/, each between two marks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def put(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines between the marks ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` of a page; end without these."""
    marks = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, begin, rest = page.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        sys.exit(f"{page} has no marks {marks[0]} and {marks[1]}")
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")
