"""Devices of models: copies on several devices share the lattices, and messages name the GPUs."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from threaded_rescoring import OPTIONS, identical, make_lm, run

import ninja
from ninja.errors import OptionError
from ninja.graph import best_path
from ninja.lm import Mixture, load
from ninja.lm.devices import chosen_device, describe_devices
from ninja.lm.ngram.model import NgramLM
from ninja.models import ENGLISH_NGRAM
from ninja.rescoring import RescoreReport
from ninja.rescoring.models import ModelFiles

torch = pytest.importorskip("torch")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def on_two_devices(*seeds):
    """Return a model with two replicas, both on the CPU."""
    lm, replica = make_lm(*seeds), make_lm(*seeds)
    lm.replicas = (lm, replica)
    return lm, replica


def record_calls(lm, monkeypatch):
    """Return a list that receives the batch size of each call of `logprob`."""
    batch_sizes = []
    original = lm.logprob

    def logprob(slots, words):
        batch_sizes.append(len(slots))
        return original(slots, words)

    monkeypatch.setattr(lm, "logprob", logprob)
    return batch_sizes


@pytest.mark.parametrize("threads", [1, 3])
def test_splitting_lattices_across_replicas_does_not_change_results(monkeypatch, threads):
    lm, replica = on_two_devices()
    batch_sizes = [record_calls(model, monkeypatch) for model in (lm, replica)]
    assert identical(run(lm, threads=threads), run(make_lm()))
    assert all(batch_sizes)
    assert lm.num_slots == replica.num_slots == 0


def test_replicas_with_a_model_that_cannot_be_copied_are_refused(monkeypatch):
    lm, _ = on_two_devices()
    single_thread_lm = make_lm(2)
    monkeypatch.setattr(type(single_thread_lm), "twin", lambda self: None)
    with pytest.raises(OptionError, match="cannot be copied to several devices; specify only one device"):
        run(Mixture([(lm, 0.6), (single_thread_lm, 0.4)]))


def test_replicas_in_a_mixture_use_twins_of_the_other_models(monkeypatch):
    lm, replica = on_two_devices()
    batch_sizes = record_calls(replica, monkeypatch)
    expected = run(Mixture([(make_lm(), 0.6), (make_lm(2), 0.4)]))
    assert identical(run(Mixture([(lm, 0.6), (make_lm(2), 0.4)])), expected)
    assert batch_sizes


def test_a_comma_separated_device_loads_a_copy_on_each():
    lm = load(device="cpu, cpu")
    assert len(lm.replicas) == 2
    assert lm.replicas[0] is lm
    assert lm.replicas[1] is not lm
    assert lm.replicas[1].device == "cpu"
    assert load(device="cpu", backend="torch").replicas == ()


def test_ngram_models_need_no_device():
    lm = load(ENGLISH_NGRAM, device="cuda:7,cuda:8")
    assert isinstance(lm, NgramLM)
    assert lm.device is None
    assert lm.replicas == ()


def test_an_unknown_device_is_refused():
    with pytest.raises(OptionError, match="torch cannot use the device 'nowhere'"):
        load(device="cpu,nowhere")


@pytest.mark.parametrize("device", ["meta", "vulkan", "privateuseone"])  # they lack data, a kernel, or a module
def test_devices_without_support_are_refused_in_one_line(device):
    with pytest.raises(OptionError, match=f"torch cannot use the device '{device}'") as caught:
        load(device=device)
    assert "\n" not in str(caught.value)


def test_auto_selects_a_gpu_that_torch_can_use(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert chosen_device("auto") == "cuda"
    assert chosen_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert chosen_device("auto") == "cpu"
    assert load(device="auto", backend="torch").device == "cpu"


def test_the_description_names_the_gpus_in_use(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H200")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    line = describe_devices("auto", ["cuda:0", None])
    assert line == "computing on cuda:0 (H200); 1 more GPU is available with --device"
    line = describe_devices("cuda:0,cuda:1", ["cuda:1", "cuda:0"])
    assert line == "computing on cuda:0 (H200), cuda:1 (H200)"


def test_the_description_reports_a_gpu_that_torch_cannot_use(monkeypatch, tmp_path):
    driver = tmp_path / "version"
    monkeypatch.setattr("ninja.lm.devices.DRIVER", str(driver))
    assert describe_devices("auto", ["cpu"]) is None
    driver.touch()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert describe_devices("auto", ["cpu"]) == (
        "computing on the CPU: torch cannot use the GPU (it was built without CUDA)"
    )
    assert describe_devices("cpu", ["cpu"]) is None  # the user requested the CPU
    assert describe_devices("auto", [None]) is None  # an n-gram model


def test_the_device_description_is_added_to_the_report(monkeypatch):
    monkeypatch.setattr("ninja.rescoring.models.describe_devices", lambda name, devices: f"{name}: {sorted(devices)}")
    log = RescoreReport()
    ModelFiles(device="cpu,cpu").load(OPTIONS, None, log)
    assert log.notes == ["cpu,cpu: ['cpu', 'cpu']"]


def test_devices_are_described_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # any use of torch fails
    assert describe_devices("auto", [None]) is None


# This test needs a GPU, because it compares computed scores.
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("normalize", [None, True])
@pytest.mark.parametrize("algorithm", ["arcbeam", "trie"])
def test_a_gpu_gives_the_words_and_scores_of_the_cpu(algorithm, normalize):
    words = ninja.SymbolTable.read(EXAMPLES / "words.txt")
    lattices = list(ninja.read(EXAMPLES / "lat.ark.gz", words=words))[:10]
    options = replace(OPTIONS, algorithm=algorithm)
    cpu_results, gpu_results = (
        run(load(device=name, normalize=normalize), options, lattices=lattices) for name in ("cpu", "cuda")
    )
    for (_, cpu_lattice), (_, gpu_lattice) in zip(cpu_results, gpu_results, strict=True):
        cpu_path, gpu_path = (best_path(lattice, options.scales) for lattice in (cpu_lattice, gpu_lattice))
        assert list(cpu_path.words) == list(gpu_path.words)
        assert gpu_path.cost == pytest.approx(cpu_path.cost, abs=1e-3 * len(cpu_path.words))
