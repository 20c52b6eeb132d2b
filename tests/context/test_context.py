"""The contextual grammar: agreement of token passing with the enumeration of all parses, and invariants."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_context import WORDS, SlowContext, class_models, old_models, open_models, phrase_weights
from reference_graph import costs_of, end_of, paths, words_of
from reference_ngram import SlowNgram, language_model
from strategies import lattices
from strategies_decode import list_of

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.grammar.compile import compile_list
from ninja.context.grammar.tracker import Match, Tracker, add_context
from ninja.context.options import ContextOptions
from ninja.errors import LatticeError, OptionError, SymbolError, VocabularyError
from ninja.graph import best_path, from_arcs, scale
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.word_map import WordMap
from ninja.openfst import to_fst

TABLE = SymbolTable.from_words(["<eps>", *WORDS])
ALL = ContextOptions(max_tokens=0, unk_penalty=0.25)
SENTENCES = [s for length in range(5) for s in itertools.product(WORDS, repeat=length)]


def tracker_score(tracker, start, sentence):
    """Return the tracker's scores of a sentence."""
    state, total = np.array([start]), 0.0
    for word in sentence:
        state, gain = tracker.advance(state, np.array(TABLE.ids([word]), np.int32))
        total += float(gain[0])
        if state[0] < 0:
            return -math.inf
    return total + float(tracker.final(state)[0])


def assert_same(actual, expected):
    assert actual == expected or actual == pytest.approx(expected, abs=1e-4)


boosts = st.integers(-4, 12).map(lambda step: step / 4)


@given(
    class_lm=st.none() | class_models,
    old_lm=st.none() | old_models,
    phrases=phrase_weights(),
    keyword=boosts,
    entering=boosts,
    share=st.sampled_from([0.25, 0.5, 1.0]),
    scale=st.sampled_from([1.0, 0.5]),
)
def test_sentence_score_agrees_with_the_best_enumerated_parse(
    class_lm, old_lm, phrases, keyword, entering, share, scale
):
    if class_lm is None:
        old_lm = None
    sentences = SENTENCES
    if class_lm is not None and ("<unk>",) not in class_lm.ngrams:
        sentences = [sentence for sentence in SENTENCES if all((word,) in class_lm.ngrams for word in sentence)]
    slow = SlowContext(phrases, class_lm, old_lm, keyword, entering, share, 0.25, scale)
    options = replace(ALL, keyword_boost=keyword, class_boost=entering, class_weight=share)
    tracker = Tracker(TABLE, language_model(class_lm), options, old_lm=language_model(old_lm), lm_scale=scale)
    start = tracker.start([list_of(phrases)])
    for sentence in sentences[:: max(1, len(sentences) // 40)]:
        assert_same(tracker_score(tracker, start, sentence), slow.score(sentence))


@given(lattice=lattices(max_word=3, max_states=6), phrases=phrase_weights(), class_lm=open_models, keyword=boosts)
def test_contextual_lattice_keeps_paths_and_adds_sentence_scores(lattice, phrases, class_lm, keyword):
    slow = SlowContext(phrases, class_lm, None, keyword, 0.5, 0.5, 0.25)
    tracker = Tracker(TABLE, language_model(class_lm), replace(ALL, keyword_boost=keyword, class_boost=0.5))
    lattice = lattice.with_words(TABLE)
    scored, arc_map = add_context(lattice, tracker, [list_of(phrases)], return_arc_map=True)
    expected = {}
    for path in paths(lattice):
        graph, acoustic = costs_of(lattice, path)
        expected[(*path, end_of(lattice, path))] = (
            0.5 * graph - slow.score(TABLE.spell(words_of(lattice, path))),
            acoustic,
        )
    # A new state is a copy of an old one, so its arcs and its last state identify a path.
    state_of = {0: 0}
    for arc in range(scored.num_arcs):
        state_of[int(scored.dst[arc])] = int(lattice.dst[arc_map[arc]])
    actual = {
        (*(int(arc_map[arc]) for arc in path), state_of[end_of(scored, path)]): costs_of(scored, path)
        for path in paths(scored)
    }
    assert actual.keys() == expected.keys()
    for path, costs in actual.items():
        assert costs == pytest.approx(expected[path], abs=1e-4)


@settings(deadline=None, max_examples=12)
@given(lattice=lattices(max_word=3, max_states=5), phrases=phrase_weights(negative=False), model=open_models)
def test_scores_agree_with_openfst_composition_of_the_static_grammar(lattice, phrases, model):
    import pywrapfst

    phrases = {"@c": phrases.get("@c", {})}
    options = replace(ALL, keyword_boost=1.5, class_boost=0.25, class_weight=0.5)
    lm = language_model(model)
    grammar = static_expansion(lm, phrases["@c"], options)
    lattice = lattice.with_words(TABLE)
    composed = pywrapfst.compose(to_fst(scale(lattice, graph_scale=0.5)).arcsort("olabel"), grammar)
    scored = add_context(lattice, Tracker(TABLE, lm, options), [list_of(phrases)])
    sequences = {words_of(lattice, path) for path in paths(lattice)}
    for words in sequences:
        assert_same(cost_of_words(to_fst(scored), words), cost_of_words(composed, words))


def acceptor(words):
    import pywrapfst

    fst = pywrapfst.VectorFst()
    state = fst.add_state()
    fst.set_start(state)
    for word in words:
        after = fst.add_state()
        fst.add_arc(state, pywrapfst.Arc(word, word, "0", after))
        state = after
    fst.set_final(state)
    return fst


def cost_of_words(fst, words):
    import pywrapfst

    accepted = pywrapfst.compose(acceptor([w for w in words if w]), fst.arcsort("ilabel"))
    if accepted.num_states() == 0:
        return math.inf
    return float(pywrapfst.shortestdistance(accepted, reverse=True)[accepted.start()])


def static_expansion(lm, members, options):
    """Return the class grammar as an OpenFst transducer in which the phrases of the class replace the class word."""
    import pywrapfst

    def weight(logprob):
        return "Infinity" if math.isinf(logprob) else str(-options.class_weight * logprob)

    def step(state, word):
        logprob, after = lm.step(np.array([state]), np.array([word], np.int32))
        return float(logprob[0]), int(after[0])

    class_label, root = 100, 101
    labels = {"@c": class_label} | {word: TABLE.id(word) for word in WORDS}
    main = pywrapfst.VectorFst()
    numbers, queue = {lm.model.start: main.add_state()}, [lm.model.start]
    main.set_start(0)
    while queue:
        state = queue.pop()
        main.set_final(numbers[state], weight(step(state, lm.eos)[0]))
        for word, label in labels.items():
            word_id = lm.vocabulary.id(word)
            logprob, after = step(state, lm.unk if word_id is None else word_id)
            if word_id is None:
                logprob -= options.unk_penalty
            if after not in numbers:
                numbers[after] = main.add_state()
                queue.append(after)
            main.add_arc(numbers[state], pywrapfst.Arc(label, label, weight(logprob), numbers[after]))
    phrases = pywrapfst.VectorFst()
    phrases.set_start(phrases.add_state())
    for phrase, factor in members.items():
        gain = options.class_boost + options.keyword_boost * factor * len(phrase)
        state = 0
        for position, word in enumerate(phrase):
            after = phrases.add_state()
            cost = str(-gain) if position == 0 else "0"
            phrases.add_arc(state, pywrapfst.Arc(TABLE.id(word), TABLE.id(word), cost, after))
            state = after
        phrases.set_final(state)
    grammar = pywrapfst.replace([(root, main), (class_label, phrases)], call_arc_labeling="neither")
    return grammar.rmepsilon().arcsort("ilabel")


@given(model=open_models, lattice=lattices(max_word=3), share=st.sampled_from([0.25, 0.5, 1.0]))
def test_first_pass_model_without_boosts_keeps_all_costs(model, lattice, share):
    """A lattice with the graph costs of the model does not change, for any weight of the model."""
    plain = language_model(model)
    without_graph = lattice.replace(
        graph=np.zeros_like(lattice.graph),
        final_graph=np.where(np.isinf(lattice.final_graph), np.float32(np.inf), np.float32(0)),
        words=TABLE,
    )
    scored = compose_ngram(without_graph, plain, word_map=WordMap(TABLE, plain, 0.25))
    options = replace(ALL, keyword_boost=0.0, class_weight=share)
    for tracker in (Tracker(TABLE, plain, options), Tracker(TABLE, plain, options, old_lm=plain)):
        rescored = add_context(scored, tracker)
        assert sorted_costs(rescored) == pytest.approx(sorted_costs(scored), abs=1e-4)


def sorted_costs(lattice):
    return sorted(sum(costs_of(lattice, path)) for path in paths(lattice))


@given(phrases=phrase_weights(), keyword=boosts, seed=st.randoms(use_true_random=False), tokens=st.integers(0, 4))
def test_scores_do_not_depend_on_phrase_order(phrases, keyword, seed, tokens):
    shuffled = {cls: dict(seed.sample(list(members.items()), len(members))) for cls, members in phrases.items()}
    options = ContextOptions(keyword_boost=keyword, max_tokens=tokens)
    tracker, shuffled_tracker = Tracker(TABLE, None, options), Tracker(TABLE, None, options)
    starts = tracker.start([list_of(phrases)]), shuffled_tracker.start([list_of(shuffled)])
    for sentence in SENTENCES[::7]:
        assert tracker_score(tracker, starts[0], sentence) == tracker_score(shuffled_tracker, starts[1], sentence)


@given(phrases=phrase_weights(), lm=st.none() | open_models, keyword=boosts)
def test_phrase_that_does_not_occur_keeps_all_scores(phrases, lm, keyword):
    options = replace(ALL, keyword_boost=keyword)
    tracker = Tracker(TABLE, language_model(lm), options)
    extended = {cls: {**members, ("c", "c", "c", "c", "c"): 3.0} for cls, members in phrases.items()}
    plain, wider = tracker.start([list_of(phrases)]), tracker.start([list_of(extended)])
    for sentence in SENTENCES[::7]:
        assert_same(tracker_score(tracker, wider, sentence), tracker_score(tracker, plain, sentence))


@given(phrases=phrase_weights(), keyword=boosts, tokens=st.integers(1, 6))
def test_token_limit_never_raises_scores(phrases, keyword, tokens):
    exact = Tracker(TABLE, None, ContextOptions(keyword_boost=keyword, max_tokens=0))
    cut = Tracker(TABLE, None, ContextOptions(keyword_boost=keyword, max_tokens=tokens))
    starts = exact.start([list_of(phrases)]), cut.start([list_of(phrases)])
    for sentence in SENTENCES[::5]:
        assert tracker_score(cut, starts[1], sentence) <= tracker_score(exact, starts[0], sentence) + 1e-4


def test_partial_boost_is_subtracted_if_the_phrase_is_not_completed():
    tracker = Tracker(TABLE, None, ContextOptions(keyword_boost=2.0))
    start = tracker.start([list_of({"": {("a", "b", "c"): 1.0}})])
    states, gains = [start], []
    for word in ("a", "b", "a"):
        state, gain = tracker.advance(np.array([states[-1]]), np.array(TABLE.ids([word]), np.int32))
        states.append(int(state[0]))
        gains.append(float(gain[0]))
    assert gains == [2.0, 2.0, -2.0]  # in "a b a", only the last "a" can still begin a phrase
    assert float(tracker.final(np.array(states[-1:]))[0]) == -2.0


def test_token_outside_phrases_is_kept_at_any_limit():
    tracker = Tracker(TABLE, None, ContextOptions(keyword_boost=2.0, max_tokens=1))
    start = tracker.start([list_of({"": {("a", "b", "c"): 1.0}})])
    assert tracker_score(tracker, start, ["a", "b"]) == 0.0


def test_batched_histories_advance_as_single_histories():
    tracker = Tracker(TABLE, None, ContextOptions(keyword_boost=1.0))
    starts = [tracker.start([list_of({"": {("a", "b"): 1.0}})]), tracker.start([list_of({"": {("b",): 2.0}})])]
    words = np.array(TABLE.ids(["a", "b"]), np.int32)
    batch = tracker.advance(np.repeat(starts, 2), np.tile(words, 2))
    single = [tracker.advance(np.array([s]), np.array([w])) for s in starts for w in words]
    assert [int(s) for s in batch[0]] == [int(s[0]) for s, _ in single]
    assert [float(g) for g in batch[1]] == [float(g[0]) for _, g in single] == [1.0, 0.0, 0.0, 2.0]


@given(phrases=phrase_weights(negative=False), lm=st.none() | open_models, keyword=boosts)
def test_matches_are_the_spans_of_a_best_parse(phrases, lm, keyword):
    slow = SlowContext(phrases, lm, None, keyword, 0.125, unk_penalty=0.25)
    tracker = Tracker(TABLE, language_model(lm), replace(ALL, keyword_boost=keyword, class_boost=0.125))
    start = tracker.start([list_of(phrases)])
    for sentence in SENTENCES[::11]:
        matches = tracker.matches(start, TABLE.ids(sentence))
        best_reading = tuple((match.begin, match.end, match.cls) for match in matches)
        scores = {reading: score for score, reading in slow.readings(tuple(sentence))}
        assert best_reading in scores
        assert_same(scores[best_reading], max(scores.values()))
        assert all(match.text == " ".join(sentence[match.begin : match.end]) for match in matches)


def test_matches_skip_epsilons():
    tracker = Tracker(TABLE, None, ContextOptions(keyword_boost=1.0))
    start = tracker.start([list_of({"@c": {("a", "b"): 1.0}})])
    assert tracker.matches(start, TABLE.ids(["c", "<eps>", "a", "<eps>", "b"])) == [Match(2, 5, "@c", "a b")]


def test_common_suffixes_of_phrases_share_states():
    words = SymbolTable.from_words(["<eps>", *(f"w{i}" for i in range(102))])
    phrases = [Phrase(f"w{i} w100 w101") for i in range(100)]
    compiled = compile_list(PhraseList("", {"@c": tuple(phrases)}), words.ids)
    assert compiled.boosted["@c"].num_states == 4
    assert compiled.num_phrases == 100


def test_only_shared_lists_are_cached_after_compilation():
    tracker = Tracker(TABLE, None, ContextOptions())
    shared, private = list_of({"": {("a",): 1.0}}, name="contacts"), list_of({"": {("b",): 1.0}})
    for _ in range(3):
        tracker.start([shared, private])
        tracker.clear()
    assert [phrase_list.name for phrase_list in tracker._compiler._compiled] == ["contacts"]


def test_sufficient_boost_changes_the_best_path():
    lattice = from_arcs(
        "u", [0, 0, 1], [1, 1, 2], TABLE.ids(["a", "b", "c"]), [1.0, 2.0, 0.0], finals={2: 0.0}, words=TABLE
    )
    for boost, best in ((0.5, "a c"), (2.0, "b c")):
        tracker = Tracker(TABLE, None, ContextOptions(keyword_boost=boost))
        boosted = add_context(lattice, tracker, [list_of({"@name": {("b",): 1.0}})])
        assert " ".join(TABLE.spell(best_path(boosted).words)) == best


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("class_boost", math.nan, "class_boost is nan, but must be between -1000 and 1000"),
        ("keyword_boost", math.inf, "keyword_boost is inf, but must be between -1000 and 1000"),
        ("class_weight", 1.5, "class_weight is 1.5, but must be between 0 and 1"),
        ("max_tokens", -1, "max_tokens is -1, but must be 0 or more"),
        ("max_arcs", 0, "max_arcs is 0, but must be 1 or more"),
    ],
)
def test_options_out_of_range_are_refused(option, value, message):
    with pytest.raises(OptionError, match=message):
        ContextOptions(**{option: value})


def test_old_model_requires_a_class_model():
    with pytest.raises(OptionError, match="requires a class language model"):
        Tracker(TABLE, None, old_lm=language_model(SlowNgram(1, {("<s>",): (-99.0, 0.0), ("</s>",): (-0.5, 0.0)})))


def test_unknown_word_of_a_class_model_without_unk_raises_vocabulary_error():
    model = language_model(SlowNgram(1, {("<s>",): (-99.0, 0.0), ("</s>",): (-0.5, 0.0), ("a",): (-0.5, 0.0)}))
    lattice = from_arcs("u", [0], [1], TABLE.ids(["b"]), [0.0], finals={1: 0.0}, words=TABLE)
    with pytest.raises(VocabularyError, match="contains neither 'b' nor <unk>"):
        add_context(lattice, Tracker(TABLE, model))


def test_word_id_outside_the_symbol_table_raises_symbol_error():
    lattice = from_arcs("u", [0], [1], [9], [0.0], finals={1: 0.0})
    with pytest.raises(SymbolError, match="word id 9 is not in the symbol table"):
        add_context(lattice, Tracker(TABLE, None))


def test_unknown_word_of_a_class_model_ends_the_history():
    model = language_model(SlowNgram(1, {("<s>",): (-99.0, 0.0), ("</s>",): (-0.5, 0.0), ("a",): (-0.5, 0.0)}))
    tracker = Tracker(TABLE, model)
    states, gains = tracker.advance(np.array([tracker.start()] * 2), np.array(TABLE.ids(["a", "b"]), np.int32))
    assert (states >= 0).tolist() == [True, False]
    assert gains[1] == -math.inf


def test_tracker_shared_by_threads_gives_the_same_costs():
    table = SymbolTable.from_words(["<eps>", *(f"w{number}" for number in range(400))])
    src = np.repeat(np.arange(200), 8)
    rng = np.random.default_rng(1)
    words = [rng.permutation(src.size) % 400 + 1 for _ in range(4)]
    lattices = [from_arcs("u", src, src + 1, word, src, finals={200: 0.0}) for word in words]
    lists = [list_of({"": {(f"w{number}", f"w{number + 1}"): 1.0 for number in range(399)}})]

    def graph_costs(tracker):
        return [add_context(lattice, tracker, lists).graph.tolist() for lattice in lattices]

    expected = graph_costs(Tracker(table))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(graph_costs, [Tracker(table)] * 12)) == [expected] * 12


def test_more_than_max_arcs_raise_lattice_error():
    lattice = from_arcs("u", [0, 0], [1, 1], [1, 2], [0.0, 0.0], finals={1: 0.0}, words=TABLE)
    with pytest.raises(LatticeError, match=r"more than 1 arcs; prune the lattice first"):
        add_context(lattice, Tracker(TABLE, None, ContextOptions(max_arcs=1)))


def test_invalid_states_and_word_ids_raise_option_error():
    tracker = Tracker(TABLE, None)
    with pytest.raises(OptionError, match="7 is not a state of this tracker"):
        tracker.advance(np.array([7]), np.array([1], np.int32))
    start = tracker.start()
    with pytest.raises(OptionError, match="word id 9 is not in the tracker's symbol table, which has 4 ids"):
        tracker.advance(np.array([start]), np.array([9], np.int32))


def test_tracker_accepts_an_empty_symbol_table():
    assert Tracker(SymbolTable.from_words([]), None, ContextOptions()).num_symbols == 1  # the epsilon
