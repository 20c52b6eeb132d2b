"""Utterances for correction: hypotheses, confidences, phrase lists and references of the test-beds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ninja import read
from ninja.consensus import mbr_decode
from ninja.context.entities.lists import Phrase, PhraseList
from ninja.evaluate import read_biasing, read_text
from ninja.files.stream import text_of
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC

SCALE = 0.1  # acoustic scale of the lattices whose best paths are corrected


@dataclass(frozen=True, slots=True)
class Case:
    """An utterance and its phrase lists."""

    bed: str  # calls, general, libri, whisper or pocketsphinx
    size: int  # phrases of the list
    key: str
    words: list[str]
    confidences: list[float] | None
    lists: tuple[PhraseList, ...]
    reference: list[str]
    spoken: tuple[str, ...]  # phrases of the lists that are spoken
    is_known: bool = True  # whether the recogniser knows their words

    def without_spoken(self) -> Case | None:
        """Return the case without its spoken phrases; None if a shared list has them."""
        if any(phrases.name and contains(self.reference, phrases) for phrases in self.lists):
            return None
        lists = tuple(filter(None, (self._cleaned(phrases) for phrases in self.lists)))
        return replace(self, lists=lists, spoken=())

    def _cleaned(self, phrases: PhraseList) -> PhraseList | None:
        if phrases.name:
            return phrases
        texts = [phrase.text for phrase in phrases.classes[""] if not is_in(phrase.text.split(), self.reference)]
        return phrase_list(tuple(texts)) if texts else None


def is_in(phrase: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether words contain a phrase."""
    size = len(phrase)
    return any(list(words[at : at + size]) == list(phrase) for at in range(len(words) - size + 1))


def contains(words: Sequence[str], phrases: PhraseList) -> bool:
    """Return whether words contain a phrase of a list."""
    text = f" {' '.join(words)} "
    return any(f" {phrase.text} " in text for phrase in phrases.classes[""])


@cache
def phrase_list(texts: tuple[str, ...], name: str = "") -> PhraseList:
    """Return a list of phrases of no class."""
    return PhraseList(name, {"": tuple(map(Phrase, dict.fromkeys(texts)))})


@cache
def pool(path: Path, size: int) -> PhraseList:
    """Return the first phrases of a pool, a list that utterances share."""
    rows = text_of(str(path)).splitlines()[:size]
    return phrase_list(tuple(line.split("\t")[1] for line in rows), path.stem)


def cases(english: Path, real: Path, part: str, sizes: Sequence[int]) -> Iterator[Case]:
    """Yield the utterances of a part, "dev" or "test", with lists of each size."""
    words = SymbolTable.read(english / "words.txt.gz")
    for bed in ("calls", "general"):
        folder = english / part / bed
        records = [json.loads(line) for line in text_of(str(folder / "entities.jsonl.gz")).splitlines()]
        hypotheses, references = read_text(folder / "first_pass_1best"), read_text(folder / "text")
        best_of = posteriors(folder / "lat.ark.gz", words)
        for size, record in ((size, record) for size in sizes for record in records):
            key = record["utt"]
            spoken = tuple(entry["text"] for entry in record["true"])
            best, confidences = best_of.get(key, ([], None))
            word_confidences = confidences if best == hypotheses[key] else None
            lists = _lists(english, record, spoken, size)
            yield Case(
                bed,
                size,
                key,
                hypotheses[key],
                word_confidences,
                lists,
                references[key],
                spoken,
                bool(record.get("in_dict")),
            )
    for bed, folder in (("libri", english / part / "libri"), *((name, real / name / part) for name in REAL)):
        references = read_text(folder / "text")
        best_paths = whisper_best(folder) if bed == "whisper" else posteriors(folder / "lat.ark.gz", words)
        for size in (size for size in sizes if size in (100, 1000)):
            biasing = read_biasing(folder / f"biasing_{size}.jsonl.gz")
            for key, (hypothesis, confidences) in best_paths.items():
                if key not in references or key not in biasing:
                    continue
                reference = BASIC.words(references[key])
                spoken = tuple(word for word in biasing[key].bias if word in reference)
                lists = (phrase_list(tuple(biasing[key].bias)),)
                yield Case(bed, size, key, hypothesis, confidences, lists, references[key], spoken)


REAL = ("whisper", "pocketsphinx")
SLICES = 50  # lists of 100 names in a pool


class UnspokenNames:
    """Replaces the lists of utterances by 100 names, none of which is spoken.

    Args:
        english: The test-bed with the names.
    """

    def __init__(self, english: Path) -> None:
        self._pools = [pool(english / "pools" / f"pool{number}.tsv.gz", 100 * SLICES) for number in range(10)]
        self._num_read = 0

    def of(self, case: Case) -> Case | None:
        """Return an utterance with a list of 100 phrases with names; None if it has another list."""
        if case.size != 100:
            return None
        if case.bed == "general":
            return case
        if case.bed == "calls":
            unspoken_case = case.without_spoken()
            return unspoken_case if unspoken_case is not None and unspoken_case.lists else None
        texts = [phrase.text for phrase in self._pools[self._num_read % 10].classes[""]]
        begin = 100 * (self._num_read // 10 % SLICES)
        unspoken = [text for text in texts[begin : begin + 100] if not is_in(text.split(), case.reference)]
        self._num_read += 1
        return replace(case, lists=(phrase_list(tuple(unspoken)),), spoken=())


def _lists(english: Path, record: dict[str, Any], spoken: tuple[str, ...], size: int) -> tuple[PhraseList, ...]:
    if size <= 100:
        return (phrase_list(tuple(entry["text"] for entry in record[f"list_{size}"])),)
    shared = pool(english / record["pool_file"], size)
    return (shared, phrase_list(spoken)) if spoken else (shared,)


def posteriors(archive: Path, words: SymbolTable) -> dict[str, tuple[list[str], list[float] | None]]:
    """Return the words of best paths and their posteriors."""
    results: dict[str, tuple[list[str], list[float] | None]] = {}
    for key, lattice in read(archive, words=words):
        best = mbr_decode(lattice, Scales(SCALE), decode_mbr=False)
        results[key] = words.spell(best.words.tolist()), [float(value) for value in best.confidences]
    return results


def whisper_best(folder: Path, name: str = "nbest") -> dict[str, tuple[list[str], list[float] | None]]:
    """Return the best hypotheses of Whisper, which have no confidences."""
    results: dict[str, tuple[list[str], list[float] | None]] = {}
    for line in text_of(str(folder / f"{name}.jsonl.gz")).splitlines():
        record = json.loads(line)
        best = max(record["nbest"], key=lambda hypothesis: hypothesis["score"])
        results[record["key"]] = best["text"].split(), None
    return results
