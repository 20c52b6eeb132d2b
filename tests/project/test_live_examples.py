"""The examples of live rescoring run, and their second results are better than their first."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAID = {"sea": "he went to the sea to look at the boats", "window": "she went to the window and looked at the street"}


def test_pocketsphinx_is_corrected_while_it_decodes():
    pytest.importorskip("pocketsphinx")
    program = [sys.executable, EXAMPLES / "live_pocketsphinx.py"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    found = {(key, kind): text for key, kind, text in re.findall(r"(\w+) +(heard|better) +(.*)", done.stdout)}
    assert found.keys() == {(key, kind) for key in SAID for kind in ("heard", "better")}
    for key, said in SAID.items():
        assert found[key, "heard"] != said
        assert found[key, "better"] == said


def test_ctc_matrices_of_many_callers_are_corrected(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / "live_ctc.py"), run_name="__main__")
    before, after = (float(rate) for rate in re.findall(r"([\d.]+)%$", capsys.readouterr().out, re.MULTILINE))
    assert after < before / 2
