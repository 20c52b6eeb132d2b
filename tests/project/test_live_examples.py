"""The examples of live rescoring run, and their second results are better than their first."""

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


def test_rescoring_ctc_matrices_halves_the_error_rate(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / "live_ctc.py"), run_name="__main__")
    before, after = (float(rate) for rate in re.findall(r"([\d.]+)%$", capsys.readouterr().out, re.MULTILINE))
    assert after < before / 2
