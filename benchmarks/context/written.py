"""Compare words, errors and entities of written text with those of the lexical originals, by stage.

    python -m benchmarks.context written ../shared/data/english /tmp/written

The commands of the test-bed are written a second time as people write them: sentences and the words of listed phrases
begin with capitals, and commas, full stops and question marks follow words, all chosen by the utterance and the word.
Each written lattice is the union of two versions with other punctuation. All stages run on both.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

import click
import numpy as np

from benchmarks.command import argument, command, option
from benchmarks.context.bed import LM_WEIGHT, PENALTY, SCALE, Words
from benchmarks.measure import ninja
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
from ninja.files.stream import text_of
from ninja.graph.union import union
from ninja.lattice import Lattice
from ninja.lattice.characters import LABEL
from ninja.lattice.lattice import frozen

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


class Spelling:
    """The written words of one utterance.

    Args:
        key: Utterance; marks depend on it.
        phrases: Its listed phrases; their words have capitals, and no punctuation is put inside of them.
    """

    def __init__(self, key: str, phrases: Sequence[str]) -> None:
        self.key = key
        self.capital = {word for phrase in phrases for word in phrase.split()}
        self.bare = {word for phrase in phrases for word in phrase.split()[:-1]}

    def word(self, word: str, version: int, *, is_first: bool) -> str:
        """Return a written word; versions have other marks."""
        if LABEL.fullmatch(word):
            return word
        mark = "" if word in self.bare else MARKS[crc32(f"{self.key} {word} {version}".encode()) % len(MARKS)]
        return (capital(word) if is_first or word in self.capital else word) + mark

    def lattice(self, lattice: Lattice, version: int, written: SymbolTable) -> Lattice:
        """Return a lattice with written words; arcs of the start state begin the sentence."""
        num_first = int(lattice.arc_begin[1])
        forms = [self.word(name, version, is_first=arc < num_first) for arc, name in enumerate(names_of(lattice))]
        return with_words(lattice, forms, written)


def names_of(lattice: Lattice) -> list[str]:
    """Return the word of each arc."""
    assert lattice.words is not None
    return [lattice.words.word(number) for number in lattice.word.tolist()]


def with_words(lattice: Lattice, names: Sequence[str], words: SymbolTable) -> Lattice:
    """Return a lattice with another word on each arc, of a table that grows."""
    labels = np.where(lattice.word == 0, 0, words.intern(names)).astype(np.int32)
    return lattice.replace(word=frozen(labels), words=words)


def capital(text: str) -> str:
    """Write each word with a capital."""
    return " ".join(word[:1].upper() + word[1:] for word in text.split())


def write_sides(folder: Path, work: Path, limit: int) -> None:
    """Write lattices, symbol tables, references and phrases of both sides."""
    calls = folder / "test" / "calls"
    words, written = SymbolTable.read(folder / "words.txt.gz"), SymbolTable.growing()
    lines = text_of(str(calls / "entities.jsonl.gz")).splitlines()[:limit]
    records = {(record := json.loads(line))["utt"]: record for line in lines}
    spell = {key: Spelling(key, [entry["text"] for entry in record["list_100"]]) for key, record in records.items()}
    references = {key: text for key, text in read_text(calls / "text").items() if key in records}
    lattices = [lattice for key, lattice in read(calls / "lat.ark.gz", words=words) if key in records]
    versions = [[spell[lattice.key].lattice(lattice, version, written) for version in range(2)] for lattice in lattices]
    lexical = (
        SymbolTable.growing()
    )  # both sides have the words of the lattices, which are the words of the contextual model
    lattices = [with_words(lattice, names_of(lattice), lexical) for lattice in lattices]
    results = {"lexical": lattices, "written": [union(pair, SCALE, determinize=False) for pair in versions]}
    for side in SIDES:
        (work / side).mkdir(parents=True, exist_ok=True)
        change: Callable[[str], str] = capital if side == "written" else str

        def entries(phrases: list[dict[str, str]], change: Callable[[str], str] = change) -> list[dict[str, str]]:
            return [entry | {"text": change(entry["text"])} for entry in phrases]

        texts = references
        if side == "written":
            texts = {
                key: [spell[key].word(word, 2, is_first=not index) for index, word in enumerate(text)]
                for key, text in references.items()
            }
        lists = {key: {"entities": entries(record["list_100"])} for key, record in records.items()}
        truth = [json.dumps({"utt": key, "true": entries(record["true"])}) + "\n" for key, record in records.items()]
        (work / side / "text").write_text("".join(f"{key} {' '.join(text)}\n" for key, text in texts.items()))
        (work / side / "entities.json").write_text(json.dumps({"utterances": lists}))
        (work / side / "truth.jsonl").write_text("".join(truth))
        with write(work / side / "lat.ark.gz", words_out=work / side / "words.txt") as output:
            for lattice in results[side]:
                output.write(lattice)


def run(arguments: Sequence[str], work: Path) -> None:
    """Run a command in a folder; its messages are shown if it fails."""
    result = subprocess.run(ninja(*arguments), cwd=work, capture_output=True, text=True, check=False)
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
        sentence_errors = score(texts["lexical"], texts["written"], normalizer="basic").sentence_errors
        rates = [reports[side].overall for side in SIDES]
        entities = [reports[side].entities for side in SIDES]
        correct, inserted = ([getattr(rate, field) for rate in entities] for field in ("correct", "inserted"))
        is_equal = (
            not sentence_errors and rates[0] == rates[1] and correct[0] == correct[1] and inserted[0] == inserted[1]
        )
        form = f"{entities[1].in_form} / {entities[1].correct}"
        errors = [f"{rate.wer:.2f}" for rate in rates]
        yield row(name, sentence_errors, *errors, *correct, *inserted, form, "equal" if is_equal else "different")


@command
@argument("folder")
@argument("work")
@option("--limit", default=1000, help="Number of utterances.")
@option("--stage", "stages", multiple=True, type=click.Choice(list(STAGES)), help="Only these stages.")
def main(folder: Path, work: Path, limit: int, stages: tuple[str, ...]) -> None:
    write_sides(folder, work, limit)
    show(rows(work, stages or tuple(STAGES)))
