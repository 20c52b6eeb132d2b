"""Outputs of commands never replace their inputs; the types of parameters declare which ones are files."""

import os
import subprocess
import sys
from itertools import product

import click
import pytest
from lattice_files import write_all

import ninja as package
from ninja.cli.command import InputFile, OutputFile, OutputFolder
from ninja.cli.commands import COMMANDS
from ninja.cli.main import group
from ninja.graph import from_arcs

JUNK = b"acoustic_scale = 1.0\n"  # valid for --config, which is parsed immediately
NINJA = [sys.executable, "-m", "ninja"]
REFUSED = "is an input and would be overwritten"


def commands():
    """Yield each command with the words that invoke it."""
    for name in COMMANDS:
        command = group.get_command(None, name)
        if isinstance(command, click.Group):
            yield from (([name, subcommand], command.commands[subcommand]) for subcommand in command.commands)
        else:
            yield name.split(), command


def of_type(command, type_):
    return [parameter for parameter in command.params if isinstance(parameter.type, type_)]


def option_tokens(parameter, value):
    """Return the command-line tokens of an option with a value."""
    return [f"{parameter.opts[0]}={value}"] if parameter.opts[0].startswith("--") else [parameter.opts[0], str(value)]


def command_line(words, command, values):
    """Return a command line with files for some parameters, and arbitrary values for other required parameters."""
    required = [parameter for parameter in command.params if parameter.required or parameter.name in values]
    tokens = list(words)
    for parameter in required:
        if isinstance(parameter, click.Option):
            tokens += option_tokens(parameter, values.get(parameter.name, f"junk.{parameter.name}"))
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    last = max((index for index, argument in enumerate(arguments) if argument in required), default=-1)
    names = [argument.name for argument in arguments[: last + 1]]
    return [*tokens, "--", *(str(values.get(name, f"junk.{name}")) for name in names)]


CASES = [
    pytest.param(words, command, source, id=f"{' '.join(words)} {source.name}")
    for words, command in commands()
    for source in of_type(command, InputFile)
]


def test_all_file_parameters_have_a_file_type():
    assert len(CASES) > 200
    for words, command in commands():
        for parameter in command.params:
            if isinstance(parameter.type, InputFile | OutputFile) or words == ["shard-script"]:
                continue
            metavar = parameter.make_metavar(click.Context(command))
            assert isinstance(parameter, click.Option), (words, parameter.name, "an argument must be a file")
            assert not {"FILE", "DIR", "FOLDER", "SOURCE"} & set(metavar.upper().split()), (words, parameter.name)


@pytest.fixture(scope="module")
def junk(tmp_path_factory):
    """Create a folder with a file for each parameter, and a file with a symbolic and a hard link to it."""
    path = tmp_path_factory.mktemp("junk")
    for name in {parameter.name for _, command in commands() for parameter in command.params}:
        (path / f"junk.{name}").write_bytes(JUNK)
    (path / "folder").mkdir()
    (path / "folder/both.svg").write_bytes(JUNK)
    (path / "link").symlink_to(path / "folder/both.svg")
    (path / "hard").hardlink_to(path / "folder/both.svg")
    return path


@pytest.mark.parametrize(("words", "command", "source"), CASES)
def test_commands_refuse_outputs_that_are_inputs(ninja, junk, monkeypatch, words, command, source):
    monkeypatch.chdir(junk)
    path = junk / "folder" / "both.svg"
    names = [(path, path), (path, "link"), ("hard", path)]
    # Eager parameters are read immediately, and some types do not interpret the prefix "ark:".
    if not source.is_eager and source.type.is_file(f"ark:{path}"):
        names.append((f"ark:{path}", "folder/both.svg"))
    # Files in folders are named after keys.
    outputs = [output for output in of_type(command, OutputFile) if not isinstance(output.type, OutputFolder)]
    for output, (source_name, output_name) in product(outputs, names):
        arguments = command_line(words, command, {source.name: source_name, output.name: output_name})
        code, _, errors = ninja(*arguments)
        assert (code, REFUSED in errors, path.read_bytes()) == (2, True, JUNK), (arguments, errors)
    assert os.listdir(path.parent) == ["both.svg"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a folder with two archives of one lattice, a list of them and a script file."""
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
    for name in ("d/lat.1.scp", "d/lat.2.scp"):
        os.remove(name)
    return tmp_path


SOURCES = ["d/lat.2.ark", "d", "d/slf", "d/lat.JOB.ark", "d/lat.*.ark", "ark:cat d/lat.1.ark d/lat.2.ark |"]
SOURCES += ["lat.list", "all.scp", "scp:all.scp"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("output", ["d/lat.2.ark", "ark,scp:x.ark,d/lat.2.ark", "--words-out d/lat.2.ark", "d/../link"])
def test_input_lattices_are_refused_as_outputs_for_every_kind_of_source(folder, ninja, source, output):
    before = (folder / "d/lat.2.ark").read_bytes()
    (folder / "link").symlink_to("d/lat.2.ark")
    if source == "d/slf":  # a symbolic link in a folder
        os.mkdir("d/slf")
        (folder / "d/slf/one").symlink_to("../lat.2.ark")
    options = output.split() if output.startswith("--") else ["-o", output]
    code, _, errors = ninja("prune", source, *options)
    assert (code, REFUSED in errors, len(errors.splitlines())) == (2, True, 1), errors
    assert (folder / "d/lat.2.ark").read_bytes() == before
    assert not [name for name in os.listdir() if name.endswith(".part")]


@pytest.mark.parametrize(
    ("arguments", "stream", "mode"), [(["-", "-o", "d/lat.2.ark"], "stdin", "rb"), (["d/lat.2.ark"], "stdout", "ab")]
)
def test_a_file_on_a_standard_stream_is_not_both_input_and_output(folder, arguments, stream, mode):
    before = (folder / "d/lat.2.ark").read_bytes()
    with open("d/lat.2.ark", mode) as file:
        streams = {"stdout": subprocess.DEVNULL, stream: file}
        process = subprocess.run([*NINJA, "prune", *arguments], **streams, stderr=subprocess.PIPE, text=True)
    assert (process.returncode, REFUSED in process.stderr) == (2, True), process.stderr
    assert (folder / "d/lat.2.ark").read_bytes() == before


def test_files_listed_on_standard_input_are_refused_as_outputs_when_opened(folder):
    before = (folder / "d/lat.2.ark").read_bytes()
    arguments = [*NINJA, "prune", "scp:-", "-o", "d/lat.2.ark"]
    process = subprocess.run(arguments, input=(folder / "all.scp").read_text(), capture_output=True, text=True)
    assert (process.returncode, REFUSED in process.stderr) == (2, True)
    assert (folder / "d/lat.2.ark").read_bytes() == before
    assert sorted(os.listdir("d")) == ["lat.1.ark", "lat.2.ark"]


def test_a_partial_output_is_not_overwritten_while_it_is_read(folder, ninja):
    os.rename("d/lat.1.ark", "d/.lat.ark.part")
    before = (folder / "d/.lat.ark.part").read_bytes()
    code, _, errors = ninja("prune", "d/.lat.ark.part", "-o", "d/lat.ark")
    assert (code, REFUSED in errors, (folder / "d/.lat.ark.part").read_bytes()) == (2, True, before)
    assert ninja("prune", "d/.lat.ark.part", "-o", "saved.ark")[0] == 0


def test_input_files_named_after_keys_are_not_overwritten(folder, ninja):
    assert ninja("convert", "d", "--words", "words.txt", "--to", "slf", "-o", "slf")[0] == 0
    before = (folder / "slf/utt1.slf").read_bytes()
    for source in ("slf", "slf/utt1.slf"):
        code, _, errors = ninja("convert", source, "--to", "slf", "-o", "slf")
        assert (code, REFUSED in errors, (folder / "slf/utt1.slf").read_bytes()) == (2, True, before)
    assert ninja("convert", "slf", "--to", "fst-text", "-o", "slf")[0] == 0  # the file names differ
    os.mkdir("meshes")
    (folder / "meshes/utt1.mesh").hardlink_to("d/lat.1.ark")
    code, _, errors = ninja("mbr-decode", "d/lat.1.ark", "--words", "words.txt", "--mesh-dir", "meshes")
    assert (code, REFUSED in errors) == (2, True)


def test_split_refuses_to_overwrite_its_source(folder, ninja):
    before = (folder / "d/lat.1.ark").read_bytes()
    code, _, errors = ninja("split", "d/lat.1.ark", "--nj", "1", "-o", "d/lat.JOB.ark")
    assert (code, REFUSED in errors, (folder / "d/lat.1.ark").read_bytes()) == (2, True, before)


def test_the_symbol_table_next_to_lattices_is_refused_as_output(folder, ninja):
    (folder / "d/words.txt").write_text((folder / "words.txt").read_text())
    before = (folder / "d/words.txt").read_bytes()
    code, _, errors = ninja("convert", "d/lat.1.ark", "--to", "json", "-o", "d/words.txt")
    assert (code, REFUSED in errors, (folder / "d/words.txt").read_bytes()) == (2, True, before)
    (folder / "out.ark.words.txt").write_bytes(before)
    code, _, errors = ninja("convert", "d/lat.1.ark", "--words", "out.ark.words.txt", "-o", "out.ark")
    assert (code, REFUSED in errors) == (2, True)


def test_only_outputs_without_lattices_may_be_rewritten_in_a_source_folder(folder, ninja):
    for _ in range(2):
        code, _, _ = ninja("best", "d", "-o", "d/best.txt")
        assert (code, (folder / "d/best.txt").read_text()) == (0, "utt1 5 6\nutt2 5 6\n")
    assert ninja("prune", "d", "-o", "d/pruned.ark")[0] == 0
    code, _, errors = ninja("prune", "d", "-o", "d/pruned.ark")  # now a source
    assert (code, REFUSED in errors) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("context", "d", "--words", "words.txt", "--entities", "lists.json"),
        ("score", "refs", "d", "--words", "words.txt", "--entities", "lists.json"),
    ],
    ids=["context", "score"],
)
def test_a_phrase_file_of_an_entity_list_is_refused_as_output(folder, ninja, arguments):
    (folder / "names.tsv").write_text("@name\tfive\n")
    (folder / "lists.json").write_text('{"lists": {"names": {"file": "names.tsv"}}, "all": {"lists": ["names"]}}')
    (folder / "refs").write_text("utt1 5 6\nutt2 5 6\n")
    output = "--report" if arguments[0] == "score" else "-o"
    assert ninja(*arguments, output, "out")[0] == 0
    code, _, errors = ninja(*arguments, output, "names.tsv")
    assert (code, REFUSED in errors, (folder / "names.tsv").read_text()) == (2, True, "@name\tfive\n")


def test_files_in_a_model_folder_are_refused_as_outputs(folder, ninja):
    (folder / "lm/deep").mkdir(parents=True)
    (folder / "lm/deep/config.json").write_text("{}")
    code, _, errors = ninja("rescore", "d", "--rnnlm", "lm", "-o", "lm/deep/config.json")
    assert (code, REFUSED in errors, (folder / "lm/deep/config.json").read_text()) == (2, True, "{}")


def test_ninja_write_may_replace_the_source_being_read(folder):
    lattices = package.read("d/lat.1.ark")
    with package.write("d/lat.1.ark") as output:
        for key, lattice in lattices:
            output.write(lattice, key=f"{key}-again")
            assert next(package.keys("d/lat.1.ark")) == "utt1"
    assert list(package.keys("d/lat.1.ark")) == ["utt1-again"]
