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


def path_costs(path):
    """Return the graph cost and the acoustic cost of each word sequence."""
    (_, lattice), *_ = read(path)
    stack = [(0, 0.0, 0.0, ())]
    costs = {}
    while stack:
        source, graph, acoustic, words = stack.pop()
        if math.isfinite(lattice.final_graph[source]):
            costs[words] = (graph + lattice.final_graph[source], acoustic + lattice.final_acoustic[source])
        for arc in range(lattice.arc_begin[source], lattice.arc_begin[source + 1]):
            extended = (*words, int(lattice.word[arc]))
            stack.append((lattice.dst[arc], graph + lattice.graph[arc], acoustic + lattice.acoustic[arc], extended))
    return costs


def test_lmrescore_adds_scaled_lm_costs_to_each_path(ninja, inputs, tmp_path):
    archive, model = inputs
    out = tmp_path / "out.ark"
    code, _, errors = ninja("lmrescore", archive, "--lm", model, "--lm-scale", "2", "-o", out)
    assert code == 0, errors
    ln10 = math.log(10)
    known_cost = 2 * ln10 * (0.1 + 0.25)
    unknown_cost = 2 * (ln10 * (0.3 + 0.6 + 1.0))  # no penalty, because <unk> represents one word of the table only
    costs = path_costs(out)
    assert costs[1,] == pytest.approx((1.5 + known_cost, 7.0), abs=1e-4)
    assert costs[3,] == pytest.approx((1.25 + unknown_cost, 6.0), abs=1e-4)


def test_a_negative_scale_subtracts_added_costs(ninja, inputs, tmp_path):
    archive, model = inputs
    added, restored = tmp_path / "added.ark", tmp_path / "restored.ark"
    for source, scale, target in ((archive, "1", added), (added, "-1", restored)):
        table = archive.parent / "words.txt"
        call = ("lmrescore", source, "--lm", model, "--lm-scale", scale, "-o", target, "--words", table)
        assert ninja(*call)[0] == 0
    before, after = path_costs(archive), path_costs(restored)
    assert set(before) == set(after)
    for words, costs in before.items():
        assert after[words] == pytest.approx(costs, abs=1e-4)


def test_unk_penalty_is_added_for_an_unknown_word(ninja, inputs, tmp_path):
    archive, model = inputs
    out = tmp_path / "out.ark"
    assert ninja("lmrescore", archive, "--lm", model, "--unk-penalty", "3", "-o", out)[0] == 0
    assert path_costs(out)[3,][0] == pytest.approx(1.25 + math.log(10) * 1.9 + 3, abs=1e-4)


def test_map_words_finds_words_in_another_case(ninja, inputs, tmp_path):
    archive, model = inputs
    model.write_text(ARPA.replace(" b\n", " C\n"))
    out = tmp_path / "out.ark"
    code, _, errors = ninja("lmrescore", archive, "--lm", model, "-o", out)
    assert (code, "; --map-words case would find 1 of them" in errors) == (0, True)
    assert ninja("lmrescore", archive, "--lm", model, "--map-words", "case", "-o", out)[0] == 0
    assert path_costs(out)[3,][0] == pytest.approx(1.25 + math.log(10) * (0.3 + 0.8 + 1.0), abs=1e-4)


def test_lmrescore_refuses_other_models_missing_files_and_infinite_scales(ninja, inputs, tmp_path):
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
