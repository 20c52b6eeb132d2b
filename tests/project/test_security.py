"""Untrusted files: their code is not run, they access no other files, and they cannot fill memory or control a
terminal.

docs/security.md has the whole list, with tests in other files too; `test_security_guards` removes each guard.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import itertools
import os
import pkgutil
import re
import sys
import tracemalloc
from pathlib import Path

import pytest
from reference_regex import StepLimitError, Steps

import ninja as package
from benchmarks.stress import bounds
from ninja.context.entities import Entities
from ninja.errors import FormatError, InputError, OutputError
from ninja.files import gzip as packed
from ninja.files import remote
from ninja.files.output import PartFile, printable
from ninja.files.stream import content_of, text_of
from ninja.files.text import read_toml
from ninja.io.number_tables import open_tables

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ESCAPE = "\x1b]0;title\x07"
SLF = "VERSION=1.0\nN=2 L=1\nI=0 t=0\nI=1 t=1\nJ=0 S=0 E=1 W={} a=-1\n"


# ---- options in a file ----


@pytest.mark.parametrize(
    "line", ["allow-pipes = true", 'output-file = "there"', 'words_out = "there"', 'ray = "evil:1"', "resume = true"]
)
def test_option_files_cannot_run_commands_or_name_outputs(line, ninja, tmp_path):
    (tmp_path / "options.toml").write_text(line)
    code, _, message = ninja("rescore", EXAMPLES / "lat.ark.gz", "--config", tmp_path / "options.toml")
    assert code == 2
    assert "cannot be set in this file; pass -" in message


# ---- other files ----


@pytest.mark.parametrize("name", ["../secret", "{absolute}", "link", "below/../../secret"])
def test_entity_list_file_must_be_in_the_folder(name, tmp_path):
    (tmp_path / "secret").write_text("@name\tpassword\n")
    (tmp_path / "in" / "below").mkdir(parents=True)
    (tmp_path / "in" / "below" / "list").write_text("@name\tanna\n")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    entities = tmp_path / "in" / "entities.tsv"
    entities.write_text("list:a\tfile\tbelow/list\n*\tlists\ta\n")
    assert Entities.read(entities).num_phrases == 1
    entities.write_text(f"list:a\tfile\t{name.format(absolute=tmp_path / 'secret')}\n*\tlists\ta\n")
    with pytest.raises(FormatError, match="is not in the directory of the entity file or a subdirectory") as error:
        Entities.read(entities)
    assert "password" not in str(error.value)


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "theirs").write_text("precious")
    (tmp_path / ".out.ark.part").symlink_to(tmp_path / "theirs")
    with pytest.raises(OutputError, match="cannot be written"):
        PartFile(str(tmp_path / "out.ark"))
    assert (tmp_path / "theirs").read_text() == "precious"


class Store:
    """An object store with arbitrary listings."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def unstrip_protocol(self, name: str) -> str:
        return name if "://" in name else f"s3://{name}"

    def _strip_protocol(self, name: str) -> str:
        return name.partition("://")[2] or name

    def invalidate_cache(self) -> None: ...

    def ls(self, name: str, detail: bool) -> list[dict[str, str]]:
        return [{"name": entry, "type": "file"} for entry in self.names]

    def glob(self, pattern: str) -> list[str]:
        return list(self.names)


@pytest.mark.parametrize("name", ["b/in/../out/x", "other/x", "file:///etc/passwd", "b/into/x"])
def test_store_listings_outside_the_folder_are_refused(name, monkeypatch):
    monkeypatch.setattr(remote, "_file_system", lambda url: (Store("b/in/good.ark", name), "b/in"))
    for request in (lambda: remote.listing("s3://b/in"), lambda: remote.matching("s3://b/in/*.ark")):
        with pytest.raises(InputError, match="which is not in this folder"):
            request()
    monkeypatch.setattr(remote, "_file_system", lambda url: (Store("b/in/good.ark"), "b/in"))
    assert remote.listing("s3://b/in") == (["s3://b/in/good.ark"], [])
    assert remote.matching("s3://b/in/*.ark") == ["s3://b/in/good.ark"]


# ---- memory and time ----


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "FREE", 1 << 20)
    path = tmp_path / "words.txt"
    path.write_bytes(gzip.compress(b"a 1\n" * (1 << 20)))
    with pytest.raises(FormatError, match=r"decompress to at least .*; decompress the file first"):
        text_of(path)
    path.write_bytes(gzip.compress(os.urandom(1 << 21)))  # large files with a normal ratio are accepted
    assert len(content_of(path)) == 1 << 21


DEEP = 100_000


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("x.toml", "a = " + "[" * DEEP, read_toml),
        ("x.json", '{"@a":' * DEEP, Entities.read),
        ("x.json", '{"a":' * DEEP, lambda path: list(package.read(path))),
        ("x.json", "[" * DEEP, lambda path: list(package.read(path))),
        ("x.plf", "((('a',1,1)," + "(" * DEEP, lambda path: list(package.read(path))),
    ],
)
def test_deep_nesting_raises_format_error(name, content, read, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(FormatError):
        read(tmp_path / name)


def test_recursive_list_of_files_terminates(ninja, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("self").write_text("self\n")
    Path("other").write_text("third\n")
    Path("third").write_text("other\n")
    for name in ("self", "other"):
        assert len(list(itertools.islice(open_tables(name), 10))) == 1
        for command in (["best", name], ["score", EXAMPLES / "text", name]):
            code, _, stderr = ninja(*command)
            assert code == 1
            assert "internal error" not in stderr


def test_sub_lattices_of_sub_lattices_are_bounded(tmp_path):
    parts = [
        "VERSION=1.1\n",
        *(_doubling_lattice(number) for number in range(31)),
        _doubling_lattice(31).partition("\n")[2],
    ]
    (tmp_path / "x.slf").write_text("".join(parts))
    with pytest.raises(FormatError, match="the expanded sub-lattices have more than"):
        list(package.read(tmp_path / "x.slf"))


def _doubling_lattice(number: int) -> str:
    """Return an HTK lattice that contains the previous one twice."""
    inner = f"L=s{number - 1}" if number else "W=a"
    nodes = f"I=0 W=!NULL\nI=1 {inner}\nI=2 {inner}\nI=3 W=!NULL\n"
    links = "J=0 S=0 E=1\nJ=1 S=1 E=2\nJ=2 S=2 E=3\n"
    return f"SUBLAT=s{number}\nN=4 L=3\n{nodes}{links}.\n"


def test_memory_of_reading_is_proportional_to_the_file(tmp_path):
    """See docs/security.md: ``benchmarks.stress bounds`` measures all formats; this is one of the most expensive."""
    for rows in (2_000, 8_000):
        (tmp_path / "list").write_text("".join(f"the {number:06}x\n" for number in range(rows)))
        Entities.read(tmp_path / "list")
        tracemalloc.start()
        Entities.read(tmp_path / "list")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200 * (tmp_path / "list").stat().st_size + (1 << 20)


MEMORY_CASES = {  # rows of the table in docs/security.md, and the measured cases of ``benchmarks.stress bounds``
    "Kaldi's archives, text; SLF; FST text": ("Kaldi, text: a fan", "SLF: a chain of new words", "FST text"),
    "PFSG, PLF": ("PFSG: a chain", "PLF: columns"),
    "meshes": ("mesh",),
    "CTM": ("CTM",),
    "n-best lists of SRILM": ("n-best of SRILM",),
    "n-best lists in JSON": ("n-best in JSON: one list", "JSON: empty lists"),
    "symbol tables": ("words: many",),
    "ARPA models, matrices as text": ("ARPA: unigrams", "matrices, text"),
    "headers of safetensors": ("safetensors: arrays", "safetensors: empty lists"),
    "entity lists": ("entities: a list", "entities: TSV", "entities: JSON"),
    "options": ("options: TOML",),
}


def test_the_page_has_a_bound_for_each_kind_of_file():
    assert list(bounds_of_the_page()) == list(MEMORY_CASES)
    assert all(name in bounds.cases() for names in MEMORY_CASES.values() for name in names)


# Takes minutes, as each file is large and is read in a separate process. Every run compares the page and its cases.
@pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason="reads 30 MB in processes of their own: NINJA_SLOW=1")
@pytest.mark.parametrize("row", MEMORY_CASES)
def test_readers_take_no_more_memory_than_documented(row):
    for name in MEMORY_CASES[row]:
        kind, file, content = bounds.cases()[name]
        file_content = content(2_000_000)
        memory, _, outcome = bounds.measure(kind, file, file_content)
        assert memory < bounds_of_the_page()[row] * len(file_content) + (4 << 20), (name, outcome)


def bounds_of_the_page() -> dict[str, int]:
    """Return the bytes of memory per byte of a file in docs/security.md, by kind of file."""
    page = (EXAMPLES.parent / "docs/security.md").read_text().partition("| file | memory,")[2]
    return {name: int(bound) for name, bound in re.findall(r"^\| ([^|]+) \| (\d+) \| [\d,]+ \|$", page, re.MULTILINE)}


UNITS = ("a", "1", " ", "\n", ".", "(", "a ", "1 ", "a\n", "1 1 1 1\n")
HEADS = ("", "a ", "{", "(", "name ", "numaligns ")


def expressions() -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """Return the regular expressions of all modules, by name."""
    patterns: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for module in pkgutil.walk_packages(package.__path__, "ninja."):
        floor = module.name.split(".")[1]
        if floor not in ("models", "__main__") and "train.parallel" not in module.name:
            try:
                imported = importlib.import_module(module.name)
            except ImportError:  # of an extra
                continue
            patterns |= {repr(value): value for value in vars(imported).values() if isinstance(value, re.Pattern)}
    return patterns


def test_regular_expressions_match_in_linear_time():
    """On a text twice as long, linear matching takes twice as many steps, quadratic matching four times."""
    patterns = expressions()
    assert len(patterns) > 60
    for name, pattern in patterns.items():
        for unit, head in itertools.product(UNITS, HEADS):
            counts = []
            for length in (30, 60):
                text = head + unit * (length // len(unit)) + "\x01"
                steps = Steps(pattern, text, max_steps=100_000)
                matches = steps.fullmatch()
                subject = text.encode() if isinstance(pattern.pattern, bytes) else text
                assert matches == (pattern.fullmatch(subject) is not None), (name, text)  # type: ignore[arg-type]
                counts.append(steps.count)
            assert counts[1] <= 2.5 * counts[0] + 50, (name, text)


@pytest.mark.parametrize("expression", [r"a*a*x", r"(a+)+x", r"(ab?|a)*x", r"(?=a*\w*x)a", r"(?:a|aa)*?x"])
def test_the_step_counter_detects_superlinear_regexes(expression):
    counts = []
    for length in (8, 16):
        steps = Steps(re.compile(expression), "a" * length, max_steps=10_000)
        with contextlib.suppress(StepLimitError):
            steps.fullmatch()
        counts.append(steps.count)
    assert counts[1] > 2.5 * counts[0] + 50


# ---- terminals ----


class Screen(io.TextIOWrapper):
    """A simulated terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True


def test_control_characters_are_escaped():
    assert printable(f"a\tb\n{ESCAPE}\x9b\x7f\r") == "a\tb\n\\x1b]0;title\\x07\\x9b\\x7f\\x0d"
    assert printable("Ünïcode עברית 日本語") == "Ünïcode עברית 日本語"
    for code in (
        0x061C,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ):  # they change the direction of text
        assert printable(f"a{chr(code)}b") == f"a\\u{code:04x}b"


def test_words_on_terminals_have_no_escape_sequences(tmp_path, monkeypatch, ninja):
    path = tmp_path / "x.slf"
    path.write_text(SLF.format(f"w{ESCAPE}"))
    for command in (["best", path], ["info", "--per-lattice", path], ["convert", path, "--to", "slf", "-o", "-"]):
        screen = Screen()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            assert package.cli.main.main([str(argument) for argument in command]) == 0
        assert b"\x1b" not in screen.buffer.getvalue()  # type: ignore[attr-defined]
        assert b"\x07" not in screen.buffer.getvalue()  # type: ignore[attr-defined]
    assert ninja("best", path)[1] == f"x w{ESCAPE}\n"  # files and pipes receive the unchanged word


def test_messages_have_no_escape_sequences(tmp_path, ninja):
    script = tmp_path / "x.scp"
    script.write_text(f"k{ESCAPE} {tmp_path}/{ESCAPE}.ark:5\n")
    code, _, stderr = ninja("best", f"scp:{script}")
    assert code == 1
    assert "\\x1b" in stderr
    assert not {"\x1b", "\x07"} & {*stderr}
