"""The table of usual weights in docs/howto/scales.md has the weights of the code."""

from pathlib import Path

from ninja.rescoring import RescoreOptions
from ninja.rescoring.options import LATTICES, LISTS

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/scales.md"


def test_weights_table_agrees_with_the_code() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| input | acoustic scale |")) + 2
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first : first + 4]]
    default = RescoreOptions()
    assert [tuple(map(float, row[1:4])) for row in rows] == [
        (default.acoustic_scale, LATTICES.lm_weight, LATTICES.word_penalty),
        (default.acoustic_scale, default.lm_weight, default.word_penalty),
        (1.0, LISTS.lm_weight, LISTS.word_penalty),
        (1.0, default.lm_weight, default.word_penalty),
    ]
    names = ("hybrid", "hybrid", "attention", "CTC")
    assert [name in row[0] for name, row in zip(names, rows, strict=True)] == [True] * 4
    assert "no development set" in rows[3][5]
