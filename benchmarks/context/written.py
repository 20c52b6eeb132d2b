"""Words, errors and entities of written text beside those of the lexical originals, by stage.

    python -m benchmarks.context written ../shared/data/english /tmp/written

The commands of the test-bed are written a second time as people write them: sentences and the words of listed phrases
begin with capitals, and commas, full stops and question marks follow words, all chosen by the utterance and the word.
Each written lattice is the union of two versions with other punctuation. All stages run on both.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

import click
import numpy as np

from benchmarks.command import argument, command, option
from benchmarks.context.bed import LM_WEIGHT, PENALTY, SCALE, Words
from benchmarks.tables import head, row, show
from ninja import SymbolTable, read, write
from ninja.context.entities.lists import Entities
from ninja.context.settings import DEFAULT_MODEL
from ninja.evaluate import (
    read_text,
    read_truth,
    score,
    score_entities,
)
from ninja.files import text as utf8
from ninja.graph.union import union
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.characters import LABEL

SIDES = ("lexical", "written")
SCALES = (f"--acoustic-scale={SCALE}", f"--word-penalty={PENALTY}")
RESCORING = (*SCALES, f"--lm-weight={LM_WEIGHT}")
PHRASES = ("--entities", "{side}/entities.json", "--keyword-boost=8")
STAGES: dict[str, tuple[str, ...]] = {
    "first pass": (),
    "rescore": ("rescore", *RESCORING),
    "context": ("context", *SCALES, *PHRASES),
    "context --augment": ("context", *SCALES, *PHRASES, "--augment"),
    "contextual model": ("rescore", *RESCORING, *PHRASES[:2], "--context-model", DEFAULT_MODEL),
    "mbr-decode": ("mbr-decode", *SCALES),
}
MARKS = ("", "", "", ",", ".", "?")


def write_word(word: str, key: str, version: int, *, is_capital: bool) -> str:
    """Return the written form of a word: a capital, and punctuation that depends on utterance, word and version."""
    if LABEL.fullmatch(word):
        return word
    mark = MARKS[crc32(f"{key} {word} {version}".encode()) % len(MARKS)]
    return (word[:1].upper() + word[1:] if is_capital else word) + mark


def write_lattice(lattice: Lattice, names: set[str], version: int, words: SymbolTable, written: SymbolTable) -> Lattice:
    """Return a lattice with written words; arcs of the start state begin the sentence."""
    num_first = int(lattice.arc_begin[1])
    labels = []
    for arc, number in enumerate(lattice.word.tolist()):
        word = words.word(number)
        form = write_word(word, lattice.key, version, is_capital=word in names or arc < num_first)
        labels.append(written.intern([form])[0] if number else 0)
    return lattice.replace(word=frozen(np.array(labels, np.int32)), words=written)


def write_sides(folder: Path, work: Path, limit: int) -> None:
    """Write lattices, symbol tables, references and phrases of both sides."""
    calls = folder / "test" / "calls"
    words, written = SymbolTable.read(folder / "words.txt.gz"), SymbolTable.growing()
    records = [json.loads(line) for line in utf8.read(str(calls / "entities.jsonl.gz")).splitlines()][:limit]
    phrases = {record["utt"]: record["list_100"] for record in records}
    truth = {record["utt"]: record["true"] for record in records}
    names = {key: {word for phrase in listed for word in phrase["text"].split()} for key, listed in phrases.items()}
    references = {key: text for key, text in read_text(calls / "text").items() if key in phrases}
    lattices = {key: lattice for key, lattice in read(calls / "lat.ark.gz", words=words) if key in phrases}
    versions = {
        key: union(
            [write_lattice(lattice, names[key], version, words, written) for version in range(2)],
            SCALE,
            determinize=False,
        )
        for key, lattice in lattices.items()
    }

    def as_written(text: str) -> str:
        return " ".join(word[:1].upper() + word[1:] for word in text.split())

    for side, texts, results in (("lexical", references, lattices), ("written", {}, versions)):
        (work / side).mkdir(parents=True, exist_ok=True)
        change: Callable[[str], str] = as_written if side == "written" else str
        for key, text in references.items() if side == "written" else ():
            forms = [
                write_word(word, key, 2, is_capital=not place or word in names[key]) for place, word in enumerate(text)
            ]
            texts[key] = forms
        lists = {
            key: {"entities": [entry | {"text": change(entry["text"])} for entry in phrases[key]]} for key in phrases
        }
        lines = [
            json.dumps({"utt": key, "true": [entry | {"text": change(entry["text"])} for entry in truth[key]]})
            for key in truth
        ]
        (work / side / "text").write_text("".join(f"{key} {' '.join(text)}\n" for key, text in texts.items()))
        (work / side / "entities.json").write_text(json.dumps({"utterances": lists}))
        (work / side / "truth.jsonl").write_text("\n".join(lines) + "\n")
        with write(work / side / "lat.ark.gz", words_out=work / side / "words.txt") as output:
            for lattice in results.values():
                output.write(lattice)


def run(arguments: Sequence[str], work: Path) -> None:
    """Run a command in a folder; its messages are shown if it fails."""
    result = subprocess.run(
        [sys.executable, "-m", "ninja", *arguments], cwd=work, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise click.ClickException(f"ninja {' '.join(arguments)}\n{result.stderr}")


def hypotheses(name: str, side: str, work: Path) -> Words:
    """Return the words of a stage on one side."""
    arguments = [part.format(side=side) for part in STAGES[name]]
    words = ("--words", f"{side}/words.txt")
    lattices, output = f"{side}/lat.ark.gz", f"{side}/{name.replace(' ', '_')}"
    if arguments[:1] == ["mbr-decode"]:
        run([*arguments, lattices, *words, "-o", f"{output}.txt"], work)
        return read_text(work / f"{output}.txt")
    if arguments:
        run([*arguments, lattices, *words, "-o", f"{output}.ark.gz", "--words-out", f"{output}.words"], work)
        lattices, words = f"{output}.ark.gz", ("--words", f"{output}.words")
    run(["best", lattices, *words, *SCALES, "-o", f"{output}.txt"], work)
    return read_text(work / f"{output}.txt")


def rows(work: Path, stages: Sequence[str]) -> Iterator[str]:
    """Compare both sides stage by stage."""
    yield from head(
        "stage",
        "utterances with other words",
        "WER lexical",
        "written",
        "entities found",
        "written",
        "inserted",
        "written",
        "in form",
        "equal",
    )
    references = {side: read_text(work / side / "text") for side in SIDES}
    lists = {side: Entities.read(work / side / "entities.json") for side in SIDES}
    truth = {side: read_truth(work / side / "truth.jsonl") for side in SIDES}
    for name in stages:
        try:
            texts = {side: hypotheses(name, side, work) for side in SIDES}
        except click.ClickException as error:
            yield row(name, error.message.strip().splitlines()[-1], *[""] * 8)
            continue
        reports = {}
        for side in SIDES:
            options = {"truth": truth[side], "normalizer": "basic"}
            reports[side] = score_entities(
                references[side], texts[side], lists[side].phrases(references[side]), **options
            )
        others = score(texts["lexical"], texts["written"], normalizer="basic").sentence_errors
        rates = [reports[side].overall for side in SIDES]
        entities = [reports[side].entities for side in SIDES]
        found, inserted = ([getattr(rate, field) for rate in entities] for field in ("found", "inserted"))
        is_equal = not others and rates[0] == rates[1] and found[0] == found[1] and inserted[0] == inserted[1]
        form = f"{entities[1].in_form} / {entities[1].found}"
        errors = [f"{rate.wer:.2f}" for rate in rates]
        yield row(name, others, *errors, *found, *inserted, form, "equal" if is_equal else "different")


@command
@argument("folder")
@argument("work")
@option("--limit", default=1000, help="Number of utterances.")
@option("--stage", "stages", multiple=True, type=click.Choice(list(STAGES)), help="Only these stages.")
def main(folder: Path, work: Path, limit: int, stages: tuple[str, ...]) -> None:
    write_sides(folder, work, limit)
    show(rows(work, stages or tuple(STAGES)))
