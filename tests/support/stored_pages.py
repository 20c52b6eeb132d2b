"""Pages of the documentation whose tables are made from stored measurements."""

import shutil

from click.testing import CliRunner

from benchmarks.command import ROOT
from benchmarks.tables import Cells


def check_page(command, name, stored, folder):
    """Check that a command makes the tables of a page from stored cells, which have their origin."""
    page = folder / name
    shutil.copy(ROOT / "docs" / name, page)
    result = CliRunner().invoke(command, ["--output", str(page)], catch_exceptions=False)
    assert result.exit_code == 0
    assert page.read_text(encoding="utf-8") == (ROOT / "docs" / name).read_text(encoding="utf-8")
    cells = Cells(stored)
    assert cells
    for cell_name, cell in cells.items():
        assert cell.keys() >= {"date", "machine", "command", "seconds"}, cell_name
