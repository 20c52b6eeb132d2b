"""Script files that list lattices in files of other formats: each file is read once for any order of keys."""

from __future__ import annotations

import gzip
import os
import random
import tracemalloc
from pathlib import Path

import pytest
from lattice_files import write_all
from whole_files import write_k2s, write_natives

from ninja.formats.format import Reader
from ninja.formats.nbest.json_lists import write_objects
from ninja.formats.slf import write_slf
from ninja.graph import from_arcs
from ninja.io import scp_reader
from ninja.io.reader import read
from ninja.io.vocabulary import vocabulary
from ninja.lattice.nbest import NBest, sentence
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable.from_words(["<eps>", "a", "b", "c"])


def single_arc(key, cost=1.0):
    return from_arcs(key, [0], [1], [1], [cost], [0.0], finals={1: 0.0}).with_words(WORDS)


def list_file(keys):
    return b"".join(write_objects(NBest(key, (sentence(["a"], float(cost), 0.0),))) for cost, key in enumerate(keys))


def native_file(keys):
    return write_natives(single_arc(key, cost) for cost, key in enumerate(keys))


def read_script(script, **options):
    """Return pairs of key and total cost from reading a script file, and the error messages."""
    errors = []
    lattices = [
        (key, float(lattice.graph.sum() + lattice.final_graph[lattice.is_final].sum()))
        for key, lattice in read(script, on_error=errors.append, **options)
    ]
    return lattices, [str(error) for error in errors]


def write_script(*rows):
    Path("x.scp").write_text("".join(f"{row}\n" for row in rows))
    return "scp:x.scp"


@pytest.fixture
def converted_keys(tmp_path, monkeypatch):
    """Change to an empty folder and record the keys of file entries that are converted to lattices."""
    monkeypatch.chdir(tmp_path)
    keys = []

    entries = Reader.entries

    def recording_entries(*arguments):
        for key, lattice in entries(*arguments):
            keys.append(key)
            yield key, lattice

    monkeypatch.setattr(Reader, "entries", recording_entries)
    return keys


KEYS = [f"utt{number}" for number in range(30)]


@pytest.mark.parametrize("order", ["same", "reversed", "shuffled", "twice"])
@pytest.mark.parametrize("form", ["json", "json.gz", "native", "k2"])
def test_consecutive_lines_of_one_file_read_it_once(converted_keys, order, form):
    content = {
        "json": lambda: list_file(KEYS),
        "json.gz": lambda: gzip.compress(list_file(KEYS)),
        "native": lambda: native_file(KEYS),
        "k2": lambda: write_k2s([single_arc(key, cost) for cost, key in enumerate(KEYS)]),
    }
    Path("big").write_bytes(content[form]())
    keys = {"same": KEYS, "reversed": KEYS[::-1], "twice": KEYS + KEYS}.get(order, random.Random(1).sample(KEYS, 30))
    lattices, errors = read_script(write_script(*(f"{key} big" for key in keys)))
    assert lattices == [(key, float(KEYS.index(key))) for key in keys]
    assert errors == []
    assert converted_keys == KEYS


@pytest.mark.parametrize("order", ["same", "reversed", "shuffled"])
def test_the_cache_of_a_file_is_bounded(converted_keys, order, monkeypatch):
    monkeypatch.setattr(scp_reader, "CACHE_BYTES", 5 * scp_reader.LATTICE_BYTES + 200)
    Path("big").write_bytes(list_file(KEYS))
    keys = {"same": KEYS, "reversed": KEYS[::-1]}.get(order, random.Random(1).sample(KEYS, 30))
    lattices, errors = read_script(
        write_script(*(f"{key} big" for key in keys), "none big", "none big", f"{keys[0]} big")
    )
    assert lattices == [(key, float(KEYS.index(key))) for key in [*keys, keys[0]]]
    message = "big, key 'none': the file contains several lattices, but none with this key"
    assert errors == [message, message]
    if order == "same":
        assert len(converted_keys) == len(KEYS) + 1  # the last line reads the first lattice again


def test_memory_does_not_grow_with_the_file(converted_keys, monkeypatch):
    keys = [f"utt{number}" for number in range(3000)]
    monkeypatch.setattr(scp_reader, "CACHE_BYTES", 1 << 16)
    Path("big").write_bytes(native_file(keys))
    source = write_script(*(f"{key} big" for key in keys))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read(source, read_ahead=False)) == 3000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_alternating_files_are_read_and_each_bad_line_is_an_error(converted_keys):
    Path("one.jsonl").write_bytes(list_file(["u", "v"]))
    Path("two.jsonl").write_bytes(list_file(["v", "w", "v"]))
    Path("single.slf").write_bytes(write_slf(single_arc("any", 7.0)))
    source = write_script(
        "v one.jsonl",
        "x one.jsonl",
        "u one.jsonl",
        "v two.jsonl",
        "a single.slf",
        "b single.slf",
        "w two.jsonl",
        "v none",
    )
    lattices, errors = read_script(source)
    assert lattices == [("v", 1.0), ("u", 0.0), ("v", 0.0), ("a", 7.0), ("b", 7.0), ("w", 1.0)]
    assert errors == [
        "one.jsonl, key 'x': the file contains several lattices, but none with this key",
        "none, key 'v': cannot be read: No such file or directory",
    ]


def test_the_first_lattice_of_a_duplicate_key_is_read(converted_keys):
    Path("two.jsonl").write_bytes(list_file(["v", "w", "v"]))
    lattices, errors = read_script(write_script("v two.jsonl", "x two.jsonl", "v two.jsonl"))
    assert lattices == [("v", 0.0), ("v", 0.0)]
    assert len(errors) == 1
    assert converted_keys == ["v", "w", "v"]


def test_damage_is_reported_for_every_affected_line(converted_keys):
    Path("cut.jsonl.gz").write_bytes(gzip.compress(list_file(KEYS))[:-30])
    lattices, errors = read_script(write_script("utt1 cut.jsonl.gz", "utt2 cut.jsonl.gz"))
    assert lattices == []
    assert errors == [f"cut.jsonl.gz, key '{key}': the gzip stream is truncated" for key in ("utt1", "utt2")]
    Path("damaged.jsonl").write_bytes(list_file(["u"]) + b'{"key": "v", "nbest": 1}\n' + list_file(["w"]))
    lattices, errors = read_script(write_script("w damaged.jsonl", "v damaged.jsonl", "u damaged.jsonl"))
    assert lattices == [("w", 0.0), ("u", 0.0)]
    assert len(errors) == 1
    assert errors[0].startswith("damaged.jsonl:2, key 'v': ")
    Path("none.jsonl").write_bytes(b"\n")
    Path("x.jsonl").write_bytes(b'{"key": "v"}\n')
    for name in ("none.jsonl", "x.jsonl"):
        lattices, errors = read_script(write_script(f"w {name}", f"v {name}"))
        assert lattices == []
        assert [error.partition(":")[0].partition(",")[0] for error in errors] == [name, name]


def test_vocabulary_and_read_each_read_a_listed_file_once(converted_keys):
    Path("big.jsonl").write_bytes(list_file(KEYS))
    source = write_script(*(f"{key} big.jsonl" for key in KEYS))
    words = vocabulary(source)
    assert {word for word, _ in words} == {"<eps>", "a"}
    assert [key for key, _ in read(source, words=words)] == KEYS
    assert converted_keys == 2 * KEYS


def test_kaldi_archives_and_other_formats_may_be_listed_together(converted_keys):
    write_all("ark,scp:a.ark,a.scp", (single_arc(key, 3.0).with_words(None) for key in ("u", "v")))
    Path("b.jsonl").write_bytes(list_file(["u", "w"]))
    rows = Path("a.scp").read_text().splitlines()
    source = write_script("w b.jsonl", rows[1], "u b.jsonl", rows[0], "w b.jsonl")
    lattices, errors = read_script(source)
    assert errors == []
    assert lattices == [("w", 1.0), ("v", 3.0), ("u", 0.0), ("u", 3.0), ("w", 1.0)]


LATTICES = Path(__file__).resolve().parents[2] / "examples" / "lat.ark.gz"


@pytest.mark.timeout(120)  # reading a pipe without a writer never ends
@pytest.mark.parametrize("command", ["best", "prune", "copy", "rescore"])
@pytest.mark.parametrize(
    "name", ["a.ark[0:3]", "a.ark:5[0:3]", f"a.ark:{'9' * 5000}", "pipe", "*.none", "-", "s3://b/x:5"]
)
def test_a_bad_line_does_not_affect_other_lines(ninja, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    entries = [lattice for _, lattice in read(LATTICES)][:2]
    write_all("ark,scp:a.ark,a.scp", entries)
    first, second = Path("a.scp").read_text().splitlines()
    Path("b.scp").write_text(f"{first}\nbad {name}\n{second}\n")
    arguments = {
        "best": ["-o", "out"],
        "prune": ["--beam", 6, "--acoustic-scale", 0.1, "-o", "out.ark"],
        "copy": ["-o", "out.ark"],
        "rescore": ["--rnnlm", "lm.arpa", "--words", LATTICES.parent / "words.txt", "-o", "out.ark"],
    }[command]
    table = SymbolTable.read(LATTICES.parent / "words.txt")
    words = {table.word(int(number)) for lattice in entries for number in lattice.word if number}
    rows = "".join(f"-3 {word}\n" for word in ["<s>", "</s>", *sorted(words)])
    Path("lm.arpa").write_text(f"\\data\\\nngram 1={len(words) + 2}\n\n\\1-grams:\n{rows}\n\\end\\\n")
    code, _, errors = ninja(command, "scp:b.scp", *arguments)
    assert code == 1, errors
    assert "internal error" not in errors
    assert "1 failed: bad" in errors
    keys = (
        [line.split()[0] for line in Path("out").read_text().splitlines()]
        if command == "best"
        else [*archive_keys("out.ark")]
    )
    assert keys == [lattice.key for lattice in entries]


def archive_keys(archive):
    return (key for key, _ in read(archive))
