"""Costs and sums of costs beyond the range of a float: the lattice fails, and the others are written."""

import os
import re

import numpy as np
import pytest

import ninja as package
from ninja.errors import LatticeError
from ninja.graph import from_arcs, reverse
from ninja.lattice import Lattice

HUGE = 3e38  # twice this value overflows a float


def lattice(key, cost=1.0):
    """Return a lattice of two paths with two words each; with large costs, their sums overflow a float."""
    arcs = [0, 0, 1, 2], [1, 2, 3, 3], [5, 6, 7, 8], [cost, cost, cost, cost], [cost, cost, cost, cost]
    return from_arcs(key, *arcs, finals={3: (cost, cost)})


COMMANDS = [
    ["push"],
    ["union", "huge.ark"],
    ["reverse"],
    ["scale", "--lm-scale", "2"],
    ["scale", "--acoustic-scale", "2"],
    ["scale", "--acoustic2lm-scale", "1"],
    ["add-penalty", "--word-ins-penalty", "3e38"],
    ["combine", "huge.ark"],
    ["interp", "huge.ark", "--alpha", "0.5"],
    ["minimize", "--push-weights"],
    ["determinize"],
    ["determinize-pruned", "--beam", "1000"],
    ["expand-ngram", "--n", "2"],
    ["lmrescore", "--lm", "lm.arpa"],
    ["to-nbest"],
    ["1best"],
    ["project"],
    ["convert"],
]
ARPA = "\\data\\\nngram 1=6\n\n\\1-grams:\n-99 <s>\n-1 </s>\n-1 a\n-1 b\n-1 c\n-1 d\n\n\\end\\\n"


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with package.write("huge.ark") as output:
        for key, cost in (("a", 1.0), ("huge", HUGE), ("z", 2.0)):
            output.write(lattice(key, cost))
    (tmp_path / "words.txt").write_text("<eps> 0\na 5\nb 6\nc 7\nd 8\n<s> 1\n</s> 2\n")
    (tmp_path / "lm.arpa").write_text(ARPA)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("output", ["out.ark", "out.txt", "slf/"])
def test_outputs_of_commands_can_be_read(workdir, ninja, command, output):
    verb, *options = command
    to = ["--to", "slf", "--words", "words.txt"] if output == "slf/" else ["--words", "words.txt"]
    code, _, errors = ninja(verb, "huge.ark", *options, *to, "-o", output)
    assert code in (0, 1), errors
    assert "internal error" not in errors
    if output == "slf/":
        lattice_keys = [
            lattice.key for name in sorted(os.listdir(output)) for _, lattice in package.read(f"slf/{name}")
        ]
        assert len(lattice_keys) == len(os.listdir(output))
    else:
        lattice_keys = [key for key, _ in package.read(output)]
    keys = {key[:1] for key in lattice_keys}
    assert keys == ({"a", "z"} if code else {"a", "h", "z"}), errors
    if code:
        assert "1 failed: huge" in errors or "failed: key 'huge" in errors, errors


@pytest.mark.parametrize("verb", ["push", "scale"])
def test_commands_that_add_costs_report_the_failed_lattice(workdir, ninja, verb):
    options = ["--lm-scale", "2"] if verb == "scale" else []
    code, _, errors = ninja(verb, "huge.ark", *options, "-o", "out.ark")
    assert code == 1
    assert "key 'huge': " in errors
    assert re.search(
        "exceed the range of float32; scale the costs down first|exceeds? the range of (a float|float32)", errors
    )
    assert "2 lattices" in errors


@pytest.mark.parametrize("costs", [(HUGE, HUGE), (HUGE, 1.0), (1.0, HUGE)])
def test_reverse_raises_an_error_if_a_sum_of_costs_overflows(costs):
    """The first arcs have no words, so they become final states with the final cost of the last state."""
    arcs = [0, 0, 1, 2], [1, 2, 3, 3], [0, 0, 7, 8], [1.0, costs[0], 1, 1], [1.0, costs[1], 1, 1]
    with pytest.raises(LatticeError, match=r"key 'k': a sum of costs exceeds the range of float32"):
        reverse(from_arcs("k", *arcs, finals={3: (HUGE, HUGE)}))


def broken(**changes):
    """Return a lattice with costs that no file can represent."""
    whole = lattice("k")
    return whole.replace(**{name: np.array(value, np.float32) for name, value in changes.items()})


INF = np.inf
BROKEN = [
    {"graph": [1, INF, 1, 1]},
    {"graph": [1, 1, np.nan, 1]},
    {"acoustic": [-INF, 1, 1, 1]},
    {"final_graph": [INF, INF, INF, INF]},
    {"final_acoustic": [INF, INF, INF, INF]},
    {"final_graph": [INF, INF, INF, np.nan]},
    {"final_graph": [0, INF, INF, 1]},
    {"final_graph": 4 * [INF], "final_acoustic": 4 * [INF]},
]


@pytest.mark.parametrize("changes", BROKEN)
@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize("name", ["a.ark", "a.txt", "a.ark.gz"])
def test_a_writer_refuses_costs_that_no_reader_accepts(tmp_path, changes, in_batch, name):
    invalid: Lattice = broken(**changes)
    with package.write(tmp_path / name) as output:
        output.write(lattice("a"))
        if in_batch:
            assert output.prepared(package.lattice.batch.Batch.of([lattice("b"), invalid])) is None
        else:
            is_nan = any(np.isnan(values).any() for values in changes.values())
            reason = "are not numbers" if is_nan else "(exceeds? the range of (float32|a float)|no state is final)"
            with pytest.raises(LatticeError, match=rf"key 'k': .*{reason}"):
                output.write(invalid)
        batch = package.lattice.batch.Batch.of([lattice("b"), lattice("c")])
        assert output.write_all(batch, output.prepared(batch))
    assert list(package.keys(tmp_path / name)) == ["a", "b", "c"]
