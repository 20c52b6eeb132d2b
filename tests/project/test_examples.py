"""The examples of live rescoring and of context for decoders run, and their second results are better."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REFERENCES = {
    "sea": "he went to the sea to look at the boats",
    "window": "she went to the window and looked at the street",
}


def test_pocketsphinx_results_are_corrected_during_decoding():
    pytest.importorskip("pocketsphinx")
    program = [sys.executable, EXAMPLES / "live_pocketsphinx.py"]
    process = subprocess.run(program, capture_output=True, text=True, timeout=200)
    assert process.returncode == 0, process.stderr
    results = {(key, kind): text for key, kind, text in re.findall(r"(\w+) +(heard|better) +(.*)", process.stdout)}
    assert results.keys() == {(key, kind) for key in REFERENCES for kind in ("heard", "better")}
    for key, reference in REFERENCES.items():
        assert results[key, "heard"] != reference
        assert results[key, "better"] == reference


@pytest.fixture
def run_example(monkeypatch, capsys):
    """Run an example; return its lines."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(name):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def torch_threads():
    """Restore the number of threads of torch, which examples change."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_rescoring_ctc_matrices_halves_the_error_rate(run_example):
    rates = [re.search(r"([\d.]+)%$", line) for line in run_example("live_ctc.py")]
    before, after = (float(rate[1]) for rate in rates if rate)
    assert after < before / 2


@pytest.mark.usefixtures("torch_threads")
@pytest.mark.parametrize("name", ["context_ctc.py", "context_attention.py"])
def test_context_finds_more_names_without_more_other_errors(run_example, name):
    lines = run_example(name)
    pattern = r"(.+?) +(\d+) of 40 names found; word error rate without names ([0-9.]+)%"
    (plain, *before), (context, *after) = (re.fullmatch(pattern, line).groups() for line in lines[-2:])
    assert (plain, context) == ("plain", "with context")
    assert int(after[0]) >= int(before[0]) + 10
    assert float(after[1]) <= float(before[1])
    assert float(after[1]) < 10, "the model was not trained well enough"
    example_lines = dict(line.split("  ", 1) for line in lines[:3])
    assert example_lines.keys() == {"spoken", "plain", "with context"}
