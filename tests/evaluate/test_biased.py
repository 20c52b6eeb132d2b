"""Biased and unbiased word error rates, with the same digits as the benchmark."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_align import align as align_slowly
from reference_align import all_alignments, cost, counts
from reference_graph import SHARED

from ninja.errors import FormatError, InputError, OptionError
from ninja.evaluate import BiasedRate, BiasingList, ErrorRate, read_biasing, read_text, score, score_biased
from ninja.evaluate.biased import align

SAMPLE = Path(__file__).parents[1] / "data" / "bias"
BENCHMARK = SHARED / "data" / "bias"
RESULTS = sorted((BENCHMARK / "results").glob("*.result"))
WORDS = st.lists(st.sampled_from("abc"), max_size=7)
Ninja = Callable[..., tuple[int, str, str]]


@given(WORDS, WORDS)
def test_alignment_agrees_with_the_benchmark(reference: list[str], hypothesis: list[str]) -> None:
    assert align(reference, hypothesis).pairs == align_slowly(reference, hypothesis)


@given(st.lists(st.sampled_from("ab"), max_size=4), st.lists(st.sampled_from("abc"), max_size=4))
def test_alignment_has_the_lowest_cost_of_all_alignments(reference: list[str], hypothesis: list[str]) -> None:
    cheapest = min(map(cost, all_alignments(reference, hypothesis)))
    assert cost(align(reference, hypothesis).pairs) == cheapest


@given(st.lists(st.tuples(WORDS, WORDS, st.frozensets(st.sampled_from("abc"))), min_size=1, max_size=4))
def test_errors_on_rare_words_are_biased_errors(
    utterances: list[tuple[list[str], list[str], frozenset[str]]],
) -> None:
    keys = [f"u{i}" for i in range(len(utterances))]
    lists = {key: BiasingList(rare) for key, (_, _, rare) in zip(keys, utterances, strict=True)}
    references = {key: utterance[0] for key, utterance in zip(keys, utterances, strict=True)}
    hypotheses = {key: utterance[1] for key, utterance in zip(keys, utterances, strict=True)}
    rate = score_biased(references, hypotheses, lists)
    pairs = {True: [], False: []}  # type: ignore[var-annotated]
    for reference, hypothesis, rare in utterances:
        for pair in align_slowly(reference, hypothesis):
            pairs[(pair[1] if pair[0] is None else pair[0]) in rare].append(pair)
    for part, expected in ((rate.biased, pairs[True]), (rate.unbiased, pairs[False])):
        assert (part.words, part.substitutions, part.insertions, part.deletions) == counts(expected)
    assert rate.overall.errors == rate.biased.errors + rate.unbiased.errors
    assert rate.overall.words == rate.biased.words + rate.unbiased.words
    rates = [score_biased({k: references[k]}, {k: hypotheses[k]}, lists) for k in keys]
    assert sum(rates, BiasedRate()) == rate


def test_an_inserted_rare_word_is_a_biased_error() -> None:
    lists = {"u": BiasingList(frozenset({"zoe"}))}
    rate = score_biased({"u": ["call", "zoe", "now"]}, {"u": ["call", "zoe", "zoe", "and", "now"]}, lists)
    assert (rate.biased.insertions, rate.unbiased.insertions) == (1, 1)
    assert (rate.biased.words, rate.unbiased.words, rate.biased.wer) == (1, 2, 100.0)
    assert (rate.overall.sentences, rate.biased.sentence_errors, rate.unbiased.sentence_errors) == (1, 1, 1)


def test_ties_of_alignments_prefer_a_final_diagonal_move() -> None:
    assert align(["cutter's", "deck"], ["cutters"]).pairs == (("cutter's", None), ("deck", "cutters"))
    assert align(["rew"], ["rew", "rew"]).pairs == ((None, "rew"), ("rew", "rew"))


def test_sample_gives_manually_counted_figures(ninja: Ninja) -> None:
    references, hypotheses = SAMPLE / "sample.ref.tsv", SAMPLE / "sample.hyp.tsv"
    code, output, errors = ninja("score", references, hypotheses, "--biasing", references)
    assert (code, output, errors) == (0, (SAMPLE / "sample.result").read_text(), "")
    lists, hypothesis_texts = read_biasing(references), read_text(hypotheses)
    alignments = [f"{key}\n{align(biasing.text or (), hypothesis_texts[key])}\n\n" for key, biasing in lists.items()]
    assert "".join(alignments) == (SAMPLE / "sample.alignments").read_text()


# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not RESULTS, reason=f"{BENCHMARK} does not exist")
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_benchmark_figures_are_reproduced_exactly(path: Path) -> None:
    name = path.name.removesuffix(".result")
    lists = read_biasing(BENCHMARK / "ref" / f"{name[: len('test-clean')]}.biasing_100.tsv.gz")
    references = {key: biasing.text or () for key, biasing in lists.items()}
    rate = score_biased(references, read_text(BENCHMARK / "hyp" / f"{name}.gz"), lists)
    assert str(rate) == path.read_text().strip()
    assert all(biasing.rare <= set(biasing.bias) for biasing in lists.values())


def test_tables_and_json_lines_give_the_same_lists(tmp_path: Path, ninja: Ninja) -> None:
    table = SAMPLE / "sample.ref.tsv"
    rows = [row.split("\t") for row in table.read_text().splitlines()]
    objects = [{"utt": u, "text": t, "rare": json.loads(r), "bias": json.loads(b)} for u, t, r, b in rows]
    path = tmp_path / "lists.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, objects)).encode()))
    assert read_biasing(path) == read_biasing(table)
    short = tmp_path / "short.tsv"
    short.write_text("\r\n".join("\t".join(row[:3]) for row in rows))
    assert {key: biasing.rare for key, biasing in read_biasing(short).items()} == {
        row[0]: frozenset(json.loads(row[2])) for row in rows
    }
    assert ninja("score", path, SAMPLE / "sample.hyp.tsv", "--biasing", path) == ninja(
        "score", table, SAMPLE / "sample.hyp.tsv", "--biasing", table
    )


def test_unmatched_utterances_are_counted_as_in_plain_scoring(tmp_path: Path, ninja: Ninja) -> None:
    references = {"u1": ["a"], "u2": ["b", "c"]}
    lists = {"u1": BiasingList(frozenset("a")), "u2": BiasingList(frozenset("c")), "u9": BiasingList(frozenset())}
    with pytest.raises(FormatError, match=r"key 'u2': no hypothesis for 1 of 2 references"):
        score_biased(references, {"u1": ["a"]}, lists)
    with pytest.raises(FormatError, match="no reference has a hypothesis"):
        score_biased(references, {"u3": ["a"]}, lists, "all")
    with pytest.raises(OptionError, match="mode is 'some'"):
        score_biased(references, {"u1": ["a"]}, lists, "some")  # type: ignore[arg-type]
    all_mode = score_biased(references, {"u1": ["a"], "u3": ["x"]}, lists, "all")
    assert (all_mode.overall.errors, all_mode.biased.deletions, all_mode.biased.words) == (2, 1, 2)
    assert (all_mode.overall.missing, all_mode.overall.unreferenced) == (1, 1)
    assert all_mode.overall == score(references, {"u1": ["a"], "u3": ["x"]}, "all")
    assert score_biased(references, {"u1": ["a"]}, lists, "present").overall.words == 1
    (tmp_path / "lists").write_text('{"utt": "u1", "rare": ["a"]}\n{"utt": "u2", "rare": []}\n')
    (tmp_path / "ref").write_text("u1 a\nu2 b c\n")
    (tmp_path / "hyp").write_text("u1 a\nu3 x\n")
    call = ("score", tmp_path / "ref", tmp_path / "hyp", "--biasing", tmp_path / "lists")
    code, output, errors = ninja(*call, "--mode", "all")
    assert (code, output.splitlines()[0]) == (0, f"WER: error_rate={200 / 3}, ref_words=3, subs=0, ins=0, dels=2")
    assert errors == (
        "ninja: 1 reference without a hypothesis: scored as empty\n"
        "ninja: 1 hypothesis has no reference and was not scored\n"
    )
    assert ninja(*call)[0] == 1


def test_reference_without_a_biasing_list_raises_format_error() -> None:
    with pytest.raises(FormatError, match=r"key 'u2': no biasing list for 1 of 2 references; add an empty list for"):
        score_biased({"u1": ["a"], "u2": []}, {"u1": [], "u2": []}, {"u1": BiasingList(frozenset())})


def test_biased_rates_add_only_to_biased_rates() -> None:
    assert BiasedRate().overall == ErrorRate()
    with pytest.raises(TypeError):
        BiasedRate() + 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "lists: the file is empty"),
        (b"u1\ta\t[]\t[]\n\n", "lists:2: expected an utterance id, its text, the JSON list of its rare words and"),
        (b"u1 a b\n", "lists:1: expected an utterance id.*separated by tabs; found 'u1 a b'"),
        (b"u1\ta\t[]\t[]\t[]\n", "lists:1: expected an utterance id"),
        (b"u1\ta\t[]\nu1\ta\t[]\n", "lists:2: utterance 'u1' occurs twice"),
        (b"u1\ta\t[a]\n", r"lists:1: '\[a\]' is not JSON: Expecting value"),
        (b'u1\ta\t{"a": 1}\n', "lists:1: 'rare' is {'a': 1}, but must be a list of words"),
        (b"u1\ta\t[1]\n", "lists:1: 'rare' contains 1, which is not a single word"),
        (
            b'u1\ta\t[]\t["new york"]\n',
            "lists:1: 'bias' contains 'new york', which is not a single word; list the words of",
        ),
        (b'{"utt": "u1", "rare": []}\n[]\n', "lists:2: expected a JSON object with utt, text, rare, bias; found"),
        (
            b'{"utt": "u1", "rare": [], "beam": 1}\n',
            "lists:1: unknown key 'beam'; valid keys are utt, text, rare, bias",
        ),
        (b'{"utt": "u1"}\n', "lists:1: 'rare' is missing; specify the rare words of the reference"),
        (b'{"rare": []}\n', "lists:1: 'utt' is missing; specify the utterance id"),
        (b'{"utt": 1, "rare": []}\n', "lists:1: the utterance id is 1, but must be a non-empty string"),
        (b'{"utt": "u1", "rare": [], "text": 3}\n', "lists:1: the text of 'u1' is 3, but must be a string"),
        (b'{"utt": ' + b"[" * 100_000, "lists:1: .* is not JSON: maximum recursion"),
        (b"u1\t\xff\t[]\n", r"lists:1: not UTF-8 \(invalid start byte\)"),
        (gzip.compress(b"u1\ta\t[]\n")[:-4], "lists: the gzip stream is truncated"),
    ],
)
def test_damaged_biasing_lists_raise_format_error_with_their_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "lists"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_biasing(path)


def test_missing_biasing_list_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing: cannot be read"):
        read_biasing(tmp_path / "nothing")


def test_biasing_lists_without_texts_cannot_be_references(tmp_path: Path, ninja: Ninja) -> None:
    path = tmp_path / "lists"
    path.write_text('{"utt": "u1", "rare": []}\n')
    code, _, errors = ninja("score", path, SAMPLE / "sample.hyp.tsv", "--biasing", path)
    assert code == 1
    assert "key 'u1': the biasing list contains no text; use another file as REFERENCE" in errors


@pytest.mark.parametrize("options", [("--alignments", "ali"), ("--entities", "e.json"), ("--oracle", "--words", "w")])
def test_options_that_conflict_with_biasing_are_a_usage_error(options: tuple[str, ...], ninja: Ninja) -> None:
    code, _, errors = ninja("score", "ref", "hyp", "--biasing", "lists", *options)
    assert code == 2
    assert "cannot be used with" in errors
