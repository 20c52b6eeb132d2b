"""The scripts of docs/python.md write the same bytes as the commands above them, in at most twelve lines."""

import re

import pytest
from page_examples import ROOT, python_runner, run  # noqa: F401

PAGE = (ROOT / "docs" / "python.md").read_text()
SECTION = PAGE.partition("## Commands as scripts\n")[2].partition("\n## ")[0]
SCRIPTS = re.findall(r"^`(ninja (\w+) [^`]*)`:\n\n```python\n(.*?)^```", SECTION, re.M | re.S)


def test_page_has_a_script_for_each_command():
    assert [name for _, name, _ in SCRIPTS] == ["prune", "rescore", "context", "convert", "score"]


@pytest.mark.parametrize(("command", "name", "script"), SCRIPTS, ids=[name for _, name, _ in SCRIPTS])
def test_a_script_writes_the_bytes_of_its_command(command, name, script, tmp_path, run_python):
    assert len([line for line in script.splitlines() if line]) <= 12
    by_command, by_script = tmp_path / "command", tmp_path / "script"
    for folder in (by_command, by_script):
        folder.mkdir()
    printed = run(["bash", "-euo", "pipefail", "-c", command], by_command).stdout
    printed_by_script = run_python(script, by_script)
    files = {file.name: file.read_bytes() for file in by_command.glob("[!.]*") if file.is_file()}
    assert files
    assert files == {file.name: file.read_bytes() for file in by_script.glob("[!.]*") if file.is_file()}
    if name == "score":
        assert printed == printed_by_script
