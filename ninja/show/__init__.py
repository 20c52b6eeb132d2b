"""Self-contained HTML pages and pictures of lattices, and of comparisons of lattices before and after rescoring."""

from ninja.show.comparison import Comparison, Outcome, Outcomes, Utterance, compare
from ninja.show.correction_page import correction_page
from ninja.show.detours import Detours, detours
from ninja.show.drawing import Drawing, ShowOptions, draw
from ninja.show.notebook import picture
from ninja.show.page import lattice_page
from ninja.show.report_page import report_page

__all__ = [
    "Comparison",
    "Detours",
    "Drawing",
    "Outcome",
    "Outcomes",
    "ShowOptions",
    "Utterance",
    "compare",
    "correction_page",
    "detours",
    "draw",
    "lattice_page",
    "picture",
    "report_page",
]
