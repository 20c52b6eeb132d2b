"""Language models by slot: the network step by step, compared with its definition on whole sentences."""

import copy
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, sentence_logprobs
from ninja.lm.protocol import LoadOptions
from ninja.lm.trie import word_logprobs

torch = pytest.importorskip("torch")

from ninja.lattice import batch  # noqa: E402
from ninja.lm import compute, protocol  # noqa: E402
from ninja.lm.recurrent import state_pool  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

NUM_WORDS = 40
VOCABULARY = SymbolTable.from_words(["<s>", "</s>", "<unk>", *(f"w{number}" for number in range(3, NUM_WORDS))])
SENTENCES = st.lists(st.lists(st.integers(2, NUM_WORDS - 1), max_size=7), min_size=1, max_size=8)


def make_module(layers=2, projection=0):
    torch.manual_seed(layers)
    module = LSTMLanguageModel(Config(NUM_WORDS, embedding=8, hidden=16, layers=layers, projection=projection))
    module.initialise()
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(3.0)  # large weights reveal a wrong gate
        module.bias.normal_()
    return module.eval()


MODULE = make_module()


@pytest.fixture
def lm():
    return LstmLM(MODULE, VOCABULARY)


@torch.inference_mode()
def whole_sentence(module, sentence):
    """Return the log-probability of each word by the LSTM and softmax of torch over the sentence."""
    word = torch.tensor([0, *sentence])
    logprob = module.logits(module(word[:, None])[:, 0]).log_softmax(-1)  # [time, vocabulary]
    return [float(logprob[time, target]) for time, target in enumerate([*sentence, 1])]


def array(*numbers):
    return np.array(numbers, np.int32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares CPU and GPU; no CUDA device here")
def test_gpu_scores_agree_with_the_cpu():
    sentences = [[5, 3, 2, 39, 5, 5], [], [7], [3, 4] * 9]
    on_cpu, on_gpu = (
        sentence_logprobs(LstmLM(MODULE, VOCABULARY, LoadOptions(device)), sentences) for device in ("cpu", "cuda")
    )
    assert on_gpu == pytest.approx(on_cpu, abs=1e-4)


@pytest.mark.parametrize(("layers", "projection"), [(1, 0), (2, 0), (3, 0), (1, 5), (3, 5)])
def test_steps_agree_with_the_definition_over_a_sentence(layers, projection):
    module = make_module(layers, projection)
    lm = LstmLM(module, VOCABULARY)
    sentence = [5, 3, 2, 39, 5, 5]
    slot = lm.start(1)
    for word, expected in zip([*sentence, lm.eos], whole_sentence(module, sentence), strict=True):
        assert lm.logprob(slot, array(word))[0] == pytest.approx(expected, abs=1e-5)
        slot = lm.advance(slot, array(word))


@settings(max_examples=12, deadline=None)
@given(SENTENCES)
def test_sentences_in_a_batch_have_their_single_scores(sentences):
    lm = LstmLM(MODULE, VOCABULARY)
    expected = [sum(whole_sentence(MODULE, sentence)) for sentence in sentences]
    assert sentence_logprobs(lm, sentences) == pytest.approx(expected, abs=1e-4)
    assert lm.num_slots == 0


def test_no_sentences_have_no_scores(lm):
    assert sentence_logprobs(lm, []).shape == (0,)


def test_a_word_id_beyond_the_vocabulary_is_refused(lm):
    with pytest.raises(OptionError, match=r"not in the model's range \[0, 39\]"):
        sentence_logprobs(lm, [[3, NUM_WORDS]])


@pytest.mark.parametrize("logit_words", [7, NUM_WORDS])
def test_probabilities_of_all_words_sum_to_one(monkeypatch, logit_words):
    monkeypatch.setattr(state_pool, "LOGIT_WORDS", logit_words)
    lm = LstmLM(MODULE, VOCABULARY)
    slot = lm.advance(lm.start(3), array(4, 17, 4))
    all_words = np.tile(np.arange(NUM_WORDS, dtype=np.int32), 3)
    logprob = lm.logprob(np.repeat(slot, NUM_WORDS), all_words)
    assert np.exp(logprob.astype(np.float64)).reshape(3, -1).sum(1) == pytest.approx([1, 1, 1], abs=1e-5)


def test_without_normalisation_scores_differ_by_a_constant_per_history():
    exact_lm, raw_lm = LstmLM(MODULE, VOCABULARY), LstmLM(MODULE, VOCABULARY, LoadOptions(normalize=False))
    words = array(1, 5, 9, 30)
    difference = raw_lm.logprob(np.repeat(raw_lm.start(1), 4), words) - exact_lm.logprob(
        np.repeat(exact_lm.start(1), 4), words
    )
    assert np.ptp(difference) < 1e-5
    assert abs(difference[0]) > 0.1


def test_an_estimated_normaliser_replaces_the_exact_one_by_default():
    module = make_module(2)
    plain_lm = LstmLM(copy.deepcopy(module), VOCABULARY)
    torch.manual_seed(1)
    module.add_normaliser(5)
    estimated_lm, exact_lm, raw_lm = (
        LstmLM(module, VOCABULARY, LoadOptions(normalize=normalize)) for normalize in (None, True, False)
    )
    sentence = [5, 3, 2, 39, 5, 5]
    output = module(torch.tensor([0, *sentence])[:, None])[:, 0]  # [time, embedding]
    estimate = module.normaliser(output)[:, 0].detach().numpy()
    scores = [word_logprobs(lm, [sentence])[0] for lm in (estimated_lm, exact_lm, raw_lm, plain_lm)]
    assert scores[0] == pytest.approx(scores[2] - estimate, abs=0.02)  # in bfloat16 if the processor supports it
    assert (scores[1] == scores[3]).all()
    assert [lm.normalized for lm in (estimated_lm, exact_lm, raw_lm, plain_lm)] == [False, True, False, True]


@pytest.mark.parametrize("half", [False, True])
def test_a_row_of_a_product_has_the_same_bits_in_every_batch(half):
    torch.manual_seed(1)
    weight, bias, rows = torch.randn(96, 40), torch.randn(96), torch.randn(300, 40)
    product = compute.linear(weight, bias, half=half)
    expected = product(rows)
    assert expected.dtype == torch.float32
    assert expected == pytest.approx(rows @ weight.T + bias, abs=0.4 if half else 1e-4)
    for size in (1, 2, 31, 32, 64, 257):
        assert (product(rows[:size].contiguous()) == expected[:size]).all()


def test_products_are_exact_if_onednn_is_limited_to_avx2():
    script = (
        "import torch; from ninja.lm.compute import computes_in_half, linear; "
        "torch.manual_seed(1); weight, rows = torch.randn(96, 40), torch.randn(64, 40); "
        "assert not computes_in_half(); "
        "assert (linear(weight, None, half=True)(rows) - rows @ weight.T).abs().max() < 1e-4"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("logit_words", [1, 16, 8192])
def test_scores_do_not_depend_on_the_batch(monkeypatch, logit_words):
    monkeypatch.setattr(state_pool, "LOGIT_WORDS", logit_words)
    words = np.random.default_rng(0).integers(1, NUM_WORDS, 300).astype(np.int32)

    def scores(lm):
        return [lm.logprob(lm.advance(lm.start(300), words), words[::-1]) for _ in range(2)]

    expected = np.array(scores(LstmLM(MODULE, VOCABULARY, LoadOptions(max_batch=1))))
    for rows_at_once in (1, 7, 256):
        monkeypatch.setattr(batch, "ROWS_AT_ONCE", rows_at_once)
        assert np.array(scores(LstmLM(MODULE, VOCABULARY))) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("num_rows", [0, 1, 31, 32, 33, 255, 256, 257, 2000])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_compute_every_row_once(num_rows, count):
    shared = compute.Threads()
    shared.count = count
    times = np.zeros(num_rows, np.int64)

    def count_rows(piece):
        times[piece] += 1

    shared.run(count_rows, num_rows)
    assert (times == 1).all()


def test_model_threads_do_not_change_the_thread_count_of_torch(lm):
    num_threads = torch.get_num_threads()
    lm.advance(np.repeat(lm.start(1), 300), np.full(300, 5, np.int32))
    assert torch.get_num_threads() == num_threads
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == num_threads


def test_a_failure_in_one_thread_is_raised(lm):
    def fail(piece):
        raise ModelError("no")

    with pytest.raises(ModelError, match="no"):
        compute.Threads().run(fail, 300)


def test_old_slots_stay_valid_and_branches_are_independent(lm):
    root = lm.start(1)
    before = lm.logprob(root, array(7))
    branch = lm.advance(np.repeat(root, 2), array(5, 6))
    assert lm.logprob(root, array(7)) == before
    expected = [whole_sentence(MODULE, [word, 7])[1] for word in (5, 6)]
    assert lm.logprob(branch, array(7, 7)) == pytest.approx(expected, abs=1e-5)


def test_released_slots_are_reused_without_their_old_state(lm):
    root = lm.start(1)
    old_slots = lm.advance(np.repeat(root, 2), array(5, 5))
    lm.logprob(old_slots, array(7, 7))  # stores normalisers in the slots
    lm.release(old_slots)
    continuation, restart = lm.advance(root, array(6)), lm.start(1)
    assert {*continuation, *restart} == {*old_slots}
    assert lm.logprob(continuation, array(7))[0] == pytest.approx(whole_sentence(MODULE, [6, 7])[1], abs=1e-5)
    assert lm.logprob(restart, array(7))[0] == pytest.approx(whole_sentence(MODULE, [7])[0], abs=1e-5)


def test_scores_are_unchanged_when_the_slot_pool_grows(monkeypatch):
    monkeypatch.setattr(protocol, "FIRST_CAPACITY", 2)
    lm = LstmLM(MODULE, VOCABULARY)
    slot = lm.advance(lm.start(2), array(5, 6))
    expected = lm.logprob(slot, array(7, 7))
    extra_slots = lm.start(100)
    assert len({*slot.tolist(), *extra_slots.tolist()}) == 102
    assert lm.logprob(slot, array(7, 7)) == pytest.approx(expected, abs=1e-6)
    lm.release(extra_slots)
    capacity = len(lm._slots._free)
    lm.start(90)
    assert len(lm._slots._free) == capacity


def test_empty_batches_are_accepted(lm):
    no_slots = np.empty(0, np.int64)
    for call in (lm.advance, lm.logprob):
        assert len(call(no_slots, no_slots.astype(np.int32))) == 0
    lm.release(lm.start(0))


def test_the_network_implements_the_language_model_protocol(lm):
    assert isinstance(lm, LanguageModel)
    assert (lm.bos, lm.eos, lm.unk) == (0, 1, 2)


@pytest.mark.parametrize(
    ("vocabulary", "options", "error", "message"),
    [
        (VOCABULARY, {"max_batch": 0}, OptionError, "max_batch is 0, but must be at least 1"),
        (VOCABULARY, {"device": "nonsense"}, OptionError, "cannot use the device 'nonsense'"),
        (
            SymbolTable.from_words(["<s>", "</s>"]),
            {},
            ModelError,
            "the vocabulary has 2 words, but the network scores 40",
        ),
        (SymbolTable.from_words([f"w{n}" for n in range(NUM_WORDS)]), {}, ModelError, "does not contain <s>"),
    ],
)
def test_invalid_vocabularies_and_options_are_refused(vocabulary, options, error, message):
    with pytest.raises(error, match=message):
        LstmLM(MODULE, vocabulary, LoadOptions(**options))
