"""Sources that can be read only once are read like files: named pipes, process substitution and standard input."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from lattice_files import write_all

from ninja.cli.main import main
from ninja.context.sound.pronunciation import read_lexicon
from ninja.errors import NinjaError, OptionError, OutputError
from ninja.formats.kaldi.word_phones import read_align_lexicon
from ninja.formats.nbest.json_lists import write_objects
from ninja.formats.slf import write_slf
from ninja.graph import from_arcs
from ninja.io.lookup import Lookup
from ninja.io.reader import read
from ninja.io.sources import Sources
from ninja.lattice.nbest import NBest, sentence
from ninja.lattice.symbols import SymbolTable
from ninja.pipeline.transcripts import holds_lattices

WORDS = SymbolTable.from_words(["<eps>", "a", "b", "c"])


def chain(key, words=(1, 2), *, table=WORDS):
    ends = list(range(1, len(words) + 1))
    costs = [0.5] * len(words)
    lattice = from_arcs(key, [end - 1 for end in ends], ends, list(words), costs, costs, finals={len(words): 0.0})
    return lattice if table is None else lattice.with_words(table)


def archive(*keys):
    write_all("pipe.ark", (chain(key, table=None) for key in keys))
    return Path("pipe.ark").read_bytes()


@pytest.fixture
def pipe(folder):
    """Return a function that creates a named pipe with the given bytes."""
    writers = []

    def start(name, content):
        os.mkfifo(name)

        def run():
            with open(name, "wb", buffering=0) as file:
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]

        writers.append(threading.Thread(target=run, daemon=True))
        writers[-1].start()
        return name

    yield start
    for writer in writers:
        writer.join(10)
        assert not writer.is_alive()  # all bytes were read


def test_a_pipe_is_read_like_a_file(pipe):
    assert [key for key, _ in read(pipe("utt.slf", write_slf(chain("x"))))] == ["utt"]
    assert [key for key, _ in read(pipe("a.gz", gzip.compress(archive("u", "v"))))] == ["u", "v"]


@pytest.mark.parametrize("packed", [False, True])
def test_words_spelled_in_a_pipe_are_collected_while_it_is_read(pipe, packed):
    content = write_slf(chain("x", (2, 3)))
    ((_, lattice),) = read(pipe("utt.slf", gzip.compress(content) if packed else content))
    assert lattice.words.spell(lattice.word[lattice.word > 0]) == ["b", "c"]


def test_a_new_pipe_with_the_same_name_is_read_anew(pipe):
    for key, (first, second) in {"one": (1, 2), "two": (3, 1)}.items():
        name = pipe("utt.slf", write_slf(chain("x", (first, second))))
        ((_, lattice),) = read(name)
        assert lattice.words.spell(lattice.word[lattice.word > 0]) == [WORDS.word(first), WORDS.word(second)], key
        os.unlink(name)
    for key in ("u", "v"):
        name = pipe("x.ark", archive(key))
        sources = Sources(name)
        assert holds_lattices(sources.files[0])  # the bytes read for detection are read again
        assert [stored_key for stored_key, _ in read(sources)] == [key]
        os.unlink(name)


def test_a_pipe_without_lattices_is_not_cached(pipe):
    name = pipe("x", b"no lattices\n")
    with pytest.raises(NinjaError, match="x, byte 3"):
        list(read(name))
    os.unlink(name)
    assert [stored_key for stored_key, _ in read(pipe("x", archive("u")))] == ["u"]


def test_words_of_a_pipe_cannot_be_collected_before_reading(pipe, capfd):
    name = pipe("utt.slf", write_slf(chain("x")))
    ((_, lattice),) = read(name)
    with pytest.raises(OptionError, match=r"utt.slf: all words must be known before the first lattice"):
        lattice.words.complete()


def test_context_biasing_of_a_pipe_does_not_depend_on_jobs(pipe, ninja):
    Path("phrases").write_text("b c\n")
    results = []
    for jobs in (1, 2):
        name = pipe("utt.slf", write_slf(chain("x", (2, 3))))
        code, _, errors = ninja("context", name, "--entities", "phrases", "--jobs", jobs, "-o", "out.slf")
        assert code == 0, errors
        results.append(Path("out.slf").read_bytes())
        os.unlink(name)
    assert results[0] == results[1]


def test_lattices_of_a_pipe_are_looked_up_by_key(pipe):
    with Lookup(pipe("second", archive("u", "v"))) as lookup:
        assert lookup.get("v").num_arcs == 2
        assert list(lookup.rest()) == ["u"]


def test_a_script_file_is_read_from_a_pipe(pipe):
    Path("1.slf").write_bytes(write_slf(chain("x", (3, 2))))
    Path("2.slf").write_bytes(write_slf(chain("x", (1,))))
    content = b"\nu 1.slf\nv 2.slf\n"
    name = pipe("list.scp", content)
    pairs = list(read(f"scp:{name}"))
    assert [key for key, _ in pairs] == ["u", "v"]
    assert {word for word, _ in pairs[0][1].words} >= {"a", "b", "c"}


def test_a_script_file_is_read_from_standard_input(folder, monkeypatch, capfd):
    Path("1.slf").write_bytes(write_slf(chain("x", (3, 2))))
    Path("2.slf").write_bytes(write_slf(chain("x", (1,))))
    Path("list.scp").write_text("u 1.slf\nv 2.slf\n")
    expected = main(["best", "list.scp"]), capfd.readouterr().out
    assert expected == (0, "u c b\nv a\n")
    for content in ("u 1.slf\nv 2.slf\n", "\n \nu 1.slf\nv 2.slf"):
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
            assert (main(["best", "scp:-"]), capfd.readouterr().out) == expected
    Path("list.scp.gz").write_bytes(gzip.compress(Path("list.scp").read_bytes()))
    with monkeypatch.context() as patch, open("list.scp.gz") as file:
        patch.setattr("sys.stdin", file)
        assert (main(["best", "scp:-"]), capfd.readouterr().out) == expected


def test_an_archive_listed_by_a_script_file_on_standard_input_is_read(folder, monkeypatch):
    archive("u", "v")
    write_all("ark,scp:x.ark,x.scp", (chain(key, table=None) for key in ("u", "v")))
    with open("x.scp") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert [key for key, _ in read("scp:-")] == ["u", "v"]


def test_pipe_commands_are_not_inspected_for_lattices():
    (file,) = Sources("ark:exit 1 |", allow_pipes=True).files
    assert not holds_lattices(file)


def test_a_malformed_script_file_on_standard_input_is_refused(folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"alone\n")))
    with pytest.raises(NinjaError, match="standard input:1"):
        list(read("scp:-"))


@pytest.mark.parametrize("read_text", [SymbolTable.read, read_align_lexicon, read_lexicon])
def test_errors_of_files_named_by_a_hyphen_are_located_in_standard_input(monkeypatch, read_text):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    with pytest.raises(NinjaError, match=r"^standard input:1: ") as caught:
        read_text("-")
    assert caught.value.path == "-"


def test_an_output_named_by_a_hyphen_is_standard_output():
    assert str(OutputError("is not open", "-", key="u")) == "standard output, key 'u': is not open"


def test_split_refuses_a_pipe_because_it_reads_twice(pipe, capfd):
    name = pipe("x.ark", b"")
    assert main(["split", name, "--nj", "2", "-o", "out.JOB.ark"]) == 2
    assert "reads SOURCE twice" in capfd.readouterr().err
    Path(name).read_bytes()


@pytest.fixture
def substitute(folder):
    """Return a function that returns the name of an open pipe, as a shell replaces ``<(command)`` with one."""
    descriptors = []

    def start(content):
        reader, writer = os.pipe()
        descriptors.append(reader)
        with open(writer, "wb") as file:
            file.write(content)  # fits into the pipe
        return f"/dev/fd/{reader}"

    yield start
    for descriptor in descriptors:
        os.close(descriptor)


def test_commands_read_process_substitutions(substitute, ninja):
    content = write_slf(chain("x", (3, 2)))
    packed = gzip.compress(content)
    lists = [NBest(key, (sentence(["a", "b"], 0.5, 0.5),)) for key in ("u", "v")]
    plf = b"((('a',-1,1),),)\n((('b',-1,1),),)\n"
    for arguments, expected in (
        (["best", substitute(content)], "stdin c b\n"),
        (["best", substitute(packed)], "stdin c b\n"),
        (["equivalent", substitute(content), substitute(packed)], ""),
        (["best", substitute(plf)], "1 a\n2 b\n"),
        (["best", substitute(b"".join(map(write_objects, lists)))], "u a b\nv a b\n"),
        (["best", substitute(archive("u", "v")), "--words", substitute(b"<eps> 0\na 1\nb 2\n")], "u a b\nv a b\n"),
    ):
        code, output, errors = ninja(*arguments)
        assert (code, output) == (0, expected), errors


@pytest.mark.parametrize("packed", [False, True])
def test_scored_transcripts_may_be_read_from_a_pipe(pipe, capfd, packed):
    Path("text").write_text("u a b\nv c\n")
    content = Path("text").read_bytes()
    assert main(["score", "text", pipe("hypotheses", gzip.compress(content) if packed else content)]) == 0
    assert capfd.readouterr().out.startswith("%WER 0.00 [ 0 / 3,")


def test_scored_transcripts_may_be_read_from_dev_stdin(folder):
    Path("text").write_text("u a b\nv c\n")
    command = f"cat text | {sys.executable} -m ninja score text /dev/stdin"
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert process.stdout.startswith("%WER 0.00 [ 0 / 3,"), process.stderr
