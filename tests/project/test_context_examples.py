"""The examples of context for decoders run, and their searches find names that plain searches miss."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
torch = pytest.importorskip("torch")


@pytest.fixture
def run_example(monkeypatch, capsys):
    """Run an example; return its lines."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    threads = torch.get_num_threads()

    def run(name):
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        finally:
            torch.set_num_threads(threads)
        return capsys.readouterr().out.splitlines()

    return run


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
