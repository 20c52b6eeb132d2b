"""No output of a command replaces one of its inputs; parameter types determine which parameters name files."""

import os
import subprocess
import sys

import click
import pytest
from lattice_files import write_all

import ninja as package
from ninja.cli.command import InputFile, OutputFile, OutputFolder
from ninja.cli.commands import COMMANDS
from ninja.cli.main import group
from ninja.graph import from_arcs

JUNK = b"acoustic_scale = 1.0\n"  # for --config, which is read at once; to others it is nothing
NINJA = [sys.executable, "-m", "ninja"]
REFUSED = "is an input and would be overwritten"


def commands():
    """Yield each command with the words that call it."""
    for name in COMMANDS:
        command = group.get_command(None, name)
        if isinstance(command, click.Group):
            yield from (([name, below], command.commands[below]) for below in command.commands)
        else:
            yield name.split(), command


def of_type(command, kind):
    return [each for each in command.params if isinstance(each.type, kind)]


def said(parameter, value):
    """Return the parameter as it is typed on the command line."""
    return [f"{parameter.opts[0]}={value}"] if parameter.opts[0].startswith("--") else [parameter.opts[0], str(value)]


def call(words, command, values):
    """Return a command line with files for some parameters, and arbitrary values for other required parameters."""
    needed = [each for each in command.params if each.required or each.name in values]
    line = list(words)
    for each in needed:
        if isinstance(each, click.Option):
            line += said(each, values.get(each.name, f"junk.{each.name}"))
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    last = max((place for place, each in enumerate(arguments) if each in needed), default=-1)
    return [*line, "--", *(str(values.get(each.name, f"junk.{each.name}")) for each in arguments[: last + 1])]


CASES = [
    pytest.param(words, command, source, id=f"{' '.join(words)} {source.name}")
    for words, command in commands()
    for source in of_type(command, InputFile)
]


def test_all_that_names_a_file_is_in_the_tables():
    assert len(CASES) > 200
    for words, command in commands():
        for each in command.params:
            if isinstance(each.type, InputFile | OutputFile) or words == ["shard-script"]:
                continue
            shown = each.make_metavar(click.Context(command))
            assert isinstance(each, click.Option), (words, each.name, "arguments are files")
            assert not {"FILE", "DIR", "FOLDER", "SOURCE"} & set(shown.upper().split()), (words, each.name)


@pytest.mark.parametrize(("words", "command", "source"), CASES)
def test_each_command_refuses_each_of_its_inputs_as_each_of_its_outputs(
    ninja, tmp_path, monkeypatch, words, command, source
):
    monkeypatch.chdir(tmp_path)
    for each in command.params:
        (tmp_path / f"junk.{each.name}").write_bytes(JUNK)
    same = tmp_path / "folder" / "both.svg"
    same.parent.mkdir()
    same.write_bytes(JUNK)
    (tmp_path / "link").symlink_to(same)
    (tmp_path / "hard").hardlink_to(same)
    names = [(same, same), (same, "link"), ("hard", same)]
    if not source.is_eager and source.type.is_file(f"ark:{same}"):  # else it is read at once, or such a name is a text
        names.append((f"ark:{same}", "folder/both.svg"))
    for output in of_type(command, OutputFile):
        if isinstance(output.type, OutputFolder):  # whose files are named by keys
            continue
        for read, written in names:
            line = call(words, command, {source.name: read, output.name: written})
            code, _, errors = ninja(*line)
            assert (code, REFUSED in errors, same.read_bytes()) == (2, True, JUNK), (line, errors)
    assert os.listdir(tmp_path / "folder") == ["both.svg"]


@pytest.fixture
def there(tmp_path, monkeypatch):
    """Change to a folder with two archives of a lattice each, and a list and a script file that name them."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("d")
    for name in ("lat.1.ark", "lat.2.ark"):
        write_all(
            f"ark,scp:d/{name},d/{name[:-3]}scp",
            [from_arcs(f"utt{name[4]}", [0, 1], [1, 2], [5, 6], [0.5, 1.5], finals={2: 0.0})],
        )
    (tmp_path / "words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    (tmp_path / "lat.list").write_text("d/lat.1.ark\nd/lat.2.ark\n")
    (tmp_path / "all.scp").write_text((tmp_path / "d/lat.1.scp").read_text() + (tmp_path / "d/lat.2.scp").read_text())
    for each in ("d/lat.1.scp", "d/lat.2.scp"):
        os.remove(each)
    return tmp_path


SOURCES = ["d/lat.2.ark", "d", "d/slf", "d/lat.JOB.ark", "d/lat.*.ark", "ark:cat d/lat.1.ark d/lat.2.ark |"]
SOURCES += ["lat.list", "all.scp", "scp:all.scp"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("output", ["d/lat.2.ark", "ark,scp:x.ark,d/lat.2.ark", "--words-out d/lat.2.ark", "d/../link"])
def test_lattices_are_refused_however_they_are_named(there, ninja, source, output):
    before = (there / "d/lat.2.ark").read_bytes()
    (there / "link").symlink_to("d/lat.2.ark")
    if source == "d/slf":  # a link in a folder
        os.mkdir("d/slf")
        (there / "d/slf/one").symlink_to("../lat.2.ark")
    options = output.split() if output.startswith("--") else ["-o", output]
    code, _, errors = ninja("prune", source, *options)
    assert (code, REFUSED in errors, len(errors.splitlines())) == (2, True, 1), errors
    assert (there / "d/lat.2.ark").read_bytes() == before
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_the_standard_input_is_an_input(there):
    before = (there / "d/lat.2.ark").read_bytes()
    with open("d/lat.2.ark", "rb") as file:
        found = subprocess.run([*NINJA, "prune", "-", "-o", "d/lat.2.ark"], stdin=file, capture_output=True, text=True)
    assert (found.returncode, REFUSED in found.stderr) == (2, True), found.stderr
    assert (there / "d/lat.2.ark").read_bytes() == before


def test_files_named_by_a_pipe_are_refused_when_they_are_opened(there):
    before = (there / "d/lat.2.ark").read_bytes()
    line = [*NINJA, "prune", "scp:-", "-o", "d/lat.2.ark"]
    found = subprocess.run(line, input=(there / "all.scp").read_text(), capture_output=True, text=True)
    assert (found.returncode, REFUSED in found.stderr) == (2, True)
    assert (there / "d/lat.2.ark").read_bytes() == before
    assert sorted(os.listdir("d")) == ["lat.1.ark", "lat.2.ark"]


def test_the_standard_output_is_an_output(there):
    before = (there / "d/lat.1.ark").read_bytes()
    with open("d/lat.1.ark", "ab") as file:
        found = subprocess.run([*NINJA, "prune", "d/lat.1.ark"], stdout=file, stderr=subprocess.PIPE, text=True)
    assert (found.returncode, REFUSED in found.stderr) == (2, True)
    assert (there / "d/lat.1.ark").read_bytes() == before


def test_the_part_of_a_killed_run_is_not_written_over_while_it_is_read(there, ninja):
    os.rename("d/lat.1.ark", "d/.lat.ark.part")
    before = (there / "d/.lat.ark.part").read_bytes()
    code, _, errors = ninja("prune", "d/.lat.ark.part", "-o", "d/lat.ark")
    assert (code, REFUSED in errors, (there / "d/.lat.ark.part").read_bytes()) == (2, True, before)
    assert ninja("prune", "d/.lat.ark.part", "-o", "saved.ark")[0] == 0


def test_files_named_by_keys_are_not_written_over_either(there, ninja):
    assert ninja("convert", "d", "--words", "words.txt", "--to", "slf", "-o", "slf")[0] == 0
    before = (there / "slf/utt1.slf").read_bytes()
    for source in ("slf", "slf/utt1.slf"):
        code, _, errors = ninja("convert", source, "--to", "slf", "-o", "slf")
        assert (code, REFUSED in errors, (there / "slf/utt1.slf").read_bytes()) == (2, True, before)
    assert ninja("convert", "slf", "--to", "fst-text", "-o", "slf")[0] == 0  # other names
    os.mkdir("meshes")
    (there / "meshes/utt1.mesh").hardlink_to("d/lat.1.ark")
    code, _, errors = ninja("mbr-decode", "d/lat.1.ark", "--words", "words.txt", "--mesh-dir", "meshes")
    assert (code, REFUSED in errors) == (2, True)


def test_split_refuses_parts_that_are_its_source(there, ninja):
    before = (there / "d/lat.1.ark").read_bytes()
    code, _, errors = ninja("split", "d/lat.1.ark", "--nj", "1", "-o", "d/lat.JOB.ark")
    assert (code, REFUSED in errors, (there / "d/lat.1.ark").read_bytes()) == (2, True, before)


def test_the_table_that_lies_beside_lattices_is_an_input_too(there, ninja):
    (there / "d/words.txt").write_text((there / "words.txt").read_text())
    before = (there / "d/words.txt").read_bytes()
    code, _, errors = ninja("convert", "d/lat.1.ark", "--to", "json", "-o", "d/words.txt")
    assert (code, REFUSED in errors, (there / "d/words.txt").read_bytes()) == (2, True, before)
    (there / "out.ark.words.txt").write_bytes(before)
    code, _, errors = ninja("convert", "d/lat.1.ark", "--words", "out.ark.words.txt", "-o", "out.ark")
    assert (code, REFUSED in errors) == (2, True)


def test_an_output_in_a_folder_that_is_read_may_be_written_again_if_it_holds_no_lattices(there, ninja):
    for _ in range(2):
        code, _, _ = ninja("best", "d", "-o", "d/best.txt")
        assert (code, (there / "d/best.txt").read_text()) == (0, "utt1 5 6\nutt2 5 6\n")
    assert ninja("prune", "d", "-o", "d/pruned.ark")[0] == 0
    code, _, errors = ninja("prune", "d", "-o", "d/pruned.ark")  # which would be read now
    assert (code, REFUSED in errors) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("context", "d", "--words", "words.txt", "--entities", "lists.json"),
        ("score", "refs", "d", "--words", "words.txt", "--entities", "lists.json"),
    ],
    ids=["context", "score"],
)
def test_a_file_of_phrases_that_an_entity_list_names_is_an_input(there, ninja, arguments):
    (there / "names.tsv").write_text("@name\tfive\n")
    (there / "lists.json").write_text('{"lists": {"names": {"file": "names.tsv"}}, "all": {"lists": ["names"]}}')
    (there / "refs").write_text("utt1 5 6\nutt2 5 6\n")
    output = "--report" if arguments[0] == "score" else "-o"
    assert ninja(*arguments, output, "out")[0] == 0
    code, _, errors = ninja(*arguments, output, "names.tsv")
    assert (code, REFUSED in errors, (there / "names.tsv").read_text()) == (2, True, "@name\tfive\n")


def test_a_model_is_a_folder_with_all_in_it(there, ninja):
    (there / "lm/deep").mkdir(parents=True)
    (there / "lm/deep/config.json").write_text("{}")
    code, _, errors = ninja("rescore", "d", "--rnnlm", "lm", "-o", "lm/deep/config.json")
    assert (code, REFUSED in errors, (there / "lm/deep/config.json").read_text()) == (2, True, "{}")


def test_in_python_a_source_may_be_replaced_because_outputs_appear_whole(there):
    found = package.read("d/lat.1.ark")
    with package.write("d/lat.1.ark") as output:
        for key, lattice in found:
            output.write(lattice, key=f"{key}-again")
            assert package.keys("d/lat.1.ark").__next__() == "utt1"
    assert list(package.keys("d/lat.1.ark")) == ["utt1-again"]
