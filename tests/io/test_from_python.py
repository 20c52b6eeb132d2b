"""Lattices from n-best lists, CTC matrices and k2's FSAs in memory, and back; their display in Python."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all
from strategies import lattices

import ninja
from ninja.errors import DependencyError, FormatError, LatticeError, ModelError, NinjaError, OptionError, SymbolError
from ninja.lattice.nbest import NBest, sentence

LIST = [("the cat sat", -3.0), ("the cat sad", -4.5), ("a cat", -5.0)]


def listed(lattice: ninja.Lattice, n: int = 10) -> list[tuple[str, float, float]]:
    assert lattice.words is not None
    paths = ninja.graph.nbest(lattice, n)
    return [(" ".join(lattice.words.spell(path.words)), path.acoustic_cost, path.graph_cost) for path in paths]


def test_log_probabilities_become_acoustic_costs_of_the_other_sign() -> None:
    lattice = ninja.from_nbest("utt", LIST)
    assert listed(lattice) == [("the cat sat", 3.0, 0.0), ("the cat sad", 4.5, 0.0), ("a cat", 5.0, 0.0)]
    assert lattice.num_arcs == 6  # "the cat" is shared


def test_scores_that_are_apart_stay_so_and_costs_keep_their_sign() -> None:
    apart = ninja.from_nbest("utt", [("a b", -1.0, -20.0), ("a c", -2.0, -10.0)])
    assert listed(apart) == [("a c", 2.0, 10.0), ("a b", 1.0, 20.0)]
    kaldi = ninja.from_nbest("utt", [("a b", 1.0, 20.0), ("a c", 2.0, 10.0)], scores="cost")
    assert kaldi.identical(apart)


def test_numbers_of_torch_and_numpy_lists_of_words_and_empty_texts_will_do() -> None:
    rows = [(["new york", "city"], torch.tensor(-1.0)), ("", np.float32(-2.0)), (("a",), -3)]
    assert listed(ninja.from_nbest("utt", rows)) == [("new york city", 1.0, 0.0), ("", 2.0, 0.0), ("a", 3.0, 0.0)]


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(OptionError, match="key is empty, but must be an utterance id"):
        ninja.from_nbest("", LIST)


WRONG = [
    ({"key": 3}, "key is 3, but must be an utterance id of type str"),
    ({"key": 0}, "key is 0, but must be an utterance id of type str"),
    ({"words": "words.txt"}, "words is 'words.txt', but must be a SymbolTable; SymbolTable.read reads a file"),
    ({"frame_shift": -0.01}, "frame_shift is -0.01, but must be from"),
    ({"frame_shift": math.nan}, "frame_shift is nan, but must be from"),
]


@pytest.mark.parametrize(("how", "message"), WRONG)
def test_descriptions_of_wrong_types_are_refused_in_every_call(how: dict[str, object], message: str) -> None:
    fsa = ninja.to_k2(ninja.from_nbest("utt", LIST))
    calls: list[Callable[..., object]] = [
        lambda key="u", **how: ninja.from_ctc(key, LOGITS, LETTERS, 0, scale="logit", boundary="|", **how),
        lambda key="u", **how: ninja.Lattice.from_arrays(key, [0, 1, 1], [1], [1], [0], [0], [math.inf, 0], **how),
    ]
    if "frame_shift" not in how:
        calls += [lambda key="u", **how: ninja.from_nbest(key, LIST, **how)]
        calls += [lambda key="u", **how: ninja.from_k2(fsa, [key], **how)]
    for call in calls:
        with pytest.raises(OptionError, match=message):
            call(**how)


def test_keys_of_numpy_are_keys() -> None:
    fsa = ninja.to_k2(ninja.from_nbest("utt", LIST))
    assert [key for key, _ in ninja.from_k2(fsa, np.array(["utt"]))] == ["utt"]  # type: ignore[arg-type]


def test_no_hypotheses_are_an_empty_sentence() -> None:
    assert listed(ninja.from_nbest("utt", [])) == [("", 0.0, 0.0)]


def test_lists_share_a_table_that_grows() -> None:
    words = ninja.SymbolTable.growing()
    first, second = (ninja.from_nbest(key, [(key, -1.0)], words=words) for key in ("a", "b"))
    assert first.words is second.words is words
    assert (first.word.tolist(), second.word.tolist()) == ([1], [2])


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abc"), max_size=4).map(" ".join), st.integers(-40, 0)),
        min_size=1,
        max_size=6,
        unique_by=lambda row: row[0],
    )
)
def test_a_list_comes_back_from_its_lattice(rows: list[tuple[str, int]]) -> None:
    found = listed(ninja.from_nbest("utt", rows))
    assert {text: -acoustic for text, acoustic, _ in found} == dict(rows)
    assert [cost for _, cost, _ in found] == sorted(-score for _, score in rows)


@pytest.mark.parametrize(
    ("rows", "how", "message"),
    [
        ([("a", -math.inf)], {}, "'utt': hypothesis 1 has the score -inf; remove the hypothesis"),
        ([("a", -1.0), ("b", math.nan)], {}, "'utt': hypothesis 2 has the score nan; remove the hypothesis"),
        (["the cat"], {}, r"hypothesis 1 of 'utt' is 'the cat', but must be \(text, score\) or \(text, acoustic score"),
        ([("a", -1.0), ("a", 1, 2, 3)], {}, r"hypothesis 2 of 'utt' is \('a', 1, 2, 3\), but"),
        ([(-1.0, "a")], {}, r"hypothesis 1 of 'utt' has the text -1.0, but it must be a string or a sequence of words"),
        ([("a", 10**400)], {}, r"hypothesis 1 of 'utt' has the score 10+, but it must be a number"),
        ([("a", "b")], {}, r"hypothesis 1 of 'utt' has the score 'b', but"),
        ("the cat", {}, "hypotheses is a str, but must be a sequence of"),
        ([("a", -1.0)], {"scores": "prob"}, "scores is 'prob', but must be logprob or cost"),
        ([("a <eps>", -1.0)], {}, "'<eps>', which is epsilon"),
        ([("a", -1.0)], {"words": ninja.SymbolTable.from_words(["<eps>"])}, "word 'a' is not in the symbol table"),
    ],
)
def test_malformed_lists_are_refused_in_words(rows: object, how: dict[str, object], message: str) -> None:
    with pytest.raises((LatticeError, OptionError, SymbolError), match=message):
        ninja.from_nbest("utt", rows, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ninja.read(None), "source is None, but must be a path, or several paths"),  # type: ignore[call-overload]
        (lambda: ninja.read(["a", 5]), "source is 5, but must be"),  # type: ignore[call-overload]
        (lambda: ninja.write(None), "name is None, but must be a path or a wspecifier"),  # type: ignore[arg-type]
        (lambda: ninja.write("a.ark", kind="x"), "kind is 'x', but must be compact or raw"),  # type: ignore[arg-type]
    ],
)
def test_sources_and_outputs_of_wrong_types_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        call()


def test_pairs_name_their_lattices_in_every_call() -> None:
    named = [(key, ninja.from_nbest("utt", LIST)) for key in ("a", "b")]
    lm = ninja.lm.load("english-ngram")
    options = ninja.RescoreOptions(max_unknown=1.0)
    entities = ninja.context.Entities.from_dict({"@name": ["tom"]})
    for results in (
        ninja.rescore(named, lm, options),
        ninja.rescoring.iterate(named, [(lm, options)]),
        ninja.correct(named, entities),
        ninja.pipeline.stream(named, ninja.pipeline.OnLattices(lambda lattice: lattice)),
    ):
        assert [(key, lattice.key) for key, lattice in results] == [("a", "a"), ("b", "b")]


LETTERS = ["<pad>", "|", "a", "b", "c"]
LOGITS = torch.tensor([[0, 0, 5, 0, 0], [0, 0, 0, 4, 3], [0, 5, 0, 0, 0], [0, 0, 0, 0, 5]], dtype=torch.float32)


def test_a_matrix_becomes_the_lattice_that_its_parts_make() -> None:
    units = ninja.decoding.ctc_units(LETTERS, "<pad>", boundary="|")
    logprob = ninja.decoding.log_probabilities(LOGITS, "logit")
    expected = ninja.decoding.ctc_lattice(logprob, units, "utt", frame_shift=0.02)
    tensor = LOGITS.clone().requires_grad_().bfloat16()
    how = {"blank": "<pad>", "boundary": "|", "frame_shift": 0.02}
    for matrix, scale in ((LOGITS, "logit"), (logprob, "logprob"), (logprob.tolist(), "logprob"), (tensor, "logit")):
        found = ninja.from_ctc("utt", matrix, LETTERS, scale=scale, **how)  # type: ignore[arg-type]
        assert found.identical(expected)
    assert ninja.from_ctc("utt", logprob, units, frame_shift=0.02).identical(expected)
    assert listed(expected, 1)[0][0] == "ab c"


def test_words_of_a_matrix_enter_a_table_that_grows() -> None:
    words = ninja.SymbolTable.growing()
    lattice = ninja.from_ctc("utt", LOGITS, LETTERS, 0, scale="logit", boundary="|", words=words)
    assert lattice.words is words
    assert {"ab", "ac", "c"} <= {word for word, _ in words}


def test_a_matrix_without_a_blank_or_of_another_scale_is_refused_in_words() -> None:
    with pytest.raises(OptionError, match="blank is missing; specify the name or the column"):
        ninja.from_ctc("utt", LOGITS, LETTERS)
    with pytest.raises(
        ModelError,
        match=r"the probabilities of frame 0 sum to .*--scale logit, or in Python ninja\.decoding\.log_probabilities",
    ):
        ninja.from_ctc("utt", LOGITS, LETTERS, 0)


class FakeFsa:
    """The part of k2's Fsa that converts from and to a dictionary, with attributes unchanged."""

    def __init__(self, content: dict[str, object]) -> None:
        self.content = content

    @classmethod
    def from_dict(cls, content: dict[str, object]) -> FakeFsa:
        assert all(isinstance(value, torch.Tensor) for value in content.values())
        return cls(content)

    def as_dict(self) -> dict[str, object]:
        return self.content


@pytest.fixture(autouse=True)
def k2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "k2", SimpleNamespace(Fsa=FakeFsa))


@given(st.lists(lattices(max_states=5), min_size=1, max_size=3))
def test_lattices_come_back_from_k2_without_their_alignments(given: list[ninja.Lattice]) -> None:
    given = [ninja.graph.connect(each) for each in given]
    fsa = ninja.to_k2([(each.key, each) for each in given])
    found = ninja.from_k2(fsa, [each.key for each in given])
    assert [key for key, _ in found] == [each.key for each in given]
    for (_, lattice), expected in zip(found, given, strict=True):
        expected = ninja.graph.remove_alignments(expected)
        expected = expected.replace(time=None, kind="compact")
        assert lattice.identical(expected)


def test_k2_files_and_objects_hold_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    lattice = ninja.from_nbest("utt", [("a b", -1.0, -2.0), ("a c", -2.0, -2.0)])
    write_all(tmp_path / "x.pt", [lattice], to="k2:extras=false")
    saved = torch.load(tmp_path / "x.pt")
    made = ninja.to_k2(lattice).as_dict()
    assert saved.keys() == made.keys()
    assert all(torch.equal(saved[name], made[name]) for name in saved)
    [(key, found)] = ninja.from_k2(FakeFsa(saved), "utt", words=lattice.words)
    assert key == "utt"
    assert listed(found) == listed(lattice)


def test_a_lattice_of_icefall_gives_its_words_scores_and_names() -> None:
    # One FSA of two axes: several words on an arc, names of words, scores alone, gradients.
    arcs = torch.tensor([[0, 1, 7, 0], [1, 2, -1, 0]], dtype=torch.int32)
    arcs[:, 3] = torch.tensor([-1.5, -0.5]).view(torch.int32)
    ragged = SimpleNamespace(
        row_splits=lambda axis: torch.tensor([0, 2, 3], dtype=torch.int32),
        values=torch.tensor([3, 4, -1], dtype=torch.int32),
    )
    names = SimpleNamespace(_id2sym={0: "<eps>", 3: "new", 4: "york"})
    scores = torch.tensor([-1.5, -0.5], requires_grad=True)
    fsa = FakeFsa({"arcs": arcs, "scores": scores, "aux_labels": ragged, "aux_labels_sym": names, "properties": 3})
    [(key, lattice)] = ninja.from_k2(fsa)
    assert (key, listed(lattice)) == ("1", [("new york", 2.0, 0.0)])
    [(_, lattice)] = ninja.from_k2(fsa, scores_are="graph")
    assert listed(lattice) == [("new york", 0.0, 2.0)]


def test_fsas_that_fit_no_keys_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = ninja.from_nbest("utt", LIST)
    with pytest.raises(OptionError, match="there are 2 keys, but 1 lattices"):
        ninja.from_k2(ninja.to_k2(lattice), ["a", "b"])
    with pytest.raises(FormatError, match=r"a k2\.Fsa or its as_dict"):
        ninja.from_k2(lattice)
    short = {**ninja.to_k2(lattice).as_dict(), "lm_scores": torch.zeros(2)}
    with pytest.raises(FormatError, match="lm_scores has 2 entries, but there are"):
        ninja.from_k2(short)
    monkeypatch.setitem(sys.modules, "k2", None)
    with pytest.raises(DependencyError, match=r'k2 is not installed; .* ninja.write\("lattices.pt"\)'):
        ninja.to_k2(lattice)


def test_objects_are_shown_in_one_line() -> None:
    lattice = ninja.from_nbest("utt", LIST)
    words = " ".join("word" for _ in range(500))
    shown = [
        repr(lattice),
        repr(ninja.graph.best_path(lattice)),
        repr(ninja.graph.best_path(ninja.from_nbest("utt", [(words, -1.0)]))),
        repr(NBest("utt", (sentence(["the", "cat"], 1.0, 2.5),))),
        repr(ninja.consensus.confusion_network(ninja.consensus.mbr_decode(lattice))),
        repr(
            ninja.decoding.ctc_nbest(
                ninja.decoding.log_probabilities(LOGITS, "logit"), ninja.decoding.ctc_units(LETTERS, 0)
            )[0]
        ),
    ]
    assert all("\n" not in each and len(each) < 160 for each in shown)
    assert shown[1] == "Path(3 words: 1 2 3; graph cost 0, acoustic cost 3)"
    assert shown[3] == "NBest('utt', 1 hypothesis, the first Hypothesis('the cat'; graph cost 1, acoustic cost 2.5))"


def public(name: str, found: object, seen: dict[int, tuple[str, object]]) -> None:
    if id(found) in seen:
        return
    if inspect.ismodule(found):
        for each in getattr(found, "__all__", ()):
            public(f"{name}.{each}", getattr(found, each), seen)
    elif inspect.isclass(found) or inspect.isroutine(found):
        seen[id(found)] = name, found


def test_signatures_and_help_tell() -> None:
    seen: dict[int, tuple[str, object]] = {}
    public("ninja", ninja, seen)
    assert len(seen) > 150
    for name, found in seen.values():
        assert inspect.getdoc(found), f"{name} says nothing"
        if getattr(found, "_is_protocol", False) or (isinstance(found, type) and issubclass(found, NinjaError)):
            continue
        for each in inspect.signature(found).parameters.values():  # type: ignore[arg-type]
            named = each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and each.annotation is not each.empty
            assert named or inspect.isabstract(found), f"{name} takes {each}"
