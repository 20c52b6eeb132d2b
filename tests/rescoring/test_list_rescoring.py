"""Rescored n-best lists: every hypothesis is returned with new scores and its original fields."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all

import ninja as package
from ninja.errors import OptionError
from ninja.formats.nbest.lattices import nbest_lattice
from ninja.graph import lattice_nbest
from ninja.lattice import Scales
from ninja.lattice.lattice import ListLattice
from ninja.lattice.nbest import NBest, sentence
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.equal_texts import merge_equal_texts
from ninja.rescoring.options import LISTS as LISTS_OF_ATTENTION
from ninja.rescoring.utterances import RescoreReport

pytestmark = pytest.mark.usefixtures("folder")

OPTIONS = RescoreOptions(acoustic_scale=1.0, max_unknown=1.0)
LISTS = [
    {
        "key": "u",
        "duration": 2.5,
        "nbest": [
            {"text": "W1 w2", "score": -3.0, "words": [], "speaker": "s1"},
            {"text": "w3", "score": -4.0, "tokens": [7, 8]},
        ],
        "audio_filepath": "/data/u.wav",
    },
    {"key": "v", "duration": 0.5, "nbest": []},
]


def write_lines(name, rows):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows_of(name):
    return [json.loads(row) for row in Path(name).read_text().splitlines()]


def rescored(source, target, form=None, options=OPTIONS, report=None):
    """Rescore a file and return the objects of the result."""
    write_all(
        target,
        (
            lattice
            for _, lattice in package.rescore(package.read(source, format=form), FakeLM(), options, report=report)
        ),
    )
    return rows_of(target)


def test_a_rescored_list_has_all_hypotheses_and_all_fields_with_new_scores():
    write_lines("in.jsonl", LISTS)
    first, second = rescored("in.jsonl", "out.jsonl")
    assert list(first) == ["key", "duration", "nbest", "audio_filepath"]
    assert (first["key"], first["duration"], first["audio_filepath"]) == ("u", 2.5, "/data/u.wav")
    by_text = {hypothesis.pop("text"): hypothesis for hypothesis in first["nbest"]}
    assert set(by_text) == {"W1 w2", "w3"}
    assert by_text["w3"].pop("tokens") == [7, 8]
    assert (by_text["W1 w2"].pop("speaker"), by_text["W1 w2"].pop("words")) == ("s1", [])
    for text, acoustic in (("W1 w2", -3.0), ("w3", -4.0)):
        hypothesis = by_text[text]
        assert hypothesis.pop("am_score") == acoustic
        total = acoustic + hypothesis.pop("lm_score")
        assert hypothesis == {"score": pytest.approx(total)}
        assert total < acoustic
    assert second == {"key": "v", "duration": 0.5, "nbest": [{"text": "", "am_score": 0.0, **second["nbest"][0]}]}


def test_a_list_of_more_than_a_hundred_hypotheses_is_written_completely():
    texts = [" ".join(f"w{1 + number // 8**place % 8}" for place in range(3)) for number in range(150)]
    hypotheses = [{"text": text, "score": -1.0} for text in texts]
    write_lines("in.jsonl", [{"key": "u", "nbest": hypotheses}])
    [row] = rescored("in.jsonl", "out.jsonl")
    assert {hypothesis["text"] for hypothesis in row["nbest"]} == set(texts)
    report = RescoreReport()
    [row] = rescored("in.jsonl", "few.jsonl", options=replace(OPTIONS, num_best=7, algorithm="nbest"), report=report)
    assert (len(row["nbest"]), report.left_out) == (7, 143)
    assert "143 hypotheses beyond --num-best dropped" in report.summary(1.0, 0.01)


def test_a_rescored_manifest_is_a_manifest():
    form = "json:key=audio_filepath,nbest=none,text=pred_text,missing_score=0"
    manifest = [
        {"audio_filepath": f"/data/{name}.wav", "duration": 1.5, "text": "w1 w2", "pred_text": text}
        for name, text in (("a", "w1 w3"), ("b", ""))
    ]
    write_lines("manifest.json", manifest)
    rows = rescored("manifest.json", "out.json", form)
    assert [{name: row[name] for name in manifest[0]} for row in rows] == manifest
    assert all(set(row) - set(manifest[0]) == {"score", "am_score", "lm_score"} for row in rows)
    assert [key for key, _ in package.read("out.json", format=form)] == ["/data/a.wav", "/data/b.wav"]


def test_nemo_beams_keep_the_fields_of_their_manifest():
    manifest = [{"audio_filepath": f"/data/{name}.wav", "duration": 1.5, "text": "w1"} for name in "ab"]
    write_lines("manifest.json", manifest)
    Path("beams.tsv").write_text("w1\t-1\nw2\t-2\nw3\t-1\nw4\t-3\n")
    rows = rescored("beams.tsv", "out.jsonl", "nemo:manifest=manifest.json")
    assert [row["key"] for row in rows] == ["a", "b"]
    assert [{name: row[name] for name in manifest[0]} for row in rows] == manifest
    assert sorted(hypothesis["text"] for hypothesis in rows[1]["nbest"]) == ["w3", "w4"]


@pytest.mark.parametrize(
    ("form", "hypothesis"),
    [
        ("json:score=avg_logprob", {"text": "w1", "avg_logprob": -2.0}),
        ("json:score=cost,meaning=cost,base=10", {"text": "w1", "cost": 2.0}),
        ("json:score=ctc+att", {"text": "w1", "ctc": -2.0, "att": -1.0}),
        ("json:am_score=ctc+att,lm_score=lm", {"text": "w1", "ctc": -2.0, "att": -1.0, "lm": -0.5}),
        ("json:text=sentence", {"sentence": ["w1"], "score": -2.0}),
    ],
)
def test_new_scores_have_the_field_names_and_meaning_of_the_old_scores(form, hypothesis):
    write_lines("in.jsonl", [{"key": "u", "nbest": [{**hypothesis, "extra": 1}]}])
    [(_, lattice)] = package.rescore(package.read("in.jsonl", format=form), FakeLM(), OPTIONS)
    [row] = rescored("in.jsonl", "out.jsonl", form)
    [rescored_hypothesis] = row["nbest"]
    assert rescored_hypothesis["extra"] == 1
    assert set(hypothesis) <= set(rescored_hypothesis)
    [(_, again)] = package.read("out.jsonl", format=form)
    [expected], [actual] = (lattice_nbest(source, 2).hypotheses for source in (lattice, again))
    total = expected.graph_cost + expected.acoustic_cost
    assert actual.words == expected.words
    assert actual.graph_cost + actual.acoustic_cost == pytest.approx(total, rel=1e-5)


def test_scores_in_a_list_beside_texts_become_fields_of_hypotheses():
    write_lines("in.jsonl", [{"key": "u", "hyps": ["w1", "w2"], "scores": [-1.0, -2.0], "lang": "en"}])
    [row] = rescored("in.jsonl", "out.jsonl", "json:nbest=hyps,score=scores")
    assert list(row) == ["key", "hyps", "lang"]
    assert [set(hypothesis) for hypothesis in row["hyps"]] == [{"text", "scores", "am_score", "lm_score"}] * 2


def test_fields_that_a_format_cannot_store_are_reported():
    write_lines("in.jsonl", LISTS[:1])
    [(_, lattice)] = package.read("in.jsonl")
    with package.write("out.nbest") as output:
        output.write(lattice)
    assert output.lost["other fields of the n-best list"] == 1
    with package.write("again.jsonl") as output:
        output.write(lattice)
    assert output.lost == {}
    write_lines("plain.jsonl", [{"key": "u", "nbest": [{"text": "a", "score": -1}]}])
    [(_, plain)] = package.read("plain.jsonl")
    assert isinstance(plain, ListLattice)
    assert plain.record is None


@pytest.mark.parametrize(("name", "form"), [("x.jsonl", "json"), ("x.nbest", "srilm")])
def test_a_list_without_hypotheses_is_written_as_an_empty_sentence(name, form):
    write_all(name, [NBest("x", ())])
    [(key, lattice)] = package.read(name, format=form)
    assert (key, lattice.num_arcs) == ("x", 0)


def test_commands_keep_the_fields_or_report_their_loss(ninja):
    write_lines("in.jsonl", LISTS[:1])
    assert ninja("convert", "in.jsonl", "-o", "out.jsonl")[0] == 0
    [row] = rows_of("out.jsonl")
    assert (row["duration"], row["nbest"][1]["tokens"]) == (2.5, [7, 8])
    code, _, errors = ninja("prune", "in.jsonl", "--beam", "0.5", "-o", "out.jsonl")
    assert (code, "additional fields of 1 n-best list are not written, because their paths changed" in errors) == (
        0,
        True,
    )


# The algorithm.


def test_the_algorithm_of_a_list_is_nbest_by_default():
    lattice = package.from_nbest("u", [("w1 w2", -1.0), ("w2", -2.0)])
    assert RescoreOptions().for_lattice(lattice).algorithm == "nbest"
    assert RescoreOptions().for_lattice(super(ListLattice, lattice).replace()).algorithm == "arcbeam"
    assert RescoreOptions(algorithm="cover").for_lattice(lattice).algorithm == "cover"
    results = {
        algorithm: dict(package.rescore([("u", lattice)], FakeLM(), replace(OPTIONS, algorithm=algorithm)))["u"]
        for algorithm in (None, "nbest")
    }
    assert results[None].identical(results["nbest"])
    assert isinstance(results[None], ListLattice)


def test_a_service_keeps_the_fields_and_the_algorithm_of_a_list():
    write_lines("in.jsonl", LISTS[:1])
    [(_, lattice)] = package.read("in.jsonl")
    with package.Rescorer(FakeLM(), OPTIONS) as rescorer:
        result = rescorer.submit(lattice).result(60)
    assert result.record == lattice.record


def test_options_that_contradict_each_other_are_refused_before_the_first_lattice():
    from ninja.rescoring.carry_over import CarryOver

    with pytest.raises(
        OptionError, match="carry_over cannot be used with a model that reads sentences backward; omit it"
    ):
        package.rescore([], FakeLM(), RescoreOptions(backward=True), carry_over=CarryOver())


# Equal texts.


def total(costs, scales):
    return -math.log(sum(math.exp(-scales.acoustic * acoustic - scales.lm * graph) for graph, acoustic in costs))


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "a b", "b"]), st.integers(0, 20), st.integers(0, 20)), min_size=1),
    st.sampled_from([0.0, 0.1, 1.0, 2.0]),
)
def test_probabilities_of_equal_texts_are_summed(hypotheses, acoustic_scale):
    scales = Scales(acoustic_scale)
    rows = tuple(sentence(text.split(), graph / 4, acoustic / 4) for text, graph, acoustic in hypotheses)
    lattice = nbest_lattice(NBest("u", rows))
    merged, num_merged = merge_equal_texts(lattice, scales)
    expected = {}
    for text, graph, acoustic in {(text, graph, acoustic) for text, graph, acoustic in hypotheses}:
        expected.setdefault(text, []).append((graph / 4, acoustic / 4))
    assert num_merged == sum(map(len, expected.values())) - len(expected)
    result = lattice_nbest(merged, 100)
    assert {" ".join(hypothesis.words) for hypothesis in result.hypotheses} == set(expected)
    for hypothesis in result.hypotheses:
        costs = expected[" ".join(hypothesis.words)]
        cost = acoustic_scale * hypothesis.acoustic_cost + hypothesis.graph_cost
        assert cost == pytest.approx(total(costs, scales), abs=1e-4)
        if acoustic_scale > 0:
            assert any(hypothesis.graph_cost == pytest.approx(graph, abs=1e-5) for graph, _ in costs)
    assert merge_equal_texts(merged, scales) == (merged, 0)


def test_equal_texts_are_merged_with_a_note():
    hypotheses = [{"text": "w1 w2", "score": -3.0, "id": 1}, {"text": "w1 w2", "score": -3.5, "id": 2}]
    write_lines("in.jsonl", [{"key": "u", "nbest": [*hypotheses, {"text": "w3", "score": -4.0}]}])
    notes = []
    report = RescoreReport(on_note=notes.append)
    [row] = rescored("in.jsonl", "out.jsonl", report=report)
    both = {hypothesis["text"]: hypothesis for hypothesis in row["nbest"]}
    assert set(both) == {"w1 w2", "w3"}
    assert both["w1 w2"]["am_score"] == pytest.approx(np.logaddexp(-3.0, -3.5), abs=1e-6)
    assert both["w1 w2"]["id"] == 1
    assert "u: 1 hypothesis repeats the text of a better one; the probabilities are summed" in notes
    assert "1 hypothesis with equal texts merged" in report.summary(1.0, 0.01)


def test_paths_of_lattices_that_are_not_lists_are_not_merged():
    lattice = nbest_lattice(NBest("u", (sentence("a", 1.0), sentence("a", 2.0))))
    plain = super(ListLattice, lattice).replace()
    assert merge_equal_texts(plain, Scales()) == (plain, 0)


def scales_beside(name):
    """Return the scales in the file next to the lattices."""
    lines = (line.split(" = ") for line in Path(f"{name}.scales.toml").read_text().splitlines() if " = " in line)
    return {option: float(value) for option, value in lines}


@pytest.mark.parametrize(
    ("arguments", "weight", "penalty"),
    [
        ([], LISTS_OF_ATTENTION.lm_weight, LISTS_OF_ATTENTION.word_penalty),
        (["--lm-weight", "0.3"], 0.3, 0.0),
        (["--config", "weights.toml"], 0.25, 0.0),
    ],
)
def test_rescore_uses_the_default_weights_of_lists_unless_the_user_sets_weights(ninja, arguments, weight, penalty):
    write_lines(
        "x.jsonl", [{"key": "u", "nbest": [{"text": "the house", "score": -3.0}, {"text": "a house", "score": -4}]}]
    )
    Path("weights.toml").write_text("lm_weight = 0.25\n")
    code, _, errors = ninja("rescore", "x.jsonl", "--rnnlm", "english-ngram", *arguments, "-o", "y.jsonl")
    assert code == 0
    assert ("the defaults for n-best lists" in errors.replace("acoustic scale 1, the default for", "")) == (
        not arguments
    )
    assert scales_beside("y.jsonl") == {"lm_weight": weight, "word_penalty": penalty, "acoustic_scale": 1.0}


def test_lists_with_graph_costs_keep_the_weights_of_lattices(ninja):
    scores = {"am_score": -3.0, "lm_score": -2.0}
    write_lines("x.jsonl", [{"key": "u", "nbest": [{"text": "the house", **scores}, {"text": "a house", **scores}]}])
    code, _, errors = ninja("rescore", "x.jsonl", "--rnnlm", "english-ngram", "-o", "y.jsonl")
    assert code == 0, errors
    assert scales_beside("y.jsonl")["lm_weight"] == RescoreOptions().lm_weight


def test_scales_beside_a_list_are_kept(ninja):
    write_lines(
        "x.jsonl", [{"key": "u", "nbest": [{"text": "the house", "score": -3}, {"text": "a house", "score": -4}]}]
    )
    Path("x.jsonl.scales.toml").write_text("acoustic_scale = 0.5\nword_penalty = 3.0\n")
    code, _, errors = ninja("rescore", "x.jsonl", "--rnnlm", "english-ngram", "-o", "y.jsonl")
    assert code == 0, errors
    assert scales_beside("y.jsonl") == {"lm_weight": 0.5, "word_penalty": 3.0, "acoustic_scale": 0.5}
