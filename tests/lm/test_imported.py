"""Networks that score all words at once: slots, the cache of rows and lazy evaluation, compared with plain
histories."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import protocol as slot_pool
from ninja.lm import sentence_logprobs
from ninja.lm.protocol import LoadOptions

torch = pytest.importorskip("torch")

from ninja.lm.imported import lazy  # noqa: E402
from ninja.lm.imported.lazy import HistoryLM, StepLM  # noqa: E402
from ninja.lm.imported.network import HistoryNetwork, StatePart, StepNetwork, state_part  # noqa: E402
from ninja.lm.word_map import Words, find  # noqa: E402

NUM_WORDS = 7
WORDS = Words.of(SymbolTable.from_words(["<s>", "</s>", "<unk>", "a", "b", "c", "d"]))
BEGIN = 11  # the number of the empty history
SMALL = 1009  # a prime; the number of a history is below it


def next_number(number, word):
    return (number * 31 + word + 5) % SMALL


def scores(number):
    """Return the scores of all words after a history, whose number is an argument, [..., words]."""
    return (number[..., None] * np.arange(3, 3 + NUM_WORDS) % 17) / 4.0


class Stepping(StepNetwork):
    """A network whose state is a number and, as a second part, the number of words read."""

    largest = 0  # size of a batch so far

    def __init__(self):
        parts = StatePart("number", torch.tensor(BEGIN), 0), StatePart("words", torch.tensor([[0.5, 1.5]]), 0)
        super().__init__(self.read, parts)

    def read(self, word, state):
        self.largest = max(self.largest, len(word))
        assert self.batch in (None, len(word))
        assert (state[1][:, 0, 1] - state[1][:, 0, 0] == 1).all()
        number = next_number(state[0], word)
        return torch.from_numpy(scores(number.numpy())).float(), (number, state[1] + 1)


class Refeeding(HistoryNetwork):
    def __init__(self):
        super().__init__(None)

    def score(self, words):
        assert self.batch in (None, len(words))
        number = torch.full((len(words),), BEGIN)
        for time in range(words.shape[1]):
            number = next_number(number, words[:, time])
        return torch.from_numpy(scores(number.numpy())).float()


def expected_score(history, word, normalize=True):
    """Return the expected score: the number of the history is computed word by word, the softmax in float64."""
    number = BEGIN
    for past_word in (0, *history):
        number = next_number(number, past_word)
    row = scores(np.array(number))
    return row[word] - (np.log(np.exp(row).sum()) if normalize else 0.0)


def make(kind, **options):
    batch = options.pop("batch", None)
    network = {"step": Stepping, "history": Refeeding}[kind]()
    network.batch = batch
    return {"step": StepLM, "history": HistoryLM}[kind](network, WORDS, LoadOptions(**options))


@pytest.mark.parametrize("kind", ["step", "history"])
@given(data=st.data())
def test_scores_depend_only_on_the_history_for_any_order_of_calls(kind, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy, "ROW_BYTES", 4 * NUM_WORDS * data.draw(st.integers(0, 9)))
        patch.setattr(lazy, "SCORE_BYTES", 4 * NUM_WORDS * data.draw(st.sampled_from([1, 3, 100])))
        patch.setattr(slot_pool, "FIRST_CAPACITY", 2)
        batch = data.draw(st.sampled_from([None, 1, 4]))
        lm = make(kind, batch=batch, max_batch=data.draw(st.sampled_from([None, 1, 2])))
        references = []  # (slot, history); a slot may have several references
        for _ in range(data.draw(st.integers(1, 12))):
            action = data.draw(st.sampled_from(["start", "advance", "logprob", "release"]))
            if action == "start":
                references += [(slot, ()) for slot in lm.start(data.draw(st.integers(0, 3)))]
            elif references and action == "release":
                indices = data.draw(st.lists(st.integers(0, len(references) - 1), unique=True))
                lm.release(np.array([references[index][0] for index in indices], np.int64))
                references = [reference for index, reference in enumerate(references) if index not in indices]
            elif references:
                requests = data.draw(st.lists(st.sampled_from(references), min_size=1, max_size=8))
                slots = np.array([slot for slot, _ in requests])
                words = np.array([data.draw(st.integers(1, NUM_WORDS - 1)) for _ in requests], np.int32)
                if action == "advance":
                    new = lm.advance(slots, words)
                    references += [
                        (slot, (*history, int(w))) for slot, (_, history), w in zip(new, requests, words, strict=True)
                    ]
                else:
                    expected = [
                        expected_score(history, word) for (_, history), word in zip(requests, words, strict=True)
                    ]
                    assert lm.logprob(slots, words) == pytest.approx(expected, abs=1e-5)
            assert lm.num_slots == len(references)
        lm.release(np.array([slot for slot, _ in references], np.int64))
        assert lm.num_slots == 0
        assert lm._slots.num_used == 2  # no slot leaks; two slots begin every sentence
        assert (lm._children[lm._references == 0] == 0).all()


@pytest.mark.parametrize("kind", ["step", "history"])
def test_without_normalisation_scores_are_the_raw_outputs(kind):
    lm = make(kind, normalize=False)
    slot = lm.start(1)
    assert lm.logprob(slot, np.array([4], np.int32))[0] == pytest.approx(expected_score((), 4, normalize=False))
    assert (lm.normalized, make(kind).normalized) == (None, True)


def test_batches_are_split_by_max_batch_and_memory(monkeypatch):
    for limit, options in ((3, {"max_batch": 3}), (2, {})):
        if not options:
            monkeypatch.setattr(lazy, "SCORE_BYTES", 2 * 4 * NUM_WORDS)
        network = Stepping()
        lm = StepLM(network, WORDS, LoadOptions(**options))
        slots = lm.advance(lm.start(40), np.arange(40, dtype=np.int32) % NUM_WORDS)
        lm.logprob(slots, np.full(40, 3, np.int32))
        assert network.largest == limit


def test_a_history_is_read_once_while_its_row_is_cached():
    network = Stepping()
    calls = []
    step = network.step
    network.step = lambda word, state: (calls.append(len(word)), step(word, state))[1]
    lm = StepLM(network, WORDS)
    slots = lm.advance(lm.start(3), np.array([3, 4, 5], np.int32))
    calls.clear()
    for _ in range(3):
        lm.logprob(np.repeat(slots, 2), np.array([1, 3] * 3, np.int32))
    lm.advance(slots, np.array([3, 3, 3], np.int32))
    assert calls == [3]


def test_a_failing_network_leaks_no_slots():
    network = Stepping()
    lm = StepLM(network, WORDS)
    slots = lm.advance(lm.start(2), np.array([3, 4], np.int32))
    network.step = lambda word, state: (_ for _ in ()).throw(RuntimeError("out of memory"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of memory"):
            lm.advance(slots, np.array([3, 3], np.int32))
        with pytest.raises(RuntimeError, match="out of memory"):
            lm.logprob(slots, np.array([3, 3], np.int32))
    assert lm.num_slots == 4
    del network.step
    assert lm.logprob(slots, np.array([3, 3], np.int32)) == pytest.approx(
        [expected_score((3,), 3), expected_score((4,), 3)], abs=1e-5
    )


def test_a_history_remains_valid_after_the_release_of_its_parent(monkeypatch):
    monkeypatch.setattr(slot_pool, "FIRST_CAPACITY", 4)  # two begin sentences, and two are free
    for lm in (make("step"), make("history")):
        root = lm.start(1)
        parent = lm.advance(root, np.array([3], np.int32))
        child = lm.advance(parent, np.array([4], np.int32))
        lm.release(parent)
        sibling = lm.advance(root, np.array([5], np.int32))
        assert {*sibling.tolist()}.isdisjoint({*parent.tolist(), *child.tolist()}), (
            "the history of the child uses this slot"
        )
        lm.logprob(sibling, np.array([6], np.int32))
        assert lm.logprob(child, np.array([6], np.int32)) == pytest.approx([expected_score((3, 4), 6)], abs=1e-5)
        lm.release(child)
        assert {*lm.advance(np.repeat(root, 2), np.array([3, 3], np.int32))} == {*parent, *child}


def test_sentences_of_different_lengths_are_scored_in_one_batch():
    random = np.random.default_rng(0)
    sentences = [random.integers(1, NUM_WORDS, length).tolist() for length in [*range(40), 3, 3, 17]]
    expected = [sum(expected_score(s[:time], word) for time, word in enumerate([*s, 1])) for s in sentences]
    for kind in ("step", "history"):
        assert sentence_logprobs(make(kind), sentences) == pytest.approx(expected, abs=1e-4)


def test_options_out_of_range_are_refused():
    with pytest.raises(OptionError, match="max_batch is 0"):
        make("step", max_batch=0)
    with pytest.raises(OptionError, match="cannot use the device 'nonsense'"):
        make("history", device="nonsense")


def test_the_number_of_words_of_a_network_is_determined():
    assert Stepping().count_words(torch.device("cpu")) == NUM_WORDS


@pytest.mark.parametrize(
    ("sizes", "batch", "axis"),
    [(["n", 4], "n", 0), ([2, "n", 4], "n", 1), ([2, None, 4], "n", 1), ([2, 5], 5, 1), ([1, 1, 4], 1, 0)],
)
def test_the_batch_dimension_of_a_state_is_found_by_name_or_size(sizes, batch, axis):
    assert state_part("state", sizes, torch.float32, batch, "file").axis == axis


@pytest.mark.parametrize(("sizes", "batch"), [([2, 4], "n"), (["a", "b"], "n"), ([3, 3, 4], 3), ([], 1)])
def test_a_state_without_a_unique_batch_dimension_is_refused(sizes, batch):
    with pytest.raises(ModelError, match=r"file: the state state .* dimensions? with the batch size"):
        state_part("state", sizes, torch.float32, batch, "file")


@pytest.mark.parametrize(
    ("words", "num_words", "message"),
    [
        (["<s>", "</s>", "a"], 4, "the vocabulary has 3 words, but the network scores 4"),
        (["<s>", "a"], 2, "does not contain </s>"),
        (["a", "</s>"], 2, "does not contain <s>"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(words, num_words, message):
    with pytest.raises(ModelError, match=message):
        Words.of(SymbolTable.from_words(words), "file").fit(num_words, "file")


def test_a_vocabulary_with_gaps_is_refused():
    with pytest.raises(ModelError, match="2 words, but ids up to 5"):
        Words.of(SymbolTable([("<s>", 0), ("</s>", 5)]))


def test_the_vocabulary_is_an_argument_or_in_the_model_or_in_words_txt(tmp_path):
    model = str(tmp_path / "model")
    with pytest.raises(ModelError, match=r"the model contains no vocabulary, and .*words\.txt does not exist"):
        find(model, None, None)
    (tmp_path / "words.txt").write_text("x 0\ny 1\n")
    assert find(model, None, None) == find(str(tmp_path), None, None) == SymbolTable.from_words(["x", "y"])
    assert find(model, None, "a\nb\n") == find(model, None, "b 1\r\na\t0\n") == SymbolTable.from_words(["a", "b"])
    assert find(model, SymbolTable.from_words(["given"]), "a\nb") == SymbolTable.from_words(["given"])


@pytest.mark.parametrize("text", ["", "a\n\nb", "a b c", "a 0\nb", "a x\nb 1", "a\na", "a 1\nb 1"])
def test_malformed_vocabularies_in_a_model_are_refused(text):
    with pytest.raises(ModelError, match=r"file: .*the model's vocabulary"):
        find("file", None, text)
