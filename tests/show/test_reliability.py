"""Reliability diagrams as SVG files."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ninja.errors import OptionError
from ninja.evaluate.confidence import score_confidences
from ninja.show.reliability import plot_reliability

SVG = "{http://www.w3.org/2000/svg}"


def test_a_diagram_has_a_point_for_each_bin_with_words(tmp_path):
    scores = score_confidences([0.05, 0.55, 0.52, 0.95, 1.0], [False, True, False, True, True])
    plot_reliability(tmp_path / "a.svg", scores)
    tree = ElementTree.parse(tmp_path / "a.svg")
    points = [(float(point.get("cx")), float(point.get("cy"))) for point in tree.iter(f"{SVG}circle")]
    assert len(points) == 3
    assert points == sorted(points, key=lambda point: (point[0], -point[1]))
    middle = points[1]
    assert middle[1] == pytest.approx((points[0][1] + points[2][1]) / 2)  # shares of correct words: 0, 1/2 and 1
    text = (tmp_path / "a.svg").read_text()
    assert "1 correct of 2 words, mean confidence 0.535" in text
    assert str(scores) in text
    plot_reliability(tmp_path / "b.svg", scores)
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()


def test_reliability_diagrams_in_formats_other_than_svg_are_refused(tmp_path):
    with pytest.raises(OptionError, match=re.escape("a.png: reliability diagrams are SVG files")):
        plot_reliability(tmp_path / "a.png", score_confidences([0.5], [True]))
    assert not list(tmp_path.iterdir())
