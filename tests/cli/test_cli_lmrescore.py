"""``ninja lmrescore``: addition and subtraction of the costs of n-gram models."""

import math

import pytest
from lattice_files import write_all

from ninja import read
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable

ARPA = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-99 <s> -0.3
-1.0 </s>
-0.6 <unk>
-0.4 a -0.2
-0.8 b

\\2-grams:
-0.1 <s> a
-0.25 a </s>

\\end\\
"""
WORDS = SymbolTable([("<eps>", 0), ("a", 1), ("b", 2), ("c", 3)])


@pytest.fixture
def inputs(tmp_path):
    lattice = from_arcs("k", [0, 0], [1, 1], [1, 3], [0.5, 0.25], [7.0, 6.0], finals={1: (1.0, 0.0)}, words=WORDS)
    archive, words, model = tmp_path / "lat.ark", tmp_path / "words.txt", tmp_path / "lm.arpa"
    write_all(archive, [lattice])
    words.write_text("<eps> 0\na 1\nb 2\nc 3\n")
    model.write_text(ARPA)
    return archive, model


def graph_costs(path):
    """Return the graph cost and the acoustic cost of the path of each word."""
    (_, lattice), *_ = read(path)
    state = [(0, 0.0, 0.0, ())]
    found = {}
    while state:
        place, graph, acoustic, said = state.pop()
        if math.isfinite(lattice.final_graph[place]):
            found[said] = (graph + lattice.final_graph[place], acoustic + lattice.final_acoustic[place])
        for arc in range(lattice.arc_begin[place], lattice.arc_begin[place + 1]):
            longer = (*said, int(lattice.word[arc]))
            state.append((lattice.dst[arc], graph + lattice.graph[arc], acoustic + lattice.acoustic[arc], longer))
    return found


def test_each_path_pays_what_the_model_asks_times_the_scale(ninja, inputs, tmp_path):
    archive, model = inputs
    out = tmp_path / "out.ark"
    code, _, errors = ninja("lmrescore", archive, "--lm", model, "--lm-scale", "2", "-o", out)
    assert code == 0, errors
    ln10 = math.log(10)
    known = 2 * ln10 * (0.1 + 0.25)
    unknown = 2 * (ln10 * (0.3 + 0.6 + 1.0))  # one word of the table shares <unk>: no penalty
    costs = graph_costs(out)
    assert costs[1,] == pytest.approx((1.5 + known, 7.0), abs=1e-4)
    assert costs[3,] == pytest.approx((1.25 + unknown, 6.0), abs=1e-4)


def test_costs_that_were_added_can_be_subtracted(ninja, inputs, tmp_path):
    archive, model = inputs
    added, back = tmp_path / "added.ark", tmp_path / "back.ark"
    for source, scale, target in ((archive, "1", added), (added, "-1", back)):
        words = archive.parent / "words.txt"
        call = ("lmrescore", source, "--lm", model, "--lm-scale", scale, "-o", target, "--words", words)
        assert ninja(*call)[0] == 0
    before, after = graph_costs(archive), graph_costs(back)
    assert set(before) == set(after)
    for said, costs in before.items():
        assert after[said] == pytest.approx(costs, abs=1e-4)


def test_an_unknown_word_costs_the_penalty_that_is_given(ninja, inputs, tmp_path):
    archive, model = inputs
    out = tmp_path / "out.ark"
    assert ninja("lmrescore", archive, "--lm", model, "--unk-penalty", "3", "-o", out)[0] == 0
    assert graph_costs(out)[3,][0] == pytest.approx(1.25 + math.log(10) * 1.9 + 3, abs=1e-4)


def test_other_models_and_missing_files_are_refused_with_what_to_do(ninja, inputs, tmp_path):
    from ninja.models import ENGLISH

    archive, model = inputs
    out = tmp_path / "out.ark"
    code, _, errors = ninja("lmrescore", archive, "--lm", ENGLISH, "-o", out)
    assert code == 1
    assert "not an n-gram model" in errors
    code, _, errors = ninja("lmrescore", archive, "--lm", tmp_path / "none.arpa", "-o", out)
    assert code == 1
    assert "no such file" in errors
    code, _, errors = ninja("lmrescore", archive, "--lm", model, "--lm-scale", "inf", "-o", out)
    assert code == 2
    assert "--lm-scale is inf" in errors
    assert not out.exists()
