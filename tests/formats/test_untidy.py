"""Untidy inputs: unrelated files in folders, padded columns, fields in any order, tokenizers that merge words."""

from __future__ import annotations

import itertools
import json
import os
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
from lattice_files import write_all

import ninja as package
from ninja import ChosenScales, Scales, find_scales
from ninja.decoding import ctc_nbest, ctc_units
from ninja.decoding.matrices import read_matrices
from ninja.errors import ModelError
from ninja.lm.huggingface.spelling import CARRIER, Spelling

HYPOTHESIS = b"-12.5 -3.5 2 the cat\n"


@pytest.mark.timeout(60)  # reading a pipe without a writer would never end
def test_hidden_files_and_pipes_of_a_folder_are_ignored_silently(tmp_path: Path) -> None:
    (tmp_path / "utt.nbest").write_bytes(HYPOTHESIS)
    os.mkfifo(tmp_path / "pipe.nbest")
    for name in (".DS_Store", "._utt.nbest", ".old.nbest", ".utt.nbest.part"):
        (tmp_path / name).write_bytes(b"\0\0\0\1Bud1\0" if name == ".DS_Store" else HYPOTHESIS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [key for key, _ in package.read(tmp_path)] == ["utt"]


@pytest.mark.timeout(60)
def test_a_folder_of_matrices_can_contain_other_files(tmp_path: Path) -> None:
    (tmp_path / "more.npy").mkdir()
    os.mkfifo(tmp_path / "pipe.npy")
    for name in ("a.npy", "b.npy", ".c.npy", "more.npy/d.npy"):
        np.save(tmp_path / name, np.zeros((2, 3), np.float32))
    (tmp_path / "README.txt").write_text("two matrices\n")
    (tmp_path / "._a.npy").write_bytes(b"\0\5\26\7\0\2\0\0Mac OS X")
    (tmp_path / "empty").touch()
    assert [key for key, _, _ in read_matrices(tmp_path)] == ["a", "b"]


def likeliest(*units: int, count: int) -> np.ndarray:
    """Return log-probabilities of frames, each with one unit of probability 0.9."""
    probability = np.full((len(units), count), 0.1 / (count - 1))
    probability[np.arange(len(units)), units] = 0.9
    return np.log(probability)


def test_units_that_are_never_spoken_are_in_no_word() -> None:
    units = ctc_units(["<blk>", "a", "b", "|", "<pad>", "<s>"], 0, boundary="|", never=["<pad>", "<s>"])
    for hypothesis in ctc_nbest(likeliest(1, 4, 2, 4, 5, count=6), units):
        assert not {*hypothesis.text} - {*"ab "}, hypothesis


@pytest.mark.parametrize("columns", [3, 8])
def test_a_matrix_with_padded_or_missing_columns_is_refused(columns: int) -> None:
    units = ctc_units(["<blk>", "a", "b", "|"], 0, boundary="|")
    with pytest.raises(ModelError, match=f"the matrix has {columns} columns, but there are 4 units"):
        ctc_nbest(likeliest(1, 2, count=columns), units)


def test_ctc_decode_never_writes_padding_units(ninja, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "tokens.txt").write_text("<blk> 0\na 1\n<pad> 2\n<s> 3\n</s> 4\n<eps> 5\n<sos/eos> 6\n| 7\n")
    np.save(tmp_path / "utt.npy", likeliest(1, 2, 3, 4, 5, 6, count=8).astype(np.float32))
    options = ("--tokens", tmp_path / "tokens.txt", "--blank", "<blk>", "--words-out", tmp_path / "words.txt")
    code, _, errors = ninja("ctc-decode", tmp_path / "utt.npy", *options, "-o", tmp_path / "out.ark")
    assert code == 0, errors
    words = [line.split()[0] for line in (tmp_path / "words.txt").read_text().splitlines()]
    assert {letter for word in words[1:] for letter in word} == {"a"}


def test_fields_of_json_can_be_in_any_order(tmp_path: Path) -> None:
    hypothesis = {"text": "a b", "score": -1.5, "tokens": [1, 2], "note": "x"}
    results = set()
    for outer in itertools.permutations(["key", "nbest", "duration"]):
        for inner in itertools.permutations(hypothesis):
            row = {"key": "u", "nbest": [{name: hypothesis[name] for name in inner}], "duration": 1.5}
            (tmp_path / "x.jsonl").write_text(json.dumps({name: row[name] for name in outer}) + "\n")
            ((key, lattice),) = package.read(tmp_path / "x.jsonl")
            path = package.graph.best_path(lattice)
            results.add((key, *lattice.words.spell(path.words), path.graph_cost, path.acoustic_cost))
    assert len(results) == 1, results
    assert next(iter(results))[:3] == ("u", "a", "b")


def test_options_of_toml_can_be_in_any_order(tmp_path: Path) -> None:
    lattice = package.graph.from_arcs("utt", [0], [1], [5], [0.5], finals={1: 0.0})
    scales = ChosenScales(Scales(0.1, 2.0, 0.5), lm_weight=0.5)
    write_all(tmp_path / "x.ark", [lattice], chosen=scales)
    (file,) = tmp_path.glob("*.scales.toml")
    lines = [line for line in file.read_text().splitlines() if "=" in line]
    assert len(lines) >= 3
    for permutation in itertools.permutations(lines):
        file.write_text("\n".join(permutation) + "\n")
        assert find_scales(tmp_path / "x.ark") == scales


@pytest.mark.parametrize("seed", range(20))
def test_fields_and_lines_of_slf_can_be_in_any_order(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = ["I=0 t=0.00", "I=1 t=0.10", "I=2 t=0.20"]
    rows += ["J=0 S=0 E=1 W=a a=-1 l=-2", "J=1 S=0 E=1 W=b a=-3 l=-4", "J=2 S=1 E=2 W=c a=-5 l=-6"]
    expected = None
    for is_shuffled in (False, True):
        lines, head = list(rows), ["VERSION=1.0", "UTTERANCE=u", "base=10", "N=3 L=3"]
        if is_shuffled:
            lines = [" ".join([row.split()[0], *rng.sample(row.split()[1:], row.count("=") - 1)]) for row in rows]
            rng.shuffle(lines)
            head = [*rng.sample(head[:3], 3), rng.choice(["N=3 L=3", "L=3 N=3"])]
        (tmp_path / "x.slf").write_text("\n".join([*head, *lines]) + "\n")
        ((key, lattice),) = package.read(tmp_path / "x.slf")
        paths = package.graph.nbest(lattice, 5)
        costs = [(lattice.words.spell(path.words), path.graph_cost, path.acoustic_cost) for path in paths]
        expected = expected or (key, costs, lattice.time.tolist())
        assert (key, costs, lattice.time.tolist()) == expected


class Joining:
    """A tokenizer of letters that merges the carrier and a word that begins with x into one piece."""

    unk_token_id = None

    def __call__(self, texts: list[str], add_special_tokens: bool) -> dict[str, list[list[int]]]:
        return {"input_ids": [[ord(letter) for letter in self.joined(text)] for text in texts]}

    def joined(self, text: str) -> str:
        return f"\x01{text[3:]}" if text.startswith(f"{CARRIER} x") else text


def test_a_tokenizer_that_merges_words_is_refused() -> None:
    spelling = Spelling(Joining(), 2, 3, 0x110000, path="m")
    words = np.array([spelling.vocabulary.id(word) for word in ("by", "xy")])
    begin, count = spelling.places(words[:1], np.array([False]))
    assert [chr(code) for code in spelling.piece[begin[0] : begin[0] + count[0]]] == [" ", "b", "y"]
    spelling.places(words, np.array([True, True]))  # no text precedes the first word
    with pytest.raises(ModelError, match="the tokenizer merges 'a' and 'xy' into one piece, so words cannot be scored"):
        spelling.places(words, np.array([False, False]))
