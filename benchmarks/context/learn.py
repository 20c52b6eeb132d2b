"""Learning from edits: rare words of unseen utterances by the same speakers, and errors of other words.

    python -m benchmarks.context learn ../shared/data/english ../shared/data/real

The utterances of 14 speakers are divided into eight parts. The differences between the recogniser's text and the
references of seven parts are the edits, about 500; the phrases that `ninja learn` adds to a list of 100 names, none of
which is spoken, correct the eighth part. Commands without names are corrected with the lists of all edits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zlib import crc32

from benchmarks.command import argument, command
from benchmarks.context.bed import Words
from benchmarks.context.correct import TITLES
from benchmarks.context.correct_cases import REAL, pool, posteriors, whisper_best
from benchmarks.tables import head, row, show
from ninja.context.correction.corrector import Corrector, apply_changes
from ninja.context.correction.edits import paired
from ninja.context.correction.learning import learn_edits
from ninja.context.correction.stage import Correcting, make_corrector
from ninja.context.entities.edit_evidence import without_last_run
from ninja.context.entities.lists import Entities
from ninja.errors import Log
from ninja.evaluate import BiasingList, read_biasing, read_text, score, score_biased
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC

PARTS = 8
COUNTS = (2,)


def recordings(english: Path, folder: Path) -> tuple[Words, Words, dict[str, BiasingList]]:
    """Return the hypotheses, the references and the rare words of a recogniser, of both sets."""
    hypotheses: Words = {}
    references: Words = {}
    rare: dict[str, BiasingList] = {}
    for part in ("dev", "test"):
        references |= read_text(folder / part / "text")
        rare |= read_biasing(folder / part / "biasing_100.jsonl.gz")
        if folder.name == "whisper":
            best = whisper_best(folder / part)
        else:
            best = posteriors(folder / part / "lat.ark.gz", SymbolTable.read(english / "words.txt.gz"))
        hypotheses |= {key: words for key, (words, _) in best.items()}
    return hypotheses, references, rare


def learned(names: bytes, edits: tuple[Words, Words], corrector: Corrector, min_count: int) -> Entities:
    """Return a list of names with the evidence of edits; undoing it restores the file."""
    result = learn_edits(paired(*edits), names, corrector, min_count=min_count)
    assert without_last_run(result.content, "") == names
    return Entities.parsed(result.content, normalizer=BASIC)


def corrected(corrector: Corrector, entities: Entities, texts: Mapping[str, Sequence[str]]) -> Words:
    """Return corrected texts."""
    return {
        key: BASIC.words(apply_changes(words, corrector.changes(words, entities.of(key))))
        for key, words in texts.items()
    }


def figures(references: Words, rare: Mapping[str, BiasingList], texts: Words, before: Words) -> Iterator[object]:
    """Yield the number of rare words that are right, error rates, and the number of utterances that differ."""
    right = total = 0
    for key, entry in rare.items():
        spoken = Counter(word for word in references[key] if word in entry.rare)
        total += spoken.total()
        right += (spoken & Counter(texts.get(key, []))).total()
    yield from (f"{right} of {total}" if total else "–", f"{score(references, texts).wer:.2f}")
    yield f"{score_biased(references, texts, rare).unbiased.wer:.2f}" if total else "–"
    yield sum(texts[key] != words for key, words in before.items())


def rows(english: Path, real: Path) -> Iterator[str]:
    """Yield a row for each recogniser and each number of edits from which evidence is used."""
    corrector = make_corrector(Correcting(Entities.from_dict({})), BASIC, Log())
    listed = pool(english / "pools" / "pool0.tsv.gz", 100)
    names = "".join(f"{phrase.text}\n" for phrase in listed.classes[""]).encode()
    general: Words = {}
    general_references: Words = {}
    for part in ("dev", "test"):
        general |= read_text(english / part / "general" / "first_pass_1best")
        general_references |= read_text(english / part / "general" / "text")
    yield from head(
        "set", "evidence from", "edits", "rare words right", "WER", "WER on other words", "utterances changed"
    )
    start = Entities.parsed(names, normalizer=BASIC)
    first = corrected(corrector, start, general)
    yield row("commands without names", "–", "–", *figures(general_references, {}, first, general))
    for bed in REAL:
        hypotheses, references, rare = recordings(english, real / bed)
        part_of = {key: crc32(key.encode()) % PARTS for key in hypotheses}
        first = corrected(corrector, start, hypotheses)
        yield row(TITLES[bed], "–", "–", *figures(references, rare, first, hypotheses))
        for min_count in COUNTS:
            after: Words = {}
            for number in range(PARTS):
                edits = {key: words for key, words in hypotheses.items() if part_of[key] != number}
                entities = learned(names, (edits, references), corrector, min_count)
                unseen = {key: words for key, words in hypotheses.items() if part_of[key] == number}
                after |= corrected(corrector, entities, unseen)
            size = f"{len(hypotheses) * (PARTS - 1) / PARTS:.0f}"
            yield row(TITLES[bed], min_count, size, *figures(references, rare, after, hypotheses))
            entities = learned(names, (hypotheses, references), corrector, min_count)
            texts = corrected(corrector, entities, general)
            numbers = figures(general_references, {}, texts, general)
            yield row(f"commands, edits of {TITLES[bed]}", min_count, len(hypotheses), *numbers)


@command
@argument("english")
@argument("real")
def main(english: Path, real: Path) -> None:
    show(rows(english, real))
