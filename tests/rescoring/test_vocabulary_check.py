"""The vocabulary check: the total over a run is reported, and each file is accepted or refused."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from lattice_files import write_all
from reference_ngram import SlowNgram, write_arpa

import ninja as package
from ninja.errors import VocabularyError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.rescoring import ModelFiles, RescoreOptions, Rescorer, RescoreReport, iterate, rescore

TABLE = SymbolTable([("<eps>", 0), ("a", 1), ("b", 2), ("c", 3), ("x", 4), ("y", 5)])
KNOWN, UNKNOWN = [1, 2, 3, 1], [4, 5, 4, 5]


def chain(key: str, words: list[int], table: SymbolTable = TABLE) -> Lattice:
    """Return a lattice of one path."""
    count = len(words)
    return Lattice.from_arrays(
        key, np.minimum(np.arange(count + 2), count), np.arange(1, count + 1), words, np.zeros(count), np.zeros(count),
        np.where(np.arange(count + 1) == count, 0.0, np.inf), words=table,
    )  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    logprobs = {(word,): (-1.0, 0.0) for word in ("<s>", "</s>", "<unk>", "a", "b", "c")}
    path.write_bytes(write_arpa(SlowNgram(1, logprobs)))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write three archives of four lattices: the model knows all words of the first, and none of the others."""
    place = tmp_path / "in"
    place.mkdir()
    for name, words in (("1", KNOWN), ("2", UNKNOWN), ("3", UNKNOWN)):
        write_all(place / f"lat.{name}.ark", (chain(f"{name}-{number}", words) for number in range(4)))
    (place / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in TABLE))
    return place


def commands(model: Path, tmp_path: Path) -> dict[str, list[object]]:
    entities = tmp_path / "e.json"
    entities.write_text('{"@name": ["b"]}')
    of_context = ["--entities", entities, "--class-lm", model, "--old-lm", model]
    return {
        "rescore": ["--rnnlm", model],
        "iterate": ["--rnnlm", model, "--rnnlm", model, "--iterate", "forward,forward"],
        "lmrescore": ["--lm", model],
        "context": of_context,
        "context-jobs": [*of_context, "--jobs", 2],
    }


@pytest.mark.parametrize("verb", ["rescore", "iterate", "lmrescore", "context", "context-jobs"])
def test_each_file_in_a_folder_is_tested_and_the_total_share_is_reported(ninja, model, folder, tmp_path, verb):
    options = commands(model, tmp_path)[verb]
    command = {"iterate": "rescore", "context-jobs": "context"}.get(verb, verb)
    out = tmp_path / "out"
    code, _, errors = ninja(command, folder, *options, "-o", f"{out}/")
    assert code == 1
    assert sorted(path.name for path in out.glob("*.ark")) == ["lat.1.ark"]
    for name in ("2", "3"):
        assert re.search(rf"failed: .*lat\.{name}\.ark: 100\.0% of arcs have words unknown to the", errors), errors
    assert "66.7% of arcs" in errors
    code, _, errors = ninja(command, folder, *options, "--max-unknown", 1, "-o", f"{out}/")
    assert code == 0
    assert len([*out.glob("*.ark")]) == 3
    assert re.findall(r"vocabulary: (\S+) of arcs have words unknown to the (?:old )?language model", errors) == (
        ["66.7%"] * (2 if verb == "iterate" else 1)
    )


@pytest.mark.parametrize("verb", ["rescore", "lmrescore", "context"])
def test_a_file_of_unknown_words_after_other_files_is_refused(ninja, model, folder, tmp_path, verb):
    out = tmp_path / "out.ark"
    with package.write(folder / "lat.1.ark") as output:  # many more lattices than in the other files
        for number in range(300):
            output.write(chain(f"1-{number}", KNOWN))
    code, _, errors = ninja(verb, folder, *commands(model, tmp_path)[verb], "-o", out)
    assert code == 1
    assert re.search(r"lat\.2\.ark: 100\.0% of arcs have words unknown to the", errors)
    assert not out.exists()


def test_files_with_one_lattice_are_tested_together(ninja, model, tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    for number in range(6):
        write_all(place / f"{number}.slf", [chain(str(number), UNKNOWN if number < 2 else KNOWN)])
    arguments = ["rescore", place, "--rnnlm", model, "-o", tmp_path / "out.ark"]
    code, _, errors = ninja(*arguments)
    assert code == 0, errors
    assert "vocabulary: 33.3% of arcs have words unknown to the language model (2 of 5 words" in errors
    for number in range(2, 4):
        write_all(place / f"{number}.slf", [chain(str(number), UNKNOWN)])
    code, _, errors = ninja(*arguments)
    assert code == 1
    assert "66.7% of arcs have words unknown" in errors


def lattices(num_known: int, num_unknown: int) -> list[tuple[str, Lattice]]:
    table = symbols()
    words = [[1, 1]] * num_known + [[2, 3]] * num_unknown
    return [(str(number), chain(str(number), ids, table)) for number, ids in enumerate(words)]


@pytest.mark.parametrize("call", ["rescore", "iterate", "call"])
def test_words_after_the_first_batch_are_tested(call: str) -> None:
    lm, options, report = FakeLM(num_words=1), RescoreOptions(batch_arcs=20), RescoreReport()
    source = lattices(150, 200)
    if call == "rescore":
        results = rescore(source, lm, options, report=report)
    elif call == "iterate":
        results = iterate(source, [(lm, options)] * 2, report=report)
    else:
        results = Rescorer(lm, options)(source, report)
    with pytest.raises(VocabularyError, match=r"57\.1% of arcs have words unknown .* more than max_unknown = 50%"):
        list(results)
    report = RescoreReport()
    assert len(list(rescore(lattices(200, 150), lm, options, report=report))) == 350
    assert report.coverages[0].share == pytest.approx(150 / 350)
    assert report.coverages[0].unknown_words == 2


def test_a_wrong_model_is_refused_before_all_lattices_are_rescored() -> None:
    lm = FakeLM(num_words=1)
    results = rescore(lattices(0, 1000), lm, RescoreOptions(batch_arcs=20))
    with pytest.raises(VocabularyError, match="more than max_unknown"):
        list(results)
    assert lm.num_scored < 1000


def test_a_rescorer_tests_each_call(model: Path) -> None:
    rescorer = Rescorer(ModelFiles((model,)), RescoreOptions())
    good = [("g", chain("g", KNOWN))]
    for _ in range(2):
        assert list(rescorer(good))
        with pytest.raises(VocabularyError):
            list(rescorer([("b", chain("b", UNKNOWN))]))


def test_the_decision_about_a_lattice_does_not_depend_on_others_in_flight() -> None:
    table = symbols()
    strange, familiar = chain("s", [1, 2, 3], table), chain("k", [1, 1, 2], table)
    refused: dict[str, list[bool]] = {"s": [], "k": []}

    with Rescorer(FakeLM(num_words=1), RescoreOptions(), max_latency=0.0) as rescorer:

        def ask(order: list[Lattice]) -> None:
            for lattice in order:
                error = rescorer.submit(lattice).exception()
                assert error is None or isinstance(error, VocabularyError)
                refused[lattice.key].append(error is not None)

        callers = [threading.Thread(target=ask, args=([strange, familiar][:: 1 - 2 * (n % 2)] * 50,)) for n in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert refused == {"s": [True] * 200, "k": [False] * 200}
