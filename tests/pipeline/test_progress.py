"""The progress line on a terminal: the share of bytes read and the remaining time, for verbs that read lattices."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner
from example_lattices import EXAMPLES
from lattice_files import write_all
from rich.console import Console as Terminal

import ninja as package
from ninja.cli import main as entry
from ninja.cli.commands import COMMANDS
from ninja.cli.main import group
from ninja.cli.progress_bar import ProgressBar
from ninja.io.reader import Reading, ReadOptions, Words
from ninja.io.sources import Sources

WORDS = EXAMPLES / "words.txt"
# Verbs that read no lattices, but texts, matrices, n-gram counts or nothing.
VERBS_WITHOUT_LATTICES = {
    *(
        "gather",
        "shard-script",
        "doctor",
        "version",
        "lm",
        "train",
        "learn",
        "train ngram",
        "train context",
        "train context-lm",
        "ctc-decode",
        "serve",
    ),
    *("linear-to-nbest", "string-to-lattice", "compute-wer", "compute-wer-bootci", "align-text"),
}


def commands() -> Iterator[tuple[str, click.Command, set[str]]]:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        yield name, command, {parameter.name or "" for parameter in command.params if parameter.required}


@pytest.fixture(scope="module")
def files(tmp_path_factory):  # type: ignore[no-untyped-def]
    """Write a few example lattices, one file with spelled words, and other files that commands need."""
    folder = tmp_path_factory.mktemp("files")
    lattices = list(islice(package.read(EXAMPLES / "lat.ark.gz", words=WORDS), 6))
    for name in ("a.ark.gz", "b.ark.gz", "a.jsonl"):
        write_all(
            folder / name, (package.graph.prune(lattice, 2.0, package.Scales(acoustic=0.1)) for _, lattice in lattices)
        )
    write_all(
        folder / "one.ark",
        (
            package.graph.path_lattice(lattice, package.graph.best_path(lattice)).with_key(lattice.key + "-1")
            for _, lattice in lattices
        ),
    )
    (folder / "text").write_text((EXAMPLES / "text").read_text())
    (folder / "segments").write_text("".join(f"{key} {key} 0 9\n" for key, _ in lattices))
    (folder / "hot.txt").write_text("the man\n")
    (folder / "words.txt").write_bytes(WORDS.read_bytes())
    words = [word for word, _ in lattices[0][1].words][:50]
    model = package.lm.train_ngram([words[n : n + 5] for n in range(5, 40)])
    model.write_arpa(folder / "lm.arpa")
    return folder


class Recorder:
    """Record the calls of a progress line."""

    instances: ClassVar[list[Recorder]] = []

    def __init__(self, unit: str, *, by_reading: bool = False) -> None:
        self.unit, self.by_reading = unit, by_reading
        self.shares: list[float | None] = []
        self.state = "created"
        self.instances.append(self)

    def step(self, description: str, count: int | None = None, *, share: float | None = None) -> None:
        assert self.state == "started"
        self.shares.append(share)

    def say(self, message: str) -> None:
        assert self.state == "started"

    def start(self) -> None:
        self.state = "started"

    def stop(self) -> None:
        self.state = "stopped"


class Stream:
    """A standard stream of this process whose `isatty` returns a fixed value."""

    def __init__(self, name: str, is_terminal: bool) -> None:
        self.name, self.isatty = name, lambda: is_terminal

    def __getattr__(self, name: str) -> object:
        return getattr(getattr(sys, self.name), name)


def terminal_system(*, prints: bool) -> SimpleNamespace:
    """Return the module `sys` with a terminal as stderr, and also as stdout if `prints`."""
    return SimpleNamespace(**vars(sys) | {"stderr": Stream("stderr", True), "stdout": Stream("stdout", prints)})


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    monkeypatch.setattr(entry, "sys", terminal_system(prints=False))
    monkeypatch.setattr("ninja.cli.progress_bar.ProgressBar", Recorder)
    Recorder.instances.clear()
    return Recorder.instances


def arguments(name: str, command: click.Command, required: set[str], files: Path, out: Path) -> list[object]:
    """Return the arguments of a command from the names of its parameters."""
    values: dict[str, object] = {
        "source": files / ("one.ark" if "nbest-to" in name else "a.ark.gz"),
        "first": files / "a.ark.gz",
        "second": files / "b.ark.gz",
        "others": f"{'ark:' * (name == 'compose')}{files / 'b.ark.gz'}",
        "before": files / "a.ark.gz",
        "after": files / "b.ark.gz",
        "reference": files / "text",
        "ref": files / "text",
        "entities": files / "hot.txt",
        "lm": files / "lm.arpa",
    }
    command_arguments: list[object] = [name]
    for parameter in command.params:
        if parameter.name in required and parameter.name in values:
            value = values[parameter.name]
            command_arguments += [value] if isinstance(parameter, click.Argument) else [parameter.opts[-1], value]
    present = {parameter.name for parameter in command.params}
    if "words" in present:
        command_arguments += ["--words", files / "words.txt"]
    if "output_file" in present:
        file = {"split": "out.JOB.ark", "show": "out.html", "report": "out.html"}.get(name, "out.ark")
        command_arguments += ["-o", out / file]
    if "acoustic_scale" in present:
        command_arguments += ["--acoustic-scale", "0.1"]
    verb_options: dict[str, list[object]] = {
        "lmrescore": ["--max-unknown", 1],
        "rescore": ["--output", "best"],
        "score": ["--mode", "present"],
        "show": ["--key", "libri-121-121726-0009"],
        "split": ["--nj", 2],
        "stitch": ["--segments", files / "segments"],
        "tune": ["--rnnlm", files / "lm.arpa", "--max-unknown", 1],
    }
    return command_arguments + verb_options.get(name, [])


VERBS_WITH_LATTICES = [
    name for name, _, required in commands() if name not in VERBS_WITHOUT_LATTICES and "model" not in required
]


def test_every_verb_is_in_one_of_the_lists() -> None:
    for name, command, required in commands():
        reads = {"source", "first", "before"} & {parameter.name for parameter in command.params}
        assert bool(reads) != (name in VERBS_WITHOUT_LATTICES), name
        assert name in VERBS_WITH_LATTICES or name in VERBS_WITHOUT_LATTICES or "model" in required


@pytest.mark.parametrize("name", VERBS_WITH_LATTICES)
def test_commands_that_read_lattices_show_the_share_already_read(name, files, terminal, ninja, tmp_path):  # type: ignore[no-untyped-def]
    ((_, command, required),) = [row for row in commands() if row[0] == name]
    command_arguments = arguments(name, command, required, files, tmp_path)
    code, _, stderr = ninja(*command_arguments)
    assert code == 0, stderr
    assert terminal, f"{command_arguments} showed no progress line"
    assert {recorder.state for recorder in terminal} == {"stopped"}
    all_shares = [[share for share in recorder.shares if share is not None] for recorder in terminal]
    assert any(shares and shares[-1] > 0.5 for shares in all_shares), [recorder.shares for recorder in terminal]
    assert all(low <= high for shares in all_shares for low, high in pairwise(shares))


@pytest.mark.parametrize("name", ["lm score", "train ngram"])
def test_commands_that_read_texts_show_progress(name, files, terminal, ninja, tmp_path):  # type: ignore[no-untyped-def]
    if name == "lm score":
        text = tmp_path / "text"
        text.write_text("".join(f"utt{number} the man\n" for number in range(600)))
        code, _, stderr = ninja("lm", "score", files / "lm.arpa", text, "-o", tmp_path / "out")
        assert [share for recorder in terminal for share in recorder.shares] == [256 / 600, 512 / 600, 1.0]
    else:
        code, _, stderr = ninja("train", "ngram", files / "text", "-o", tmp_path / "out.arpa")
    assert code == 0, stderr
    assert {recorder.state for recorder in terminal} == {"stopped"}


FORMATS = ["x.ark", "x.ark.gz", "x.jsonl", "x.jsonl.gz", "folder", "folder.gz", "list", "x.scp", "two"]


@pytest.mark.parametrize("form", FORMATS)
def test_the_share_of_bytes_read_rises_to_one(form: str, files: Path, tmp_path: Path) -> None:
    lattices = list(package.read(files / "a.ark.gz", words=WORDS))
    target: object = tmp_path / form
    if form.startswith("folder") or form == "list":
        (tmp_path / "slf").mkdir()
        for key, lattice in lattices:
            write_all(tmp_path / "slf" / f"{key}.slf{'.gz' * form.endswith('gz')}", [lattice])
        target = tmp_path / "slf"
        if form == "list":
            target = tmp_path / "list.txt"
            target.write_text("".join(f"{path}\n" for path in sorted((tmp_path / "slf").iterdir())))
    else:
        write_all(
            f"ark,scp:{tmp_path}/y.ark,{target}"
            if form == "x.scp"
            else tmp_path / "x.ark"
            if form == "two"
            else target,
            (lattice for _, lattice in lattices),
        )
        if form == "two":
            target = [str(tmp_path / "x.ark"), str(files / "a.ark.gz")]
    reading = Reading(Sources(target), ReadOptions(Words(package.SymbolTable.read(WORDS))))  # type: ignore[arg-type]
    shares = [reading.share for _ in reading.lattices()]
    assert len(shares) == len(lattices) * (1 + (form == "two"))
    assert all(share is not None for share in shares)
    assert all(low < high for low, high in pairwise(shares))  # type: ignore[operator]
    assert shares[-1] == pytest.approx(1.0, abs=0.02)


def test_the_share_of_a_pipe_is_unknown(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.decompress((files / "a.ark.gz").read_bytes())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content))))  # type: ignore[arg-type]
    reading = Reading(Sources("-"), ReadOptions(Words(package.SymbolTable.growing())))
    assert {reading.share for _ in reading.lattices()} == {None}


def render(line: ProgressBar, width: int = 100) -> str:
    screen = Terminal(file=io.StringIO(), width=width)
    screen.print(line._progress.get_renderable())
    return screen.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_progress_line_has_share_and_remaining_time_or_a_rate() -> None:
    line = ProgressBar("lattices")
    task = line._progress.tasks[0]
    task.get_time = lambda: 100.0  # type: ignore[method-assign]
    task.start_time = 70.0
    line.step("utt[1]", share=0.25)
    text = render(line)
    assert "25%  1 lattices  0:00:30  0:01:30 left" in text
    assert "━" in text
    assert "utt[1]" in text
    line = ProgressBar("lattices")
    line._progress.tasks[0].get_time = lambda: 100.0  # type: ignore[method-assign]
    line._progress.tasks[0].start_time = 70.0
    line.step("utt2", 60)
    text = render(line)
    assert "60 lattices  2/s  0:00:30" in text
    assert "%" not in text
    assert "━" not in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("share", [0.25, None])
def test_the_progress_line_fits_on_a_narrow_terminal(width: int, share: float | None) -> None:
    line = ProgressBar("lattices")
    line.step("libri-1089-134686-0003-of-a-long-recording", 1, share=share)
    text = render(line, width)
    assert text.count("\n") == 1
    assert "1 l" in text


def test_a_dumb_terminal_shows_messages_without_a_progress_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Terminal, "is_terminal", True)
    monkeypatch.setenv("TERM", "dumb")
    line = ProgressBar("lattices")
    line.start()
    line.step("utt1", share=0.5)
    line.say("ninja: a message")
    line.stop()
    assert capsys.readouterr().err == "ninja: a message\n"


def test_the_progress_line_is_removed_if_its_start_is_interrupted(
    files: Path, terminal: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(line: Recorder) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "start", start)
    assert entry.main(["prune", str(files / "a.ark.gz"), "-o", str(files / "interrupted.ark")]) == 130
    assert [line.state for line in terminal] == ["stopped"]


def test_no_progress_line_is_drawn_if_results_are_printed_to_the_terminal(
    files: Path, terminal: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "sys", terminal_system(prints=True))
    result = CliRunner().invoke(group, ["best", str(files / "a.ark.gz")])
    assert result.exit_code == 0, result.output
    assert not terminal
