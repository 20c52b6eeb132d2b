"""Comparison of the contextual language model with a slow implementation, and its invariants."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_context_lm import SlowContextLM
from reference_ngram import SlowNgram, language_model
from reference_rescore import path_costs, path_costs_under, word_logprob

torch = pytest.importorskip("torch")

from tiny_lstm import EXACT, LATTICES, REFERENCE_LM, VOCABULARY, make_module  # noqa: E402
from tiny_pointer import BASE, PENALTY, POINTER, TABLE, UNKNOWN_WORDS, WORDS, entities  # noqa: E402

from ninja.context import Context, Contextual, Entities  # noqa: E402
from ninja.context.deep.context_lm import ContextLM, ContextMixture  # noqa: E402
from ninja.context.deep.phrase_list_ids import PhraseListIds  # noqa: E402
from ninja.context.deep.pointer import ContextPointer  # noqa: E402
from ninja.context.deep.recipe import PointerOptions  # noqa: E402
from ninja.context.options import ContextOptions  # noqa: E402
from ninja.context.pointer_scores import pointer_scores  # noqa: E402
from ninja.decoding.pointer_tracker import PointerTracker  # noqa: E402
from ninja.errors import ModelError, OptionError  # noqa: E402
from ninja.lattice import Lattice, Scales  # noqa: E402
from ninja.lattice.symbols import SymbolTable  # noqa: E402
from ninja.lm.mixture import Mixture  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402
from ninja.rescoring import Rescorer, RescoreReport  # noqa: E402
from ninja.train.pointer import _others, train_pointer  # noqa: E402
from ninja.train.simulated_lists import simulate  # noqa: E402
from ninja.tune.pointer import PointerSet, tune_pointer  # noqa: E402


def lists_of(words):
    return st.lists(st.lists(st.sampled_from(words), min_size=1, max_size=3).map(tuple), max_size=6, unique=True)


PHRASES = lists_of((*WORDS[5:], "elsewhere"))  # phrases of few words overlap often
SENTENCES = st.lists(st.sampled_from(WORDS[4:]), max_size=5).map(tuple)


def start_with_lists(*lists):
    """Return a contextual model, the slots of empty histories with these lists, and the list ids."""
    ids = PhraseListIds()
    lm = ContextMixture(((BASE, 1.0),), pointer=POINTER, phrase_lists=ids).over(TABLE, PENALTY)
    list_ids = [ids.of(entities(phrases).of("*")) for phrases in lists]
    root = lm.start(1)
    slots = [
        lm.start(1)[0] if list_id is None else lm.advance(root, np.array([list_id.number], np.int32))[0]
        for list_id in list_ids
    ]
    lm.release(root)
    return lm, np.array(slots), list_ids


def advance_words(lm, slots, sentence):
    for word in lm.vocabulary.ids(sentence):
        new = lm.advance(slots, np.full(len(slots), word, np.int32))
        lm.release(slots)
        slots = new
    return slots


def all_scores(lm, slots):
    """Return the log-probabilities of each word and the end after the histories, [slots, words]."""
    words = np.array([*lm.vocabulary.ids(WORDS), lm.eos], np.int32)
    return np.array([lm.logprob(np.full(len(words), slot), words) for slot in slots], np.float64)


def slow(phrases) -> SlowContextLM:
    below = word_logprob(REFERENCE_LM, PENALTY)

    def state(history):
        slots = BASE.start(1)
        for word in history:
            new = BASE.advance(slots, np.array([BASE.unk if word in UNKNOWN_WORDS else VOCABULARY.id(word)], np.int32))
            BASE.release(slots)
            slots = new
        states = BASE.states(slots)[0]
        BASE.release(slots)
        return states

    def vector(word):
        word_id = VOCABULARY.id(word)
        return np.zeros(BASE.state_size) if word_id is None else BASE.word_vectors(np.array([word_id], np.int32))[0]

    return SlowContextLM(below, state, vector, POINTER, [tuple(phrase) for phrase in phrases], WORDS)


@settings(max_examples=10)
# The end of a phrase may be the beginning of another phrase.
@example([("w6", "w7"), ("w7", "w8"), ("w8",)], ("w6", "w7"))
@example([("w6", "w7"), ("w6", "w7", "w8"), ("w6", "w8")], ("w6", "w7"))
@given(PHRASES, SENTENCES)
def test_scores_agree_with_enumeration_of_all_parses(phrases, sentence):
    lm, slots, _ids = start_with_lists(phrases)
    slots = advance_words(lm, slots, sentence)
    reference = slow(phrases)
    expected = [reference.logprob(sentence, word) for word in (*WORDS, "</s>")]
    np.testing.assert_allclose(all_scores(lm, slots)[0], expected, atol=1e-4)
    lm.release(slots)
    assert lm.num_slots == 0


@given(lists_of(WORDS[5:]), SENTENCES)
def test_probabilities_of_all_words_sum_to_one(phrases, sentence):
    lm, slots, _ids = start_with_lists(phrases)
    slots = advance_words(lm, slots, sentence)
    words = np.array([*lm.vocabulary.ids(WORDS), *lm.vocabulary.ids(["<s>", "</s>"])], np.int32)
    total = np.exp(lm.logprob(np.repeat(slots, len(words)), words).astype(np.float64)).sum()
    assert total == pytest.approx(1.0, abs=1e-5)


@settings(max_examples=12)
@given(st.lists(PHRASES, min_size=2, max_size=4), SENTENCES, st.randoms())
def test_scores_do_not_depend_on_batch_or_phrase_order(lists, sentence, random):
    lm, slots, _ids = start_with_lists(*lists, [])
    batch_scores = all_scores(lm, advance_words(lm, slots, sentence))
    for phrases, scores in zip(lists, batch_scores, strict=False):
        shuffled = random.sample(phrases, len(phrases))
        lm, slots, _ids = start_with_lists(shuffled)
        np.testing.assert_allclose(all_scores(lm, advance_words(lm, slots, sentence))[0], scores, atol=1e-4)


@settings(max_examples=12)
@given(st.lists(PHRASES, min_size=2, max_size=3), SENTENCES)
def test_several_lists_score_as_their_union(lists, sentence):
    parts = [entities(phrases).of("*") for phrases in lists]
    ids = PhraseListIds()
    lm = ContextMixture(((BASE, 1.0),), pointer=POINTER, phrase_lists=ids).over(TABLE, PENALTY)
    list_id = ids.of(sum(map(tuple, parts), ()))
    slots = lm.start(1) if list_id is None else lm.advance(lm.start(1), np.array([list_id.number], np.int32))
    union = list(dict.fromkeys(phrase for phrases in lists for phrase in phrases))
    union_lm, union_slots, _ids = start_with_lists(union)
    scores = all_scores(lm, advance_words(lm, slots, sentence))
    np.testing.assert_allclose(scores, all_scores(union_lm, advance_words(union_lm, union_slots, sentence)), atol=1e-4)


@settings(max_examples=12)
@given(SENTENCES)
def test_empty_list_gives_the_bytes_of_the_underlying_model(sentence):
    sentence = tuple(word for word in sentence if word not in UNKNOWN_WORDS)
    lm, slots, _ids = start_with_lists([], [("w8",)])
    words = np.array([*VOCABULARY.ids(WORDS[:-2]), BASE.eos], np.int32)
    below = BASE.start(1)
    for word in VOCABULARY.ids(sentence):
        below = BASE.advance(below, np.array([word], np.int32))
    slots = advance_words(lm, slots, sentence)
    word_ids = np.array([*lm.vocabulary.ids(WORDS[:-2]), lm.eos], np.int32)
    logprobs = lm.logprob(np.repeat(slots[0], len(word_ids)), word_ids)
    assert logprobs.tobytes() == BASE.logprob(np.repeat(below, len(words)), words).tobytes()


def stage(phrase_lists, **options) -> Contextual:
    return Contextual(Context(phrase_lists, options=ContextOptions(**options), context_model=POINTER))


@pytest.mark.parametrize("algorithm", ["arcbeam", "pushforward", "pruned", "nbest", "cover", "trie"])
@settings(max_examples=10)
@given(lattice=LATTICES, phrases=lists_of(WORDS[:4]))
def test_rescoring_agrees_with_scoring_every_path(algorithm, lattice, phrases):
    table = SymbolTable.from_words(["<eps>", *(f"w{number}" for number in range(1, 8)), "unheard-of"])
    lattice = replace(lattice, words=table)
    options = replace(
        EXACT, algorithm=algorithm, unk_penalty=PENALTY, max_trie_nodes=0, num_best=10_000, min_posterior=0.0,
        prune_beam=math.inf, max_ngram_order=0,
    )  # fmt: skip
    phrases_of_key = {
        lattice.key: {"phrases": [" ".join(phrase) for phrase in phrases]},
        "other": {"phrases": ["w2 w3", "w1"]},
    }
    lattice_entities = Entities.from_dict({"utterances": phrases_of_key}, words=table)
    other_lattice = lattice.replace(key="other")
    before = BASE.num_slots
    rescorer = Rescorer(BASE, options, context=stage(lattice_entities))
    rescored = dict(rescorer(iter([("other", other_lattice), (lattice.key, lattice)])))
    reference = slow(phrases)
    expected = path_costs_under(lattice, reference.logprob, options, 1 - options.lm_weight)
    costs = path_costs(rescored[lattice.key])
    if algorithm != "nbest":  # n-best lists have one path per word sequence
        assert [cost.words for cost in costs] == [cost.words for cost in expected]
        for cost, expected_cost in zip(costs, expected, strict=True):
            assert cost[1:3] == pytest.approx(expected_cost[1:3], abs=1e-4)
    assert BASE.num_slots == before


NAMES = {("<s>",): (-99.0, 0.0), ("</s>",): (-0.5, 0.0), ("<unk>",): (-1.5, 0.0), ("w1",): (-0.75, 0.0)}
NAMES |= {("@name",): (-0.5, 0.0), ("@place",): (-1.0, 0.0)}
CLASS_LM = language_model(SlowNgram(1, NAMES))

CLASSES = st.tuples(
    lists_of(WORDS[:4]), lists_of(WORDS[:4]), lists_of(WORDS[:4])
)  # names, places, and phrases without a class


def class_lists(key, names, places, unclassed):
    classes = {"@name": names, "@place": places, "phrases": unclassed}
    return {key: {name: [" ".join(phrase) for phrase in phrases] for name, phrases in classes.items()}}


def rescore_with_both(lists, lattices, **options):
    """Rescore lattices with a class model and a context model; return the costs of the paths by key."""
    lattice_entities = Entities.from_dict({"utterances": lists}, words=TABLE)
    context = Context(lattice_entities, CLASS_LM, options=ContextOptions(**options), context_model=POINTER)
    rescorer = Rescorer(BASE, replace(EXACT, unk_penalty=PENALTY), context=Contextual(context, None, EXACT.lm_weight))
    return {key: path_costs(lattice) for key, lattice in rescorer(iter(lattices))}


@settings(max_examples=8)
@given(lattice=LATTICES, lists=CLASSES, boost=st.sampled_from([0.0, 1.5]))
def test_class_and_context_model_agree_with_two_separate_stages(lattice, lists, boost):
    lattice = replace(lattice, words=TABLE)
    phrases = class_lists(lattice.key, *lists)
    both = rescore_with_both(
        phrases, [(lattice.key, lattice)], keyword_boost=9.0, context_boost=boost, class_boost=-2.0
    )
    grammar = ContextOptions(keyword_boost=boost, class_boost=-2.0)
    lattice_entities = Entities.from_dict({"utterances": phrases}, words=TABLE)
    class_stage = Contextual(Context(lattice_entities, CLASS_LM, options=grammar), None, EXACT.lm_weight)
    [(_, composed)] = class_stage(iter([(lattice.key, lattice)]))
    pointer = Contextual(Context(lattice_entities, context_model=POINTER), None, EXACT.lm_weight)
    pointer_rescorer = Rescorer(BASE, replace(EXACT, unk_penalty=PENALTY), context=pointer)
    [(_, rescored)] = pointer_rescorer(iter([(lattice.key, composed)]))
    assert both[lattice.key] == path_costs(rescored)


@settings(max_examples=8)
@given(lattice=LATTICES, lists=CLASSES, other_lists=CLASSES, random=st.randoms())
def test_class_and_context_model_do_not_depend_on_order_or_batch(lattice, lists, other_lists, random):
    lattice = replace(lattice, words=TABLE)
    other_lattice = lattice.replace(key="other")
    expected = rescore_with_both(class_lists(lattice.key, *lists), [(lattice.key, lattice)])[lattice.key]
    shuffled = class_lists(lattice.key, *(random.sample(phrases, len(phrases)) for phrases in lists))
    batch = rescore_with_both(
        shuffled | class_lists("other", *other_lists), [("other", other_lattice), (lattice.key, lattice)]
    )[lattice.key]
    assert [cost.words for cost in batch] == [cost.words for cost in expected]
    for cost, expected_cost in zip(batch, expected, strict=True):
        assert cost[1:3] == pytest.approx(expected_cost[1:3], abs=1e-4)


@pytest.mark.parametrize("name", ["context.pt", "context.safetensors"])
def test_context_model_of_another_language_model_raises_model_error(tmp_path, name):
    POINTER.save(tmp_path / name)
    loaded = ContextPointer.load(tmp_path / name)
    assert loaded.card == POINTER.card
    assert torch.equal(loaded.network.offset, POINTER.network.offset.half().float())
    loaded.refuse_other(BASE)
    other_lm = LstmLM(make_module(projection=4), VOCABULARY)
    other_lm._embedding = other_lm._embedding + 1.0
    with pytest.raises(ModelError, match="trained for another language model \\(tiny\\)"):
        loaded.refuse_other(other_lm)
    with pytest.raises(ModelError, match="has no hidden state"):
        loaded.refuse_other(FakeLM())
    loaded.encoder.save(tmp_path / "encoder.pt")
    with pytest.raises(ModelError, match="but no pointer for a language model"):
        ContextPointer.load(tmp_path / "encoder.pt")
    with pytest.raises(OptionError, match="requires a single language model, but there is a mixture"):
        stage(entities([])).over(Mixture(((BASE, 1.0),)))


def test_phrases_passed_to_submit_apply_only_to_that_lattice():
    lattice = Lattice.from_arrays("one", [0, 2, 2], [1, 1], [1, 2], [0.0, 0.0], [0.0, 0.0], [np.inf, 0.0])
    lattice = lattice.replace(words=TABLE)
    expected = [path_costs_under(lattice, slow(phrases).logprob, EXACT, 0.25) for phrases in ([("w1",)], [("w2",)])]
    with Rescorer(BASE, replace(EXACT, unk_penalty=PENALTY), context=stage(entities([]))) as rescorer:
        futures = [rescorer.submit(lattice, {"": [word]}) for word in ("w1", "w2")]
        costs = [path_costs(future.result()) for future in futures]
    for actual, reference in zip(costs, expected, strict=True):
        assert [cost[1:3] for cost in actual] == [pytest.approx(cost[1:3], abs=1e-4) for cost in reference]


def test_pointer_tracker_gains_agree_with_slow_model():
    phrases = [("w6", "w7"), ("w8",)]
    tracker = PointerTracker(TABLE, BASE, POINTER, ContextOptions(unk_penalty=PENALTY))
    start = tracker.start(entities(phrases).of("*"))
    sentence = ("w5", "w6", "w7", "unheard-of", "w8")
    state, reference, history = np.array([start]), slow(phrases), ()
    for word in sentence:
        state, gain = tracker.advance(state, np.array([TABLE.id(word)], np.int32))
        assert gain[0] == pytest.approx(reference.logprob(history, word) - reference.below(history, word), abs=1e-4)
        history += (word,)
    end = reference.logprob(history, "</s>") - reference.below(history, "</s>")
    assert tracker.final(state)[0] == pytest.approx(end, abs=1e-4)
    matches = tracker.matches(start, TABLE.ids(sentence))
    assert {match.text for match in matches} <= {"w6 w7", "w8"}
    _, gain = tracker.advance(np.array([tracker.start()]), np.array([TABLE.id("w8")], np.int32))
    assert gain[0] == 0.0
    after_epsilon, _ = tracker.advance(np.array([start]), np.array([0], np.int32))
    assert after_epsilon[0] == start  # an epsilon keeps the state
    tracker.clear()


def test_pointer_scores_of_arcs_follow_their_best_histories():
    lattice = Lattice.from_arrays("one", [0, 2, 3, 3], [1, 1, 2], [1, 8, 8], [0.0, 1.0, 0.0], [0.0] * 3,
                                  [np.inf, np.inf, 0.0])  # fmt: skip
    explanation = pointer_scores(
        lattice.replace(words=TABLE), stage(entities([("w8",)], key="one")), BASE, Scales(), RescoreReport()
    )
    reference = slow([("w8",)])
    cases = [((), "w1"), ((), "w8"), (("w1",), "w8")]
    expected = [reference.logprob(history, word) - reference.below(history, word) for history, word in cases]
    assert explanation.gain.tolist() == pytest.approx(expected, abs=1e-4)
    assert explanation.copied[0] == 0.0
    assert 0.0 < explanation.copied[1] < 1.0


def test_pointer_scores_advance_histories_of_the_same_length_together(monkeypatch):
    lattice = Lattice.from_arrays("one", [0, 3, 4, 5, 6, 7, 7], [1, 2, 3, 4, 4, 4, 5], [1, 2, 0, 8, 8, 3, 8],
                                  [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 7, [*[np.inf] * 5, 0.0])  # fmt: skip
    num_advanced, advance = [], ContextLM.advance

    def counted_advance(lm, slots, words):
        num_advanced.append(len(slots))
        return advance(lm, slots, words)

    monkeypatch.setattr(ContextLM, "advance", counted_advance)
    lattice = lattice.replace(words=TABLE)
    gain = pointer_scores(lattice, stage(entities([("w8",)], key="one")), BASE, Scales(), RescoreReport()).gain
    assert num_advanced == [1, 2, 1, 1]  # the phrases; states 1 and 2; state 4; state 5
    reference = slow([("w8",)])
    cases = [((), "w1"), ((), "w2"), (("w1",), "w8"), (("w2",), "w8"), ((), "w3"), (("w1", "w8"), "w8")]
    expected = [reference.logprob(history, word) - reference.below(history, word) for history, word in cases]
    assert np.isnan(gain[2])
    assert np.delete(gain, 2).tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("prior", [-30.0, 0.0])
def test_tuned_weights_minimise_errors(prior):
    lattice = Lattice.from_arrays("one", [0, 2, 2], [1, 1], [1, 8], [0.0, 0.0], [0.0, 0.0], [np.inf, 0.0])
    lattices = [("one", lattice.replace(words=TABLE))] * 12
    options = replace(EXACT, unk_penalty=PENALTY, lm_weight=1.0)

    def tune(word: str, min_words: int = 0):
        pointer_set = PointerSet(
            lattices,
            {key: [word] for key, _ in lattices},
            lambda weights: stage(entities([("w8",)], key="one"), **asdict(weights)),
        )
        return tune_pointer(pointer_set, None, BASE, options, ContextOptions(context_prior=prior), min_words=min_words)

    initial = tune("w8", min_words=500)
    assert (initial.chosen.prior, initial.chosen.weight) == (prior, 1.0)
    assert initial.evidence.endswith(f"{len(lattices)} words are too few to choose other weights")
    assert initial.chosen.wer == (100.0 if prior < 0 else 0.0)
    tuned = tune("w8")
    assert tuned.chosen.wer == min(trial.wer for trial in tuned.trials) == 0.0
    assert ("difference from the initial weights" in tuned.evidence) == (prior < 0)


def test_trained_pointer_predicts_phrases_in_their_usual_contexts():
    rng = np.random.default_rng(1)
    names = sorted({"".join(rng.choice(list("abcdefgh"), size=5)) for _ in range(330)})
    text = [["w1", f"w{rng.integers(2, 5)}", "w7", names[rng.integers(300)], "w2"] for _ in range(400)]
    text += [["w1", "w2", "w3", "w4"]] * 400
    options = PointerOptions(positions=3000, common=8, steps=300, batch=32, most_phrases=100, width=16, threads=1)
    losses = []
    pointer = train_pointer(
        BASE, "tiny", lambda: text, POINTER.encoder, options, lambda progress: losses.append(progress.loss)
    )
    assert losses[-1] < losses[0]
    table = SymbolTable.from_words(["<eps>", *WORDS, *names, "<s>", "</s>"])
    ids = PhraseListIds()
    lm = ContextMixture(((BASE, 1.0),), pointer=pointer, phrase_lists=ids).over(table, math.log(300))
    for size in (1, 100):
        list_id = ids.of(entities([(name,) for name in names[:size]], table).of("*"))
        before = advance_words(lm, lm.advance(lm.start(1), np.array([list_id.number], np.int32)), ["w1", "w3"])
        name = np.array([table.id(names[0])], np.int32)
        assert lm.logprob(before, name)[0] - lm.below(before, name)[0] < 3.0
        after = advance_words(lm, before, ["w7"])
        assert lm.logprob(after, name)[0] - lm.below(after, name)[0] > (5.0 if size == 1 else 2.0)


def test_diverging_training_raises_model_error():
    text = [["w1", f"name{number}", "w2"] for number in range(20)]
    options = PointerOptions(positions=100, common=2, steps=20, batch=4, width=4, threads=1, learning_rate=1e30)
    with pytest.raises(ModelError, match=r"diverged at step \d; use a learning rate below"):
        train_pointer(BASE, "tiny", lambda: text, POINTER.encoder, options)


def test_pointer_trains_on_text_of_unknown_words():
    options = PointerOptions(positions=100, common=0, steps=2, batch=4, width=4, threads=1)
    losses = []
    train_pointer(
        BASE,
        "tiny",
        lambda: [["hello", "world"]],
        POINTER.encoder,
        options,
        lambda progress: losses.append(progress.loss),
    )
    assert np.isfinite(losses).all()


def test_training_lists_may_contain_only_phrases_of_their_sentences():
    text = [["w1", f"w{number % 3 + 2}", "w7", f"name{chr(97 + number % 20)}", "w2"] for number in range(100)]
    options = PointerOptions(positions=600, common=8, steps=20, batch=16, most_phrases=0, width=4, threads=1)
    losses = []
    train_pointer(BASE, "tiny", lambda: text, POINTER.encoder, options, lambda progress: losses.append(progress.loss))
    assert math.isfinite(losses[-1])
    lists = simulate(lambda: text, options, np.random.default_rng(1))
    assert [len(_others(lists, set(), options, np.random.default_rng(seed))) for seed in range(3)] == [0, 0, 0]
    one_phrase = replace(options, most_phrases=1)
    assert [len(_others(lists, set(), one_phrase, np.random.default_rng(seed))) for seed in range(3)] == [1, 1, 1]


def test_scores_are_finite_for_long_lists_and_unknown_letters():
    phrases = [(f"name{number}",) for number in range(10_000)] + [("김민수",), ("Кузнецова",), ("w8",)]
    lm, slots, _ids = start_with_lists(phrases)
    words = np.array([*lm.vocabulary.ids(WORDS), lm.eos], np.int32)
    logprobs = lm.logprob(np.repeat(slots, len(words)), words)
    assert np.isfinite(logprobs).all()
    assert np.exp(logprobs.astype(np.float64)).sum() <= 1 + 1e-5
    report = RescoreReport(on_note=(notes := []).append)
    stage(entities([("김민수",), ("Кузнецова",), ("w8",)])).bind(TABLE, report)
    assert sum("the context model ignores letters that it does not know" in note for note in notes) == 1
