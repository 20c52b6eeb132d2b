"""N-gram models: scores of every file format agree with a slow implementation; states distinguish histories."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import costs_of, end_of, paths
from reference_ngram import (
    TRIGRAM,
    SlowNgram,
    histories,
    inner_words,
    models,
    write_arpa,
    write_const_arpa,
    write_fst,
    write_grammar,
)
from strategies import lattices

from ninja.errors import LatticeError, ModelError, NinjaWarning, OptionError, VocabularyError
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, load, sentence_logprobs
from ninja.lm.ngram import model as ngram_module
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.ngram.model import NgramLM, read_arpa, read_const_arpa, read_grammar
from ninja.lm.word_map import WordMap

ID = {"<eps>": 0, "a": 7, "<unk>": 2, "b": 4, "ç": 9, "#0": 11, "<s>": 12, "</s>": 13}
TABLE = SymbolTable(ID.items())


def write_file(tmp_path, content, name="lm"):
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


def slot_of(lm, history):
    slot = lm.start(1)
    for word in history:
        slot = lm.advance(slot, np.array([lm.vocabulary.id(word)], np.int32))
    return slot


def word_logprobs(lm, words):
    ids = [np.array([lm.vocabulary.id(word)], np.int32) for word in words]
    return [lm.logprob(slot_of(lm, words[:place]), word)[0] for place, word in enumerate(ids)]


def assert_agrees_with_slow_model(lm: NgramLM, model, longest=3, state_of=None):
    """Check the scores after every history, and that exactly the equivalent histories share a slot."""
    words = [*inner_words(model), "</s>"]
    slots_by_state = {}
    for history in histories(model, longest):
        slot = slot_of(lm, history)
        ids = np.array([lm.vocabulary.id(word) for word in words], np.int32)
        expected = [model.score(("<s>", *history), word) for word in words]
        np.testing.assert_allclose(lm.logprob(slot.repeat(len(words)), ids), expected, rtol=1e-6, atol=1e-6)
        slots_by_state.setdefault((state_of or model.state)(("<s>", *history)), set()).add(int(slot[0]))
    assert all(len(state_slots) == 1 for state_slots in slots_by_state.values())
    assert len(set.union(*slots_by_state.values())) == len(slots_by_state)


@given(models(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_arpa_scores_agree_with_the_slow_twin(tmp_path_factory, model, end, zeros):
    content = write_arpa(model, end=end, zeros=zeros)
    lm = read_arpa(write_file(tmp_path_factory.mktemp("arpa"), content))
    assert isinstance(lm, LanguageModel)
    assert (lm.order, lm.model.num_ngrams) == (model.order, len(model.ngrams))
    assert_agrees_with_slow_model(lm, model)


@given(models(), st.sampled_from([2**30 - 1, 0]))
def test_const_arpa_scores_agree_with_the_slow_twin(tmp_path_factory, model, far):
    model = model.closed()
    lm = read_const_arpa(write_file(tmp_path_factory.mktemp("carpa"), write_const_arpa(model, ID, far)), TABLE)
    assert (lm.order, lm.model.num_ngrams) == (model.order, len(model.ngrams))
    assert_agrees_with_slow_model(lm, model)


@given(models(), st.booleans(), st.booleans())
def test_grammar_scores_agree_with_the_slow_twin(tmp_path_factory, model, disambiguated, with_names):
    model = model.closed()
    ids = ID if disambiguated else {word: number for word, number in ID.items() if word != "#0"}
    content = write_grammar(model, ids, spelled=with_names)
    lm = read_grammar(write_file(tmp_path_factory.mktemp("fst"), content), SymbolTable(ids.items()))
    assert_agrees_with_slow_model(lm, model)


@pytest.mark.parametrize("ngram_to_remove", [(), ("a",), ("a", "b"), ("b", "a", "a")])
def test_contexts_and_suffixes_of_ngrams_may_be_missing(tmp_path, ngram_to_remove):
    ngrams = {ngram: scores for ngram, scores in TRIGRAM.ngrams.items() if len(ngram) == 1 or ngram != ngram_to_remove}
    model = SlowNgram(3, ngrams)
    assert_agrees_with_slow_model(read_arpa(write_file(tmp_path, write_arpa(model))), model)


def test_missing_contexts_enlarge_the_state_table(tmp_path):
    random = np.random.default_rng(0)
    words = [f"w{number}" for number in range(40)]
    ngrams = {(word,): (-1.5, -0.5) for word in ("<s>", "</s>", *words)}
    ngrams |= {tuple(random.choice(words, 4)): (-0.25, 0.0) for _ in range(3000)}
    model = SlowNgram(4, ngrams)
    lm = read_arpa(write_file(tmp_path, write_arpa(model)))
    assert lm.model.num_states > 4000
    scores = [word_logprobs(lm, ngram) for ngram in list(ngrams)[100:400]]
    expected = [
        [model.score(("<s>", *ngram[:place]), ngram[place]) for place in range(4)] for ngram in list(ngrams)[100:400]
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def draw_queries(lm, count, seed=0):
    """Return random states and words."""
    random = np.random.default_rng(seed)
    slots = lm.start(64)
    words = np.array([lm.vocabulary.id(word) for word in ("a", "b", "</s>")], np.int32)
    states = [slots := lm.advance(slots, random.choice(words[:2], slots.size)) for _ in range(5)]
    return random.choice(np.concatenate(states), count), random.choice(words, count)


def test_scores_and_states_do_not_depend_on_the_batch(tmp_path):
    lm = read_arpa(write_file(tmp_path, write_arpa(TRIGRAM)))
    slots, words = draw_queries(lm, 200)
    logprob, next_slots = lm.step(slots, words)
    np.testing.assert_array_equal(logprob, lm.logprob(slots, words))
    np.testing.assert_array_equal(next_slots, lm.advance(slots, words))
    for size in (1, 31, 32, 33):
        parts = [lm.step(slots[at : at + size], words[at : at + size]) for at in range(0, 200, size)]
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), logprob)
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), next_slots)
    order = np.random.default_rng(1).permutation(200)
    np.testing.assert_array_equal(lm.logprob(slots[order], words[order]), logprob[order])
    assert lm.logprob(slots[:0], words[:0]).shape == (0,)


def test_invalid_states_and_words_are_refused(tmp_path):
    lm = read_arpa(write_file(tmp_path, write_arpa(TRIGRAM)))
    for state, word in [(-1, 1), (10**6, 1), (0, -1), (0, 4), (2**32, 1)]:
        with pytest.raises(OptionError, match="does not exist; the model has"):
            lm.logprob(np.array([state]), np.array([word], np.int32))
    with pytest.raises(OptionError, match="both must have shape"):
        lm.advance(np.zeros(2, np.int64), np.zeros(3, np.int32))


def test_sums_over_many_backoffs_stay_exact(tmp_path):
    ngrams = {(word,): (-1.0, -0.1) for word in ("<s>", "</s>", "a")}
    ngrams |= {("a",) * length: (-0.3, -1e-4) for length in range(2, 8)}
    model = SlowNgram(8, ngrams)
    lm = read_arpa(write_file(tmp_path, write_arpa(model)))
    assert lm.order == 8
    assert_agrees_with_slow_model(lm, model, longest=9)


def test_a_model_without_bos_starts_with_the_empty_history(tmp_path):
    model = SlowNgram(2, {("</s>",): (-1.0, 0.0), ("a",): (-1.0, -0.5), ("a", "a"): (-0.25, 0.0)})
    lm = read_arpa(write_file(tmp_path, write_arpa(model)))
    a = np.array([lm.vocabulary.id("a")], np.int32)
    assert lm.logprob(lm.start(1), a)[0] == pytest.approx(-math.log(10))
    slot_after_bos = lm.advance(lm.advance(lm.start(1), a), np.array([lm.vocabulary.id("<s>")], np.int32))
    assert lm.logprob(slot_after_bos, a)[0] == pytest.approx(-math.log(10))  # no back-off weight is added


@pytest.mark.parametrize("chunk", [64, 65, 100, 1000])
def test_arpa_lines_may_cross_chunk_boundaries(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(ngram_module, "CHUNK", chunk)
    assert_agrees_with_slow_model(read_arpa(write_file(tmp_path, write_arpa(TRIGRAM))), TRIGRAM)
    assert_agrees_with_slow_model(read_arpa(write_file(tmp_path, gzip.compress(write_arpa(TRIGRAM)))), TRIGRAM)


def test_variants_of_arpa_files_are_read(tmp_path):
    text = (
        "made by a tool\nof old\n\n\\data\\ \nngram  1 = 4\nngram 2=  1\nngram 3=0\n\\1-grams:\n-1 <s>  -.5 \n-1e0\ta\n"
        "  -0.50\tb\t+0.25\n-1\t</s>\t0\n\n\\2-grams:\n-.125 <s> a -0\n\n\\3-grams:\n\\end\\\nwhatever\n\\data\\\n"
    )
    lm = read_arpa(write_file(tmp_path, text.encode()))
    model = SlowNgram(
        3,
        {
            ("<s>",): (-1.0, -0.5),
            ("a",): (-1.0, 0.0),
            ("b",): (-0.5, 0.25),
            ("</s>",): (-1.0, 0.0),
            ("<s>", "a"): (-0.125, 0.0),
        },
    )
    assert_agrees_with_slow_model(lm, model)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("preamble", [b"", b"made by a tool\n"])
def test_a_byte_order_mark_before_an_arpa_file_is_ignored_with_a_warning(tmp_path, pack, preamble):
    path = write_file(tmp_path, pack(b"\xef\xbb\xbf" + preamble + write_arpa(TRIGRAM).lstrip()))
    with pytest.warns(NinjaWarning, match="lm: ignoring the byte-order mark at the start"):
        lm = load(path)
    assert_agrees_with_slow_model(lm, TRIGRAM)


@pytest.mark.parametrize("name", ["<unk>", "<UNK>"])
def test_the_unk_word_is_recognised(tmp_path, name):
    unigrams = {(word,): (-1.0, 0.0) for word in ("<s>", "</s>", name)}
    lm = read_arpa(write_file(tmp_path, write_arpa(SlowNgram(1, unigrams))))
    assert lm.unk == lm.vocabulary.id(name)
    assert lm.unk_words is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_every_ngram_format_is_recognised_by_its_content(tmp_path, pack):
    words = "".join(f"{word} {number}\n" for word, number in ID.items())
    closed = TRIGRAM.closed()
    contents = [write_arpa(TRIGRAM), write_const_arpa(closed, ID), write_grammar(closed, ID)]
    for table_name in ("words.txt", "words.txt.gz"):
        (tmp_path / table_name).write_bytes(
            gzip.compress(words.encode()) if table_name.endswith("gz") else words.encode()
        )
        for content in contents:
            lm = load(write_file(tmp_path, pack(content), "any.name"))
            assert_agrees_with_slow_model(lm, TRIGRAM)
        (tmp_path / table_name).unlink()
    for content in contents[1:]:
        path = write_file(tmp_path, pack(content))
        assert_agrees_with_slow_model(load(path, words=TABLE), TRIGRAM)
        with pytest.raises(
            ModelError, match=r"lm: the model contains no vocabulary, and .* or pass it with load\(path, words="
        ):
            load(path)
        with pytest.raises(ModelError, match=r"word id 4 is not in the symbol table"):
            load(path, words=SymbolTable([("a", 7), ("</s>", 13), ("<s>", 12)]))


def test_a_grammar_may_contain_its_symbol_table(tmp_path):
    content = write_grammar(TRIGRAM.closed(), ID, symbols=ID)
    (tmp_path / "words.txt").write_text("the wrong one\n")
    assert_agrees_with_slow_model(load(write_file(tmp_path, content)), TRIGRAM)


def test_a_grammar_whose_table_lacks_eos_scores_sentence_ends(tmp_path):
    ids = {word: number for word, number in ID.items() if not word.endswith("s>")}
    content = write_grammar(TRIGRAM.closed(), {**ids, "<s>": 98, "</s>": 99})
    assert_agrees_with_slow_model(read_grammar(write_file(tmp_path, content), SymbolTable(ids.items())), TRIGRAM)


def test_words_outside_a_grammar_have_probability_zero(tmp_path):
    content = write_fst([(math.inf, [(7, 7, 0.5, 1), (4, 4, 0.25, 0)]), (1.0, [])])
    lm = read_grammar(write_file(tmp_path, content), TABLE)
    a, b = (np.array([lm.vocabulary.id(word)], np.int32) for word in "ab")
    assert lm.logprob(lm.start(1), np.array([lm.eos], np.int32))[0] == -math.inf
    assert lm.logprob(lm.advance(lm.start(1), a), a)[0] == -math.inf
    assert sentence_logprobs(lm, [[*b, *b, *a]]) == [-2.0]
    assert lm.order == 1


@given(lattices(max_states=6, connected=False), models(), st.sampled_from([1.0, -1.0, 0.5]))
def test_composition_adds_the_cost_of_every_path(tmp_path_factory, lattice, model, scale):
    words = ["<eps>", "a", "b", "</s>", "zebra", "zoo"]
    model.ngrams.setdefault(("<unk>",), (-1.25, 0.0))
    model.ngrams.setdefault(("b",), (-0.75, 0.0))
    lm = read_arpa(write_file(tmp_path_factory.mktemp("compose"), write_arpa(model)))
    word_map = WordMap(SymbolTable.from_words(words), lm, unk_penalty=2.5)
    composed, arc_map = compose_ngram(lattice, lm, scale, word_map=word_map, return_arc_map=True)

    def added_cost(path):
        path_words = [words[lattice.word[arc]] for arc in path if words[lattice.word[arc]] not in ("<eps>", "</s>")]
        lm_words = [word if word in ("a", "b") else "<unk>" for word in path_words]
        cost = 2.5 * lm_words.count("<unk>")
        for place, word in enumerate([*lm_words, "</s>"]):
            cost -= model.score(("<s>", *lm_words[:place]), word)
        return cost

    expected = {path: costs_of(lattice, path) for path in paths(lattice)}
    costs = {tuple(int(arc_map[arc]) for arc in path): costs_of(composed, path) for path in paths(composed)}
    assert costs.keys() == expected.keys()
    for path, (graph, acoustic) in expected.items():
        assert costs[path][0] == pytest.approx(graph + scale * added_cost(path), abs=1e-4)
        assert costs[path][1] == pytest.approx(acoustic, abs=1e-4)
    for path in paths(composed):
        source_arcs = [int(arc_map[arc]) for arc in path]
        labels = [
            label for arc in source_arcs for label in lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]]
        ]
        composed_labels = [
            label for arc in path for label in composed.ali[composed.ali_begin[arc] : composed.ali_begin[arc + 1]]
        ]
        assert labels == composed_labels
        state, source_state = end_of(composed, path), end_of(lattice, tuple(source_arcs))
        begin, stop = composed.final_ali_begin[state : state + 2]
        old_begin, old_stop = lattice.final_ali_begin[source_state : source_state + 2]
        assert composed.final_ali[begin:stop].tolist() == lattice.final_ali[old_begin:old_stop].tolist()


def test_invalid_compositions_are_refused(tmp_path):
    lm = read_arpa(write_file(tmp_path, write_arpa(TRIGRAM)))
    lattice = from_arcs("utt", [0, 0, 1], [1, 1, 2], [1, 2, 1], [0, 0, 0], [0, 0, 0], finals={2: 0.0})
    words = WordMap(SymbolTable.from_words(["<eps>", "a", "b"]), lm)
    assert compose_ngram(lattice, lm, word_map=words, max_arcs=4).num_arcs == 4
    with pytest.raises(LatticeError, match="key 'utt': the result has more than 3 arcs"):
        compose_ngram(lattice, lm, word_map=words, max_arcs=3)
    with pytest.raises(OptionError, match="scale is nan"):
        compose_ngram(lattice, lm, math.nan, word_map=words)
    with pytest.raises(VocabularyError, match="no symbol table"):
        compose_ngram(lattice, lm)
    only_a_then_b = read_grammar(
        write_file(tmp_path, write_fst([(0.0, [(7, 7, 0.5, 1)]), (0.0, [(4, 4, 0.5, 0)])])), TABLE
    )
    with pytest.raises(ModelError, match="key 'utt': the language model gives probability zero to the word of arc 1"):
        compose_ngram(lattice, only_a_then_b, word_map=WordMap(words.words, only_a_then_b))
