"""LSTM networks on NumPy: they have the scores of torch and do not import it."""

import importlib
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from test_lm_kernels import slow_logsumexp

from ninja.errors import ModelError, OptionError
from ninja.lattice.batch import RowThreads
from ninja.lm import load, sentence_logprobs
from ninja.lm.protocol import LoadOptions
from ninja.lm.recurrent import array_lstm
from ninja.lm.recurrent.array_lstm import ArrayLstm
from ninja.lm.stored_network import StoredNetwork

torch = pytest.importorskip("torch")

import tiny_lstm  # noqa: E402
from tiny_lstm import LATTICES, MODULE, NUM_WORDS, SENTENCES, SHAPES, VOCABULARY, WORDS  # noqa: E402

from ninja.lm.checkpoint import _packed  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402


def stored_network(module, storage=None, **card):
    """Return a network in a stored precision: "half", "int8", or None for single precision."""
    state = module.state_dict() if storage is None else _packed(module, storage)
    arrays = {name: array if isinstance(array, np.ndarray) else array.numpy() for name, array in state.items()}
    config = {name: getattr(module.config, name) for name in module.config.__dataclass_fields__}
    return StoredNetwork("lstm", config, WORDS, card, arrays, storage or "half", "model.safetensors")


def with_normaliser():
    module = tiny_lstm.make_module()
    torch.manual_seed(3)
    module.add_normaliser(5)
    return module.eval()


@pytest.fixture(autouse=True)
def single_precision(monkeypatch):
    monkeypatch.setattr("ninja.lm.compute.computes_in_half", lambda: False)


@pytest.mark.parametrize("name", [None, *SHAPES])
def test_sentence_scores_equal_the_definition(name):
    module = MODULE if name is None else SHAPES[name].module
    tiny_lstm.check_sentence_scores(ArrayLstm(stored_network(module)), module)


@given(LATTICES)
def test_rescored_lattices_have_the_scores_of_their_paths(lattice):
    tiny_lstm.check_path_scores(ArrayLstm(stored_network(MODULE)), lattice)


@pytest.mark.parametrize("storage", ["half", "int8"])
@pytest.mark.parametrize("normalize", [None, True, False])
def test_stored_weights_give_the_scores_of_torch(storage, normalize):
    from ninja.lm.checkpoint import as_stored

    module = with_normaliser()
    numpy_lm = ArrayLstm(stored_network(module, storage), LoadOptions(normalize=normalize))
    torch_lm = LstmLM(as_stored(module, storage), VOCABULARY, LoadOptions("cpu", normalize=normalize))
    assert numpy_lm.normalized == torch_lm.normalized
    assert numpy_lm.num_parameters == torch_lm.num_parameters
    assert numpy_lm.device is None
    assert sentence_logprobs(numpy_lm, SENTENCES) == pytest.approx(sentence_logprobs(torch_lm, SENTENCES), abs=1e-4)
    words = np.arange(NUM_WORDS)
    assert numpy_lm.word_vectors(words) == pytest.approx(torch_lm.word_vectors(words), abs=1e-6)
    slots = [lm.advance(lm.start(2), np.array([3, 4], np.int32)) for lm in (numpy_lm, torch_lm)]
    assert numpy_lm.states(slots[0]) == pytest.approx(torch_lm.states(slots[1]), abs=1e-5)


@pytest.mark.parametrize("cached_bytes", [1, 400, 48 << 20])
@pytest.mark.parametrize("logit_words", [1, 3, 4096])
def test_scores_do_not_depend_on_batch_or_cache(monkeypatch, cached_bytes, logit_words):
    monkeypatch.setattr(array_lstm, "CACHED_BYTES", cached_bytes)
    monkeypatch.setattr(array_lstm, "LOGIT_WORDS", logit_words)
    words = np.random.default_rng(0).integers(1, NUM_WORDS, 300).astype(np.int32)
    batched_lm, single_lm = (
        ArrayLstm(stored_network(MODULE)),
        ArrayLstm(stored_network(MODULE), LoadOptions(max_batch=1)),
    )
    for _ in range(2):
        scores = [lm.logprob(lm.advance(lm.start(300), words), words[::-1]) for lm in (batched_lm, single_lm)]
        assert np.array_equal(*scores)


def test_branches_of_a_history_are_independent_and_old_slots_stay_valid():
    lm = ArrayLstm(stored_network(MODULE))
    [root] = lm.start(1)
    expected = lm.logprob(np.full(NUM_WORDS, root), np.arange(NUM_WORDS, dtype=np.int32))
    slots = lm.advance(np.full(5, root), np.array([3, 4, 3, 5, 4], np.int32))
    scores = lm.logprob(slots, np.full(5, 6, np.int32))
    assert scores[[0, 1]] == pytest.approx(scores[[2, 4]])
    assert len(set(scores.round(4).tolist())) == 3
    assert np.array_equal(lm.logprob(np.full(NUM_WORDS, root), np.arange(NUM_WORDS, dtype=np.int32)), expected)
    assert slow_logsumexp(expected[None]) == pytest.approx([0.0], abs=1e-5)


def test_twins_in_threads_give_the_scores_of_one_model():
    lm = ArrayLstm(stored_network(MODULE))
    expected = sentence_logprobs(lm, SENTENCES)
    twins = lm.for_threads(4)
    with ThreadPoolExecutor(4) as pool:
        for scores in pool.map(lambda twin: [sentence_logprobs(twin, SENTENCES) for _ in range(20)], twins):
            assert all(score == pytest.approx(expected, abs=1e-4) for score in scores)
    assert all(twin.num_slots == 0 for twin in twins)


def test_out_of_memory_releases_the_slots(monkeypatch):
    lm = ArrayLstm(stored_network(MODULE))
    slots = lm.start(3)
    monkeypatch.setattr(ArrayLstm, "_advance", lambda *arguments: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError):
        lm.advance(slots, np.full(3, 4, np.int32))
    assert lm.num_slots == 3


def test_arrays_that_do_not_fit_the_configuration_are_refused():
    network = stored_network(MODULE)
    network.arrays["lstm.weight_ih_l1"] = network.arrays["lstm.weight_ih_l1"][:, 1:]
    with pytest.raises(
        ModelError, match=r"lstm.weight_ih_l1 has shape \[40, 5\], but the configuration needs \[40, 6\]"
    ):
        ArrayLstm(network)


@pytest.mark.parametrize("num_rows", [0, 1, 31, 33, 257, 2000])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_row_is_computed_once(num_rows, count):
    times = np.zeros(num_rows, np.int64)

    def count_rows(piece):
        times[piece] += 1

    RowThreads(count).run(count_rows, num_rows)
    assert (times == 1).all()


@pytest.mark.parametrize("fails_in_caller", [True, False])
def test_an_error_is_raised_after_all_threads_have_stopped(fails_in_caller):
    caller, both_run, pieces = threading.get_ident(), threading.Barrier(2), []

    def compute(piece):
        both_run.wait(10)
        if (threading.get_ident() == caller) == fails_in_caller:
            raise ModelError("no")
        time.sleep(0.1)
        pieces.append(piece)

    with pytest.raises(ModelError, match="no"):
        RowThreads(2).run(compute, 64)
    assert len(pieces) == 1


def test_the_backend_is_numpy_unless_torch_computes_on_another_device(monkeypatch, tmp_path):
    assert isinstance(load(), ArrayLstm)
    assert isinstance(load(backend="numpy", device="cpu"), ArrayLstm)
    assert isinstance(load(backend="torch", device="cpu"), LstmLM)
    driver = tmp_path / "version"
    driver.touch()
    module = importlib.import_module("ninja.lm.load")  # `ninja.lm.load` is the function
    monkeypatch.setattr(module, "DRIVER", str(driver))
    assert isinstance(load(), LstmLM)
    assert isinstance(load(device="cpu"), ArrayLstm)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert isinstance(load(), ArrayLstm)


def test_numpy_is_refused_for_a_gpu_and_for_networks_that_need_torch(tmp_path):
    import tiny_transformer

    from ninja.lm import checkpoint

    with pytest.raises(OptionError, match="the backend numpy computes on the CPU, not on cuda:1"):
        load(backend="numpy", device="cuda:1")
    with pytest.raises(OptionError, match="backend is 'jax', but must be auto, numpy or torch"):
        load(backend="jax")
    checkpoint.save(
        checkpoint.Checkpoint(tiny_transformer.make_module(), tiny_transformer.WORDS, {}), tmp_path / "model.pt"
    )
    with pytest.raises(OptionError, match="a transformer network needs torch"):
        load(tmp_path / "model.pt", backend="numpy")
    assert load(tmp_path / "model.pt").scores_tries


def test_rescoring_with_numpy_does_not_import_torch():
    script = (
        "import sys, numpy as np, ninja; lm = ninja.lm.load(backend='numpy'); "
        "slots = lm.advance(lm.start(2), np.array([5, 6], np.int32)); "
        "assert (lm.logprob(slots, np.array([7, 8], np.int32)) < 0).all(); assert 'torch' not in sys.modules"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr


def test_numpy_lstm_has_all_public_members_of_the_torch_lstm():
    names = SimpleNamespace(numpy=set(dir(ArrayLstm)), torch=set(dir(LstmLM)))
    assert {name for name in names.torch - names.numpy if not name.startswith("_")} == set()
