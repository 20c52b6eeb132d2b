"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .comparison import (
    Comparison as Comparison,
    Outcome as Outcome,
    Outcomes as Outcomes,
    Utterance as Utterance,
    compare as compare,
)
from .detours import Detours as Detours, detours as detours
from .drawing import Drawing as Drawing, ShowOptions as ShowOptions, draw as draw
from .notebook import picture as picture
from .page import correction_page as correction_page, lattice_page as lattice_page
from .report_page import report_page as report_page
