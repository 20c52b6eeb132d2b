import gzip
import json
import math
import string

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_ctc import (
    best_alignment_cost,
    collapse,
    segmentation_scores,
    sentence_scores,
    slow_lattice,
    slow_search,
    split_words,
)
from reference_graph import SHARED

from ninja import SymbolTable
from ninja.context.grammar.tracker import Tracker
from ninja.decoding import CtcOptions, ctc_lattice, ctc_nbest, log_probabilities
from ninja.decoding.ctc import ctc_search
from ninja.decoding.lexicon import ctc_lexicon, read_ctc_lexicon, spelled_by_letters
from ninja.decoding.units import ctc_units, read_unit_names, sentencepiece_names
from ninja.errors import FormatError, LatticeError, ModelError, OptionError, SymbolError
from ninja.graph import nbest, state_times

WIDE = CtcOptions(beam=0, score_beam=math.inf)
LETTERS = ctc_units([" ", "a", "b", ""], -1, boundary=" ")
PIECES = ctc_units(["<blk>", "▁a", "b", "▁"], "<blk>", "pieces")
TWICE = ctc_units(["<blk>", "▁a", "a", "▁"], "<blk>", "pieces")  # two spellings of "a"
WORDS = ctc_units(["a", "b", "<unk>", "-"], "-", "words", never=["<unk>"])

LETTER_TABLE = SymbolTable.from_words(["<eps>", *"abcd"])  # without phrases, the tracker of a table scores nothing


@st.composite
def matrices(draw, num_units=4, max_frames=6):
    frames = draw(st.integers(0, max_frames))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(frames, num_units)) * draw(st.sampled_from([0.3, 1.0, 4.0]))
    if draw(st.booleans()):
        values[rng.random(values.shape) < 0.2] = -np.inf
        values[:, draw(st.integers(0, num_units - 1))] = 0.0
    return log_probabilities(values, "logit")


def texts(hypotheses):
    return {tuple(words[0] for words in hypothesis.words): hypothesis.score for hypothesis in hypotheses}


def assert_same_scores(scores, expected):
    assert scores.keys() == expected.keys()
    for words, logprob in expected.items():
        assert scores[words] == pytest.approx(logprob, abs=1e-9)


@given(matrices(), st.sampled_from([LETTERS, PIECES, TWICE, WORDS]))
def test_unlimited_search_sums_the_probabilities_of_all_alignments(logprob, units):
    assert_same_scores(texts(ctc_nbest(logprob, units, options=WIDE)), sentence_scores(logprob, units))


@given(matrices())
def test_a_lexicon_restricts_sentences_to_its_words(logprob):
    allowed = ("a", "ab", "ba")
    lexicon = ctc_lexicon(spelled_by_letters(allowed), LETTERS)
    expected = {k: v for k, v in sentence_scores(logprob, LETTERS).items() if set(k) <= set(allowed)}
    assert_same_scores(texts(ctc_nbest(logprob, LETTERS, lexicon, WIDE)), expected)


@given(matrices(num_units=3))
def test_a_lexicon_separates_words_without_boundaries(logprob):
    units = ctc_units(["_", "a", "b"], "_")
    spellings = {(1,): "A", (2,): "B", (1, 2): "AB", (1, 1): "AA"}
    lexicon = ctc_lexicon([(word, [units.names[n] for n in spelled]) for spelled, word in spellings.items()], units)
    expected = {
        tuple(spellings[piece] for piece in cut_words): score
        for cut_words, score in segmentation_scores(logprob, units, spellings).items()
    }
    assert_same_scores(texts(ctc_nbest(logprob, units, lexicon, WIDE)), expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_long_search_with_released_prefixes_agrees_with_a_slow_one(seed):
    units = ctc_units(["a", "b", "-"], "-", "words")
    logprob = log_probabilities(2.0 * np.random.default_rng(seed).normal(size=(1500, 3)), "logit")
    options = CtcOptions(beam=10)
    slow = ctc_nbest(logprob, units, options=options, tracker=Tracker(LETTER_TABLE))
    fast = ctc_nbest(logprob, units, options=options)
    assert_same_scores(texts(fast), {tuple("ab"[u] for u in h.units): h.score for h in slow})
    assert [hypothesis.units for hypothesis in fast] == [hypothesis.units for hypothesis in slow]
    for hypothesis in fast:
        assert (np.diff(hypothesis.begin) > 0).all()
        alignment = np.full(1500, 2)
        for words, begin, end in zip(hypothesis.words, hypothesis.begin, hypothesis.end, strict=True):
            alignment[begin:end] = "ab".index(words[0])
        assert logprob[np.arange(1500), alignment].sum() == pytest.approx(-sum(hypothesis.cost))
        assert hypothesis.alignment.tolist() == alignment.tolist()


@given(matrices(num_units=5, max_frames=12), st.integers(1, 8), st.integers(0, 3), st.integers(0, 1))
def test_beam_search_agrees_with_the_search_with_a_tracker(logprob, beam, max_units, num_never):
    # Every unit is a word, so that both searches have the same prefixes.
    units = ctc_units([*"abcd", "-"], "-", "words", never=[*"d"][:num_never])
    options = CtcOptions(beam=beam, score_beam=9.0, max_units=max_units)
    slow = ctc_nbest(logprob, units, options=options, tracker=Tracker(LETTER_TABLE))
    assert_same_scores(
        texts(ctc_nbest(logprob, units, options=options)), {tuple("abcd"[u] for u in h.units): h.score for h in slow}
    )


@given(
    matrices(max_frames=10),
    st.sampled_from([LETTERS, PIECES, TWICE, WORDS]),
    st.booleans(),
    st.sampled_from([1, 2, 5, 20, 0]),
    st.sampled_from([3.0, 20.0, math.inf]),
    st.integers(0, 3),
)
def test_beam_search_agrees_with_a_slow_search(logprob, units, listed, beam, score_beam, max_units):
    spelled = {LETTERS: [["a"], ["a", "b"], ["b", "a"]], PIECES: [["▁a"], ["▁a", "b", "b"], ["b"]]}
    spelled = spelled.get(units) if listed else None
    options = CtcOptions(beam=beam or 10_000, score_beam=score_beam, max_units=max_units)
    spellings = spelled and {tuple(map(units.names.index, pieces)) for pieces in spelled}
    lexicon = spelled and ctc_lexicon([("".join(pieces).replace("▁", ""), pieces) for pieces in spelled], units)
    assert_same_scores(
        texts(ctc_nbest(logprob, units, lexicon, options)), slow_search(logprob, units, spellings, options)
    )


@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_a_full_beam_over_many_letters_agrees_with_a_slow_search(scale, cuts):
    letters = string.ascii_lowercase[:20]
    rng = np.random.default_rng(5)
    units = ctc_units([*letters, "", "" if cuts else " "][::-1], 1, boundary=None if cuts else " ")
    spelled = [tuple(rng.choice([*letters], length)) for length in (1, 1, 2, 2, 3, 3, 3, 4, 5)] if cuts else None
    spellings = spelled and {tuple(map(units.names.index, pieces)) for pieces in spelled}
    lexicon = spelled and ctc_lexicon([("".join(pieces), pieces) for pieces in spelled], units)
    logprob = log_probabilities(scale * rng.normal(size=(40, 22)), "logit")
    options = CtcOptions(beam=30)
    assert_same_scores(
        texts(ctc_nbest(logprob, units, lexicon, options)), slow_search(logprob, units, spellings, options)
    )


@given(matrices(max_frames=8), st.sampled_from([LETTERS, PIECES, TWICE, WORDS]), st.booleans(), st.integers(1, 9))
def test_ctc_lattice_agrees_with_construction_arc_by_arc(logprob, units, with_table, count):
    search = ctc_search(logprob, units).best(count)
    hypotheses = ctc_nbest(logprob, units)[:count]
    assume(hypotheses)  # there are none if a frame allows only units that are never part of words
    assert search.hypotheses() == hypotheses
    words, unknown = (SymbolTable.from_words(["<eps>", "a", "<unk>", "ab"]), "<unk>") if with_table else (None, None)
    expected = slow_lattice(hypotheses, "utt", len(logprob), units.blank, words, unknown)
    lattice = search.lattice("utt", words, unknown)
    assert lattice.identical(expected)
    if not with_table:
        assert list(lattice.words)[1:] == [(word, number) for number, word in enumerate(search.words(), start=1)]


@given(matrices(), st.sampled_from([LETTERS, PIECES, TWICE]))
def test_paths_of_the_lattice_are_the_hypotheses(logprob, units):
    hypotheses = ctc_nbest(logprob, units, options=WIDE)
    lattice = ctc_lattice(logprob, units, "utt", options=WIDE)
    paths = nbest(lattice, len(hypotheses) + 1)
    assert {tuple(lattice.words.spell(path.words)) for path in paths} == texts(hypotheses).keys()
    assert len(paths) == len(hypotheses)
    for path in paths:
        expected = texts(hypotheses)[tuple(lattice.words.spell(path.words))]
        assert path.acoustic_cost == pytest.approx(-expected, abs=1e-4)
        assert path.graph_cost == 0
    assert state_times(lattice)[-1] == len(logprob)
    assert set(lattice.ali) <= set(range(1, len(units.names) + 1))


@given(matrices(max_frames=5))
def test_word_costs_sum_to_the_cost_of_the_best_alignment(logprob):
    for hypothesis in ctc_nbest(logprob, WORDS, options=WIDE):
        text = tuple(words[0] for words in hypothesis.words)
        if text:
            assert sum(hypothesis.cost) == pytest.approx(best_alignment_cost(logprob, WORDS, text), abs=1e-9)
        assert all(begin < end for begin, end in zip(hypothesis.begin, hypothesis.end, strict=True))
        assert all(end <= begin for end, begin in zip(hypothesis.end[:-1], hypothesis.begin[1:], strict=True))


def test_word_times_and_state_times_match_the_ctc_frames():
    spelled = [3, 3, 1, 1, 2, 3, 0, 3, 2, 2, 3, 3]  # "ab" at 2..5, "b" at 8..10
    logprob = log_probabilities(10.0 * np.eye(4)[spelled], "logit")
    best = ctc_nbest(logprob, LETTERS)[0]
    assert (best.text, best.begin, best.end) == ("ab b", (2, 8), (5, 10))
    lattice = ctc_lattice(logprob, LETTERS, "utt", options=CtcOptions(beam=1), frame_shift=0.02)
    assert state_times(lattice).tolist() == [0, 2, 5, 8, 10, 12]
    assert (lattice.ali - 1).tolist() == [3 if unit == 0 else unit for unit in spelled]
    assert [lattice.words.word(word) for word in lattice.word] == ["<eps>", "ab", "<eps>", "b", "<eps>"]
    assert lattice.frame_shift == 0.02


def test_a_repeated_letter_needs_a_blank():
    without_blank = log_probabilities(20.0 * np.eye(4)[[1, 1, 1]], "logit")
    with_blank = log_probabilities(20.0 * np.eye(4)[[1, 3, 1]], "logit")
    assert ctc_nbest(without_blank, LETTERS)[0].text == "a"
    assert ctc_nbest(with_blank, LETTERS)[0].text == "aa"


def test_words_with_equal_spellings_are_parallel_arcs():
    lexicon = ctc_lexicon([("read", ["a", "b"]), ("red", ["a", "b"])], LETTERS)
    logprob = log_probabilities(20.0 * np.eye(4)[[1, 2]], "logit")
    lattice = ctc_lattice(logprob, LETTERS, "utt", lexicon, CtcOptions(beam=3))
    assert {" ".join(lattice.words.spell(path.words)) for path in nbest(lattice, 9)} == {"read", "red"}


def test_words_missing_from_a_table_are_refused_or_unknown():
    logprob = log_probabilities(20.0 * np.eye(4)[[1, 0, 2]], "logit")
    table = SymbolTable.from_words(["<eps>", "a", "<unk>"])
    with pytest.raises(SymbolError, match=r"key 'utt': word 'b' is not in the symbol table; specify a lexicon"):
        ctc_lattice(logprob, LETTERS, "utt", options=CtcOptions(beam=1), words=table)
    lattice = ctc_lattice(logprob, LETTERS, "utt", options=CtcOptions(beam=1), words=table, unknown="<unk>")
    assert lattice.words.spell(nbest(lattice, 1)[0].words) == ["a", "<unk>"]


def test_a_lexicon_without_a_possible_hypothesis_is_reported():
    lexicon = ctc_lexicon([("bbbb", list("bbbb"))], LETTERS)
    logprob = log_probabilities(20.0 * np.eye(4)[[2]], "logit")
    with pytest.raises(LatticeError, match="no hypothesis within the beam consists of words in the lexicon"):
        ctc_lattice(logprob, LETTERS, "utt", lexicon, CtcOptions(beam=1))


def test_units_that_prevent_all_hypotheses_are_reported():
    units = ctc_units(["<s>", "a", "_"], "_", never=["<s>"])
    with pytest.raises(
        LatticeError, match="a frame allows only units that are never part of words; check the units in --never"
    ):
        ctc_lattice([[0.0, -math.inf, -math.inf]], units, "utt")


@pytest.mark.parametrize(
    ("values", "scale", "message"),
    [
        (np.zeros(3), "logprob", r"the matrix must have shape \[frames, units\], not \[3\]"),
        ([[math.nan, 0.0]], "logprob", "the value of unit 0 in frame 0 is nan"),
        ([[0.0, 0.0]], "logprob", "the probabilities of frame 0 sum to 2, not 1; if the values are logits"),
        ([[-0.5, 1.0]], "prob", "the probability of unit 0 in frame 0 is -0.5, below 0"),
        ([[-math.inf, -math.inf]], "logit", "all units in frame 0 have probability zero"),
    ],
)
def test_a_matrix_without_log_probabilities_is_refused(values, scale, message):
    with pytest.raises(ModelError, match=message):
        log_probabilities(values, scale)


def test_logits_and_probabilities_are_converted():
    values = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, -1.0]])
    logprob = log_probabilities(values, "logit")
    assert np.exp(logprob).sum(axis=1) == pytest.approx(1.0)
    assert log_probabilities(np.exp(logprob), "prob") == pytest.approx(logprob)
    with pytest.raises(OptionError, match="scale is 'db'"):
        log_probabilities(values, "db")


def test_invalid_options_and_units_are_refused():
    with pytest.raises(OptionError, match="beam is -1, but must be 0 or more"):
        CtcOptions(beam=-1)
    with pytest.raises(OptionError, match="score_beam is 0, but must be above 0"):
        CtcOptions(score_beam=0)
    with pytest.raises(OptionError, match="min_logprob is 1, but must be 0 or less"):
        CtcOptions(min_logprob=1)
    with pytest.raises(OptionError, match="the blank is '<blk>', but no unit has this name; the first units are"):
        ctc_units(["a", "b"], "<blk>")
    with pytest.raises(OptionError, match="the blank is column 2, but there are only 2 units"):
        ctc_units(["a", "b"], 2)
    with pytest.raises(OptionError, match=r"the boundary 'a' can be used only with letters"):
        ctc_units(["a", "b"], 0, "pieces", boundary="a")
    with pytest.raises(OptionError, match="scheme is 'syllables'"):
        ctc_units(["a", "b"], 0, "syllables")
    with pytest.raises(ModelError, match="the matrix has 2 columns, but there are 4 units"):
        ctc_nbest(np.log([[0.5, 0.5]]), LETTERS)


def test_unordered_units_and_units_of_other_types_are_refused():
    with pytest.raises(
        OptionError,
        match=r"units is a dict, which is not in the order of the columns; pass sorted\(units, key=units.get\)",
    ):
        ctc_units({"b": 1, "a": 0}, 0)
    with pytest.raises(OptionError, match="a unit is 3, but must be a str"):
        ctc_units(["a", 3], 0)
    with pytest.raises(OptionError, match=r"the blank is 0.5, but must be a column or the name of a unit"):
        ctc_units(["a", "b"], 0.5)


def test_lexicons_that_the_units_cannot_spell_are_refused(tmp_path):
    path = tmp_path / "lexicon.txt"
    path.write_text("ab a b  \nb b\n")
    lexicon = read_ctc_lexicon(path, LETTERS)
    assert sorted(lexicon.words.values()) == [("ab",), ("b",)]
    path.write_text("ab a b\nc c\n")
    with pytest.raises(SymbolError, match=r"lexicon.txt:2: 'c' is spelled with 'c', which is not a unit of the model"):
        read_ctc_lexicon(path, LETTERS)
    path.write_text("ab a b\nb\n")
    with pytest.raises(FormatError, match=r"lexicon.txt:2: 'b' has an empty spelling"):
        read_ctc_lexicon(path, LETTERS)
    with pytest.raises(SymbolError, match="in the spelling of 'x', '▁a' is not allowed as unit"):
        ctc_lexicon([("x", ["b", "▁a"])], PIECES)
    with pytest.raises(FormatError, match="the lexicon contains no words"):
        ctc_lexicon([], LETTERS)


def test_read_unit_names_reads_each_kind_of_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("<blk> 0\n▁a 2\nb\t1\n")
    assert read_unit_names(path) == ["<blk>", "b", "▁a"]
    path.write_text("|\n'\na\n")
    assert read_unit_names(path) == ["|", "'", "a"]
    path.write_text(json.dumps({"<pad>": 0, "|": 1, "a": 2}))
    assert read_unit_names(path) == ["<pad>", "|", "a"]
    for content, message in [
        ("a 0\nb\n", "tokens:2: expected a unit and its column number, found 'b'"),
        ("a 0\nb 0\n", "tokens:2: 'a' and 'b' have the same column number, 0"),
        ("a 0\nb 2\n", "no unit has the column number 1"),
        ('{"a": 0, "b": true}', "the JSON object must map each unit to its column number"),
        ('{"a": "b"}', "the JSON object must map each unit to its column number"),
        ('{"a": ', "not valid JSON"),
    ]:
        path.write_text(content)
        with pytest.raises(FormatError, match=message):
            read_unit_names(path)


def test_sentencepiece_names_reads_a_model(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "bpe"), vocab_size=15, minloglevel=2
    )
    names = sentencepiece_names(tmp_path / "bpe.model")
    assert len(names) == 15
    units = ctc_units([*names, "<blank>"], -1, "pieces", never=["<unk>", "<s>", "</s>"])
    spelled = sentencepiece.SentencePieceProcessor(str(tmp_path / "bpe.model")).encode("the cat sat")
    frames = [label for unit in spelled for label in (unit, 15)]
    assert ctc_nbest(log_probabilities(30.0 * np.eye(16)[frames], "logit"), units)[0].text == "the cat sat"
    (tmp_path / "bad.model").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match=r"bad.model: not a sentencepiece model"):
        sentencepiece_names(tmp_path / "bad.model")


LIBRI = SHARED / "data/formats/ctc_pyctcdecode/libri_logits.json"
LIBRI_TEXT = "i have a good deal of will you remember and what i have {} my mind upon no doubt i shall some day achieve"


# Skipped on machines without the file; in CI, conftest.py raises an error.
@pytest.mark.skipif(not LIBRI.is_file(), reason="the real file is absent")
def test_published_decodes_of_pyctcdecode_are_reproduced():
    units = ctc_units([" ", *string.ascii_lowercase, "'", ""], -1, boundary=" ")
    logprob = log_probabilities(json.loads(LIBRI.read_text()), "logit")
    first, second = ctc_nbest(logprob, units, options=CtcOptions(beam=50, score_beam=10.0, min_logprob=-5.0))
    assert (first.text, round(first.score, 3)) == (LIBRI_TEXT.format("set"), -0.182)
    assert (second.text, round(second.score, 3)) == (LIBRI_TEXT.format("sent"), -4.182)
    wide = ctc_nbest(logprob, units)
    assert [hypothesis.text for hypothesis in wide[:2]] == [LIBRI_TEXT.format("set"), LIBRI_TEXT.format("sent")]
    greedy = split_words(collapse(logprob.argmax(axis=1), units.blank), units)
    assert " ".join("".join(units.text[unit] for unit in word) for word in greedy) == LIBRI_TEXT.format("set")
    best = nbest(ctc_lattice(logprob, units, "libri", options=CtcOptions(beam=50)), 1)[0]
    assert best.acoustic_cost == pytest.approx(
        -ctc_nbest(logprob, units, options=CtcOptions(beam=50))[0].score, abs=1e-4
    )
    lexicon = ctc_lexicon(spelled_by_letters((LIBRI_TEXT.format("sent") + " never").split()), units)
    assert ctc_nbest(logprob, units, lexicon)[0].text == LIBRI_TEXT.format("sent")


FLASHLIGHT = SHARED / "data/formats/ctc_flashlight"


# Skipped on machines without the file; in CI, conftest.py raises an error.
@pytest.mark.skipif(not FLASHLIGHT.is_dir(), reason="the real files are absent")
def test_the_lexicon_and_letters_of_flashlight_are_read():
    # The scores are those of ASG, which has transitions and no blank; only units, lexicon and shape are as for CTC.
    names = read_unit_names(FLASHLIGHT / "letters.lst")
    units = ctc_units([*names, "#"], "#", boundary="|")
    lexicon = read_ctc_lexicon(FLASHLIGHT / "words.lst.gz", units)
    frames, columns = np.fromfile(FLASHLIGHT / "TN.bin", np.int32)
    emission = np.fromfile(FLASHLIGHT / "emission.bin", np.float32).reshape(frames, columns)
    assert columns == len(names) + 1
    hypotheses = ctc_nbest(log_probabilities(emission, "logit"), units, lexicon, CtcOptions(beam=50))
    with gzip.open(FLASHLIGHT / "words.lst.gz", "rt") as file:
        words = {line.split()[0] for line in file}
    assert hypotheses
    assert all(set(group) <= words for hypothesis in hypotheses for group in hypothesis.words)
