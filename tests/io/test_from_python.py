"""Conversion of n-best lists, CTC matrices and k2 FSAs in memory to lattices and back, and the repr of objects."""

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


def path_rows(lattice: ninja.Lattice, n: int = 10) -> list[tuple[str, float, float]]:
    assert lattice.words is not None
    paths = ninja.graph.nbest(lattice, n)
    return [(" ".join(lattice.words.spell(path.words)), path.acoustic_cost, path.graph_cost) for path in paths]


def test_log_probabilities_become_negated_acoustic_costs() -> None:
    lattice = ninja.from_nbest("utt", LIST)
    assert path_rows(lattice) == [("the cat sat", 3.0, 0.0), ("the cat sad", 4.5, 0.0), ("a cat", 5.0, 0.0)]
    assert lattice.num_arcs == 6  # "the cat" is shared


def test_separate_scores_stay_separate_and_costs_keep_their_sign() -> None:
    separate = ninja.from_nbest("utt", [("a b", -1.0, -20.0), ("a c", -2.0, -10.0)])
    assert path_rows(separate) == [("a c", 2.0, 10.0), ("a b", 1.0, 20.0)]
    kaldi = ninja.from_nbest("utt", [("a b", 1.0, 20.0), ("a c", 2.0, 10.0)], scores="cost")
    assert kaldi.identical(separate)


def test_hypotheses_may_be_texts_or_word_lists_with_torch_or_numpy_scores() -> None:
    rows = [(["new york", "city"], torch.tensor(-1.0)), ("", np.float32(-2.0)), (("a",), -3)]
    assert path_rows(ninja.from_nbest("utt", rows)) == [("new york city", 1.0, 0.0), ("", 2.0, 0.0), ("a", 3.0, 0.0)]


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(OptionError, match="key is empty, but must be an utterance id"):
        ninja.from_nbest("", LIST)


INVALID_METADATA = [
    ({"key": 3}, "key is 3, but must be an utterance id of type str"),
    ({"key": 0}, "key is 0, but must be an utterance id of type str"),
    ({"words": "words.txt"}, "words is 'words.txt', but must be a SymbolTable; SymbolTable.read reads a file"),
    ({"frame_shift": -0.01}, "frame_shift is -0.01, but must be from"),
    ({"frame_shift": math.nan}, "frame_shift is nan, but must be from"),
]


@pytest.mark.parametrize(("metadata", "message"), INVALID_METADATA)
def test_invalid_keys_words_and_frame_shifts_are_refused_by_every_function(
    metadata: dict[str, object], message: str
) -> None:
    fsa = ninja.to_k2(ninja.from_nbest("utt", LIST))
    calls: list[Callable[..., object]] = [
        lambda key="u", **metadata: ninja.from_ctc(key, LOGITS, LETTERS, 0, scale="logit", boundary="|", **metadata),
        lambda key="u", **metadata: ninja.Lattice.from_arrays(
            key, [0, 1, 1], [1], [1], [0], [0], [math.inf, 0], **metadata
        ),
    ]
    if "frame_shift" not in metadata:
        calls += [lambda key="u", **metadata: ninja.from_nbest(key, LIST, **metadata)]
        calls += [lambda key="u", **metadata: ninja.from_k2(fsa, [key], **metadata)]
    for call in calls:
        with pytest.raises(OptionError, match=message):
            call(**metadata)


def test_numpy_strings_are_valid_keys() -> None:
    fsa = ninja.to_k2(ninja.from_nbest("utt", LIST))
    assert [key for key, _ in ninja.from_k2(fsa, np.array(["utt"]))] == ["utt"]  # type: ignore[arg-type]


def test_an_empty_list_becomes_an_empty_sentence() -> None:
    assert path_rows(ninja.from_nbest("utt", [])) == [("", 0.0, 0.0)]


def test_lists_share_a_growing_symbol_table() -> None:
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
def test_nbest_paths_of_a_lattice_equal_the_list_it_was_made_from(rows: list[tuple[str, int]]) -> None:
    paths = path_rows(ninja.from_nbest("utt", rows))
    assert {text: -acoustic for text, acoustic, _ in paths} == dict(rows)
    assert [cost for _, cost, _ in paths] == sorted(-score for _, score in rows)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
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
def test_malformed_hypotheses_are_refused_with_a_message(
    rows: object, options: dict[str, object], message: str
) -> None:
    with pytest.raises((LatticeError, OptionError, SymbolError), match=message):
        ninja.from_nbest("utt", rows, **options)  # type: ignore[arg-type]


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


def test_result_lattices_have_the_keys_of_the_pairs() -> None:
    pairs = [(key, ninja.from_nbest("utt", LIST)) for key in ("a", "b")]
    lm = ninja.lm.load("english-ngram")
    options = ninja.RescoreOptions(max_unknown=1.0)
    entities = ninja.context.Entities.from_dict({"@name": ["tom"]})
    for results in (
        ninja.rescore(pairs, lm, options),
        ninja.rescoring.iterate(pairs, [(lm, options)]),
        ninja.correct(pairs, entities),
        ninja.pipeline.stream(pairs, ninja.pipeline.OnLattices(lambda lattice: lattice)),
    ):
        assert [(key, lattice.key) for key, lattice in results] == [("a", "a"), ("b", "b")]


LETTERS = ["<pad>", "|", "a", "b", "c"]
LOGITS = torch.tensor([[0, 0, 5, 0, 0], [0, 0, 0, 4, 3], [0, 5, 0, 0, 0], [0, 0, 0, 0, 5]], dtype=torch.float32)


def test_from_ctc_agrees_with_ctc_lattice() -> None:
    units = ninja.decoding.ctc_units(LETTERS, "<pad>", boundary="|")
    logprob = ninja.decoding.log_probabilities(LOGITS, "logit")
    expected = ninja.decoding.ctc_lattice(logprob, units, "utt", frame_shift=0.02)
    tensor = LOGITS.clone().requires_grad_().bfloat16()
    ctc_options = {"blank": "<pad>", "boundary": "|", "frame_shift": 0.02}
    for matrix, scale in ((LOGITS, "logit"), (logprob, "logprob"), (logprob.tolist(), "logprob"), (tensor, "logit")):
        lattice = ninja.from_ctc("utt", matrix, LETTERS, scale=scale, **ctc_options)  # type: ignore[arg-type]
        assert lattice.identical(expected)
    assert ninja.from_ctc("utt", logprob, units, frame_shift=0.02).identical(expected)
    assert path_rows(expected, 1)[0][0] == "ab c"


def test_from_ctc_adds_words_to_a_growing_symbol_table() -> None:
    words = ninja.SymbolTable.growing()
    lattice = ninja.from_ctc("utt", LOGITS, LETTERS, 0, scale="logit", boundary="|", words=words)
    assert lattice.words is words
    assert {"ab", "ac", "c"} <= {word for word, _ in words}


def test_from_ctc_refuses_a_missing_blank_and_unnormalized_scores() -> None:
    with pytest.raises(OptionError, match="blank is missing; specify the name or the column"):
        ninja.from_ctc("utt", LOGITS, LETTERS)
    with pytest.raises(
        ModelError,
        match=r"the probabilities of frame 0 sum to .*--scale logit, or in Python ninja\.decoding\.log_probabilities",
    ):
        ninja.from_ctc("utt", LOGITS, LETTERS, 0)


class FakeFsa:
    """Fake of k2.Fsa that only converts from and to a dictionary and keeps all attributes."""

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
def test_k2_round_trip_is_lossless_except_for_alignments_and_times(originals: list[ninja.Lattice]) -> None:
    originals = [ninja.graph.connect(lattice) for lattice in originals]
    fsa = ninja.to_k2([(lattice.key, lattice) for lattice in originals])
    results = ninja.from_k2(fsa, [lattice.key for lattice in originals])
    assert [key for key, _ in results] == [lattice.key for lattice in originals]
    for (_, lattice), expected in zip(results, originals, strict=True):
        expected = ninja.graph.remove_alignments(expected)
        expected = expected.replace(time=None, kind="compact")
        assert lattice.identical(expected)


def test_k2_files_and_objects_have_equal_contents(tmp_path) -> None:  # type: ignore[no-untyped-def]
    lattice = ninja.from_nbest("utt", [("a b", -1.0, -2.0), ("a c", -2.0, -2.0)])
    write_all(tmp_path / "x.pt", [lattice], to="k2:extras=false")
    file_contents = torch.load(tmp_path / "x.pt")
    fsa = ninja.to_k2(lattice).as_dict()
    assert file_contents.keys() == fsa.keys()
    assert all(torch.equal(file_contents[name], fsa[name]) for name in file_contents)
    [(key, result)] = ninja.from_k2(FakeFsa(file_contents), "utt", words=lattice.words)
    assert key == "utt"
    assert path_rows(result) == path_rows(lattice)


def test_an_icefall_fsa_is_converted_with_words_scores_and_symbols() -> None:
    # One FSA with two axes: several words per arc, a symbol table, only one score per arc, gradients.
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
    assert (key, path_rows(lattice)) == ("1", [("new york", 2.0, 0.0)])
    [(_, lattice)] = ninja.from_k2(fsa, scores_are="graph")
    assert path_rows(lattice) == [("new york", 0.0, 2.0)]


def test_invalid_fsas_and_key_counts_are_refused_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = ninja.from_nbest("utt", LIST)
    with pytest.raises(OptionError, match="there are 2 keys, but 1 lattices"):
        ninja.from_k2(ninja.to_k2(lattice), ["a", "b"])
    with pytest.raises(FormatError, match=r"a k2\.Fsa or its as_dict"):
        ninja.from_k2(lattice)
    truncated = {**ninja.to_k2(lattice).as_dict(), "lm_scores": torch.zeros(2)}
    with pytest.raises(FormatError, match="lm_scores has 2 entries, but there are"):
        ninja.from_k2(truncated)
    monkeypatch.setitem(sys.modules, "k2", None)
    with pytest.raises(DependencyError, match=r'k2 is not installed; .* ninja.write\("lattices.pt"\)'):
        ninja.to_k2(lattice)


def test_reprs_of_objects_fit_on_one_line() -> None:
    lattice = ninja.from_nbest("utt", LIST)
    words = " ".join("word" for _ in range(500))
    lines = [
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
    assert all("\n" not in line and len(line) < 160 for line in lines)
    assert lines[1] == "Path(3 words: 1 2 3; graph cost 0, acoustic cost 3)"
    assert lines[3] == "NBest('utt', 1 hypothesis, the first Hypothesis('the cat'; graph cost 1, acoustic cost 2.5))"


def public(name: str, value: object, objects: dict[int, tuple[str, object]]) -> None:
    if id(value) in objects:
        return
    if inspect.ismodule(value):
        for attribute in getattr(value, "__all__", ()):
            public(f"{name}.{attribute}", getattr(value, attribute), objects)
    elif inspect.isclass(value) or inspect.isroutine(value):
        objects[id(value)] = name, value


def test_public_objects_have_docstrings_and_annotated_parameters() -> None:
    objects: dict[int, tuple[str, object]] = {}
    public("ninja", ninja, objects)
    assert len(objects) > 150
    for name, value in objects.values():
        assert inspect.getdoc(value), f"{name} has no docstring"
        if getattr(value, "_is_protocol", False) or (isinstance(value, type) and issubclass(value, NinjaError)):
            continue
        for parameter in inspect.signature(value).parameters.values():  # type: ignore[arg-type]
            variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            annotated = parameter.annotation is not parameter.empty
            assert (annotated and not variadic) or inspect.isabstract(value), f"{name} has the parameter {parameter}"
