"""Markdown tables, their sections in the pages of docs/, and their stored cells and pictures."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*columns: object) -> list[str]:
    """Return the rows that begin a table."""
    return [row(*columns), "|---" * len(columns) + "|"]


def show(lines: Iterator[str]) -> list[str]:
    """Print lines as they come; return them."""
    printed_lines = []
    for line in lines:
        print(line, flush=True)
        printed_lines.append(line)
    return printed_lines


def put(page: Path | None, name: str, lines: Sequence[str]) -> None:
    """Put lines between the marks ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` of a page, if one is given.

    Raises:
        SystemExit: The page has no such marks.
    """
    if page is None:
        return
    marks = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, begin, text = page.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = text.partition(marks[1])
    if not (begin and end):
        sys.exit(f"{page} has no marks {marks[0]} and {marks[1]}")
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


class Cells(dict[str, dict[str, Any]]):
    """Figures by name, kept in a file of JSON lines, so that an interrupted benchmark continues where it stopped."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        super().__init__({cell.pop("name"): cell for cell in map(json.loads, lines)})

    def add(self, name: str, **figures: Any) -> dict[str, Any]:
        """Keep the figures of a cell; return them."""
        self[name] = figures
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, **figures}, ensure_ascii=False) + "\n")
        return figures

    def measured(self, name: str, seconds: float, command: str, **figures: Any) -> None:
        """Keep and print the figures of a cell with its seconds, date, machine and command."""
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8") if sys.platform == "linux" else platform.processor()
        processor = next((line.split(": ")[1] for line in info.splitlines() if line.startswith("model name")), info)
        origin = {"seconds": round(seconds, 1), "date": time.strftime("%Y-%m-%d", time.gmtime())}
        origin |= {"machine": f"{processor}, {os.cpu_count()} cores", "command": command}
        print(name, self.add(name, **figures, **origin), flush=True)


@contextmanager
def svg(path: Path, **subplots: Any) -> Iterator[Any]:
    """Yield the axes of a figure, which is then written as SVG; the same figure gives the same bytes."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = path.stem
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(**subplots)
    yield axes
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
