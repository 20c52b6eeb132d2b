"""docs/python.md: its calls exist, every command has a call, and calls agree with their commands."""

import re
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest
from lattice_files import write_all

import ninja as package
from ninja.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()
WORDS = ROOT / "examples" / "words.txt"
SCALES = package.Scales(acoustic=0.1)


def resolve(name):
    """Return the object of a dotted name; import its modules."""
    value = package
    module = "ninja"
    for part in name.split(".")[1:]:
        module += f".{part}"
        if not hasattr(value, part):
            import_module(module)
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(ninja(?:\.\w+)+)", PAGE))))
def test_names_of_the_page_exist(name):
    assert resolve(name) is not None


def test_every_command_has_a_call():
    table = PAGE.partition("## Commands as calls")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    assert all("`ninja." in calls for _, calls in rows)
    assert sorted(name for commands, _ in rows for name in re.findall(r"`([^`]+)`", commands)) == sorted(COMMANDS)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Write a file of the first lattices of the example."""
    path = tmp_path_factory.mktemp("few") / "lat.ark"
    write_all(path, (lattice for _, lattice in islice(package.read(ROOT / "examples" / "lat.ark.gz"), 4)))
    return path


CALLS = {
    "prune --beam 4 --acoustic-scale 0.1": lambda lattice: package.graph.prune(lattice, 4.0, SCALES),
    "limit-depth --max-arcs-per-frame 5": lambda lattice: package.graph.limit_depth(lattice, 5),
    "determinize-pruned --beam 4": lambda lattice: package.graph.determinize_pruned(lattice, 4.0)[0],
    "scale --lm-scale 2": lambda lattice: package.graph.scale(lattice, graph_scale=2.0),
    "rmali": lambda lattice: package.graph.remove_alignments(lattice),
    "copy": lambda lattice: lattice,
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_and_commands_write_the_same_bytes(call, archive, ninja, tmp_path):
    name, *options = call.split()
    assert ninja(name, archive, *options, "-o", tmp_path / "command.ark")[0] == 0
    write_all(tmp_path / "call.ark", (CALLS[call](lattice) for _, lattice in package.read(archive)))
    assert (tmp_path / "call.ark").read_bytes() == (tmp_path / "command.ark").read_bytes()


FILES = ["x.jsonl", "x.arrow", "x.mesh", "x.fst", "x.plf", "x.nbest", "folder:slf", "x.ark:fst-ark"]


@pytest.mark.parametrize("file", FILES)
def test_write_and_convert_write_the_same_files(file, archive, ninja, tmp_path):
    file_name, _, format_name = file.partition(":")
    archive_path = tmp_path / "one.ark"
    write_all(archive_path, (lattice for _, lattice in [next(package.read(archive))]))
    (tmp_path / "command").mkdir()
    (tmp_path / "call").mkdir()
    options = ["--to", format_name] if format_name else []
    assert ninja("convert", archive_path, "--words", WORDS, *options, "-o", tmp_path / "command" / file_name)[0] == 0
    write_all(
        tmp_path / "call" / file_name,
        (lattice for _, lattice in package.read(archive_path, words=WORDS)),
        to=format_name or None,
    )
    files = {
        folder: {path.relative_to(tmp_path / folder): path.read_bytes() for path in (tmp_path / folder).rglob("*.*")}
        for folder in ("command", "call")
    }
    assert files["call"] == files["command"] != {}


def test_rescore_call_and_command_write_the_same_bytes(archive, ninja, tmp_path):
    command = tmp_path / "command.ark"
    assert ninja("rescore", archive, "--words", WORDS, "-o", command)[0] == 0
    write_all(
        tmp_path / "call.ark",
        (lattice for _, lattice in package.rescore(package.read(archive, words=WORDS), package.lm.load())),
    )
    assert (tmp_path / "call.ark").read_bytes() == command.read_bytes()


def test_best_path_call_agrees_with_the_command(archive, ninja):
    code, printed, _ = ninja("best", archive, "--words", WORDS, "--acoustic-scale", "0.1")
    best = {key: package.graph.best_path(lattice, SCALES).words for key, lattice in package.read(archive, words=WORDS)}
    words = package.SymbolTable.read(WORDS)
    assert code == 0
    assert printed == "".join(" ".join([key, *words.spell(ids)]) + "\n" for key, ids in best.items())
