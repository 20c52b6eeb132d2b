"""Hypothesis files of recognisers, one of each format that rewrites its files, and replacements of their words."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ninja
from ninja.formats.format import formats
from ninja.formats.nbest.text_rows import split
from ninja.graph import lattice_nbest
from ninja.lattice.nbest import sentence

FOLDER = Path(__file__).parents[1] / "data" / "hypotheses"
FILES = {
    path: form.name
    for form in formats()
    if form.write is not None and form.write.rewrites_files
    for path in sorted(FOLDER.glob("*.json*"))
    if re.fullmatch(re.escape(form.name) + r"(-[a-z]+)?\.jsonl?", path.name)
}
LETTERS = "ab,\"\\'&<éä漢\u0301\u2028\xa0\x1c😀\u200fש"  # with Unicode spaces, emoji, right-to-left letters
Fix = Callable[[str, list[str]], list[str]]  # key and words of a hypothesis -> its new words


def correct(source: Path, target: Path, form: str, fix: Fix) -> list[str]:
    """Write a file back with other words; return the notes of the writer."""
    with ninja.write(target, to=form.partition(":")[0]) as output:
        for _, lattice in ninja.read(source, format=form):
            nbest = lattice_nbest(lattice, max(lattice.num_hypotheses, 1))
            hypotheses = tuple(
                sentence(fix(nbest.key, list(hypothesis.words)), hypothesis.graph_cost, hypothesis.acoustic_cost)
                for hypothesis in nbest.hypotheses
            )
            output.write(replace(nbest, hypotheses=hypotheses, frame_shift=None))
    return output.notes()


def save(folder: Path, document: Any, indent: int | None = None) -> tuple[Path, Path]:
    """Write a JSON document to a file; return the paths of the file and of an output in the same folder."""
    path = folder / "x.json"
    path.write_text(json.dumps(document, indent=indent))
    return path, folder / "y.json"


def replacement(old: str, new: str) -> Fix:
    """Return a function that replaces each occurrence of a word by zero or more words."""
    return lambda _, words: [part for word in words for part in (split(new) if word == old else [word])]
