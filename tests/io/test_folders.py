"""Folders are read completely or skipped files are noted: lattices among unrelated files, and SRILM count lists."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import tarfile
import tempfile
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_files import write_all
from reference_graph import SHARED
from strategies_text import needs_files

import ninja
from ninja.errors import FormatError, NinjaError
from ninja.graph import from_arcs
from ninja.io.sources import Sources


def tarball() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        entry = tarfile.TarInfo("lat.slf")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"hal"))
    return content.getvalue()


def array() -> bytes:
    content = io.BytesIO()
    np.save(content, np.zeros((3, 4), np.float32))
    return content.getvalue()


UNRELATED = {
    "plot.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1",
    "photo.jpg": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "run.sh": b"#!/bin/bash\nfor n in 1 2 3; do\n  lattice-best-path ark:lat.$n ark,t:-\ndone\n",
    "score.py": b"import sys\n\nfor line in sys.stdin:\n    print(line)\n",
    "done": b"",
    "backup.tar.gz": tarball(),
    "features.npy": array(),
    "config.yaml": b"beam: 12.0\nlattice_beam: 6\n",
    "notes.txt": b"tried a beam of 12\n\nbetter: 14\n",
    "post.ark": b"utt \0BFM \4\0\0\0\0",
}
COMPANIONS = {
    "decode.1.log": b"# lattice-scale\nLOG (x)\n",
    "num_jobs": b"4\n",
    "NOTES.md": b"# Notes\n",
    "wer_7_0.0": b"%WER 1\n",
}


def read(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the keys, the errors and the notes from reading a folder."""
    failures: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        keys = [key for key, _ in ninja.read(folder, on_error=lambda error: failures.append(str(error)))]
    return keys, failures, [str(note.message) for note in caught if note.category is UserWarning]


def test_unrelated_files_are_noted_once_and_companion_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "utt.nbest").write_bytes(b"-12.5 -3.5 2 the cat\n")
    for name, content in {**UNRELATED, **COMPANIONS}.items():
        (tmp_path / name).write_bytes(content)
    for name in ("log", "scoring_kaldi", ".backup", "old"):
        (tmp_path / name).mkdir()
    keys, failures, notes = read(tmp_path)
    assert (keys, failures) == (["utt"], [])
    (note,) = notes
    count = len(UNRELATED) + 1
    assert note.startswith(f"{tmp_path}: skipped {count} files without lattices: old/, backup.tar.gz, ")
    assert note.endswith(f" and {count - 5} more")


def test_the_command_notes_unrelated_files_and_succeeds(tmp_path: Path, ninja) -> None:
    (tmp_path / "utt.nbest").write_bytes(b"-12.5 -3.5 2 the cat\n")
    (tmp_path / "plot.png").write_bytes(UNRELATED["plot.png"])
    code, out, err = ninja("best", tmp_path, "--acoustic-scale", 1)
    assert (code, out) == (0, "utt the cat\n")
    assert err == f"ninja: {tmp_path}: skipped 1 file without lattices: plot.png\n"


def test_result_files_next_to_lattices_are_noted(tmp_path: Path) -> None:
    (tmp_path / "utt.nbest").write_bytes(b"-12.5 -3.5 2 the cat\n")
    (tmp_path / "out.ctm").write_bytes(b"utt 1 0.00 0.10 the 0.9\nutt 1 0.10 0.30 cat 0.8\n")
    keys, failures, notes = read(tmp_path)
    assert (keys, failures) == (["utt"], [])
    assert notes == [f"{tmp_path}: skipped 1 file with recogniser results: out.ctm"]


def test_the_error_for_a_folder_without_lattices_lists_its_files(tmp_path: Path) -> None:
    (tmp_path / "plot.png").write_bytes(UNRELATED["plot.png"])
    (tmp_path / "decode_test").mkdir()
    message = f"{tmp_path}: the folder contains no lattices, only: decode_test/, plot.png"
    assert read(tmp_path) == ([], [message], [])
    with pytest.raises(FormatError, match=message):
        next(ninja.read(tmp_path))


def test_sources_after_a_folder_without_lattices_are_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "utt.nbest").write_bytes(b"-12.5 -3.5 2 the cat\n")
    failures: list[NinjaError] = []
    lattices = ninja.read([tmp_path / "empty", tmp_path / "utt.nbest"], on_error=failures.append)
    assert [key for key, _ in lattices] == ["utt"]
    assert [str(failure) for failure in failures] == [f"{tmp_path}/empty: the folder contains no lattices"]


@needs_files
@pytest.mark.parametrize("name", sorted(path.name for path in (SHARED / "data/formats").glob("*/")))
def test_every_real_file_among_unrelated_files_is_read_or_noted(name: str, tmp_path: Path) -> None:
    paths = [path for path in (SHARED / "data/formats" / name).iterdir() if path.is_file()]
    for path in paths:
        shutil.copy(path, tmp_path)
    for file_name, content in {**UNRELATED, **COMPANIONS}.items():
        (tmp_path / file_name).write_bytes(content)
    (folder,) = Sources(str(tmp_path)).files
    holds = {Path(file.path).name: file.holds for file in folder.files}
    lattices = {name for name, content in holds.items() if content in ("lattices", "damage")}
    results = {name for name, content in holds.items() if content == "results"}
    unrelated = {name for name, content in holds.items() if content == "nothing"}
    companions = {name for name, content in holds.items() if content == "companion"}
    assert unrelated >= UNRELATED.keys()
    assert companions >= COMPANIONS.keys()
    assert companions - COMPANIONS.keys() <= {"LICENSE", "COPYING", "README.md", "text", "words.lst.gz"}
    if not lattices:
        keys, failures, notes = read(tmp_path)
        assert (keys, notes) == ([], [])
        assert [failure.partition(", only: ")[0] for failure in failures] == [
            f"{tmp_path}: the folder contains no lattices"
        ]
        return
    keys, failures, notes = read(tmp_path)
    expected = [read(Path(file.path)) for file in folder.files if Path(file.path).name in lattices]
    assert keys == [key for part_keys, _, _ in expected for key in part_keys]
    assert failures == [failure for _, part_failures, _ in expected for failure in part_failures]
    (note,) = notes
    assert f"skipped {len(unrelated)} files without lattices: " in note
    assert ("with recogniser results" in note) is bool(results)
    assert all(name in note for name in results)


def test_a_script_file_is_noted_unless_its_archive_is_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "utt.nbest").write_bytes(b"-12.5 -3.5 2 the cat\n")
    for name in ("lat.scp", "lat.ark", "elsewhere.scp"):
        (tmp_path / name).write_bytes(b"" if name == "lat.ark" else b"utt lat.ark:4\n")
    _, _, (note,) = read(tmp_path)
    assert note.endswith("skipped 1 file without lattices: elsewhere.scp")


# SRILM counts language model words: pauses, noises and tags are not counted, and each part of a multiword may be.
FILLERS = ("-pau-", "[laugh]", "@reject@", "<unk>", "++noise++", "*NONSPEECH*")
PLAIN = ("the", "cat", "i'm", "'cause", "é", "well-known")
MULTIWORDS = ("you_know", "a_lot_of", "uh_huh")
score = st.floats(-5000, -0.001).map("{:g}".format)
tokens = st.lists(st.sampled_from(FILLERS + PLAIN + MULTIWORDS), max_size=12)
lists = st.lists(st.tuples(score, score, tokens), min_size=1, max_size=6)


def srilm_list(hypotheses: list[tuple[str, str, list[str]]], expands: bool) -> bytes:
    rows = []
    for acoustic, graph, words in hypotheses:
        num_words = sum(1 + expands * word.count("_") for word in words if word not in FILLERS)
        rows.append(" ".join([acoustic, graph, str(num_words), *words]))
    return "".join(f"{row}\n" for row in rows).encode()


@settings(max_examples=20, deadline=None)
@given(st.lists(lists, min_size=1, max_size=3), st.booleans())
def test_srilm_lists_are_recognised_for_either_word_count(nbest_lists, expands: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, hypotheses in enumerate(nbest_lists):
            content = srilm_list(hypotheses, expands)
            (folder / f"sw_{number}").write_bytes(gzip.compress(content) if number else content)
            ((key, _),) = ninja.read(folder / f"sw_{number}")  # as a single file
            assert key == f"sw_{number}"
        keys, failures, notes = read(folder)
        assert (keys, failures, notes) == ([f"sw_{number}" for number in range(len(nbest_lists))], [], [])


def test_many_lists_with_multiwords_are_read_completely(tmp_path: Path) -> None:
    chance = random.Random(1)
    for number in range(65):
        sentences = [
            [chance.choice(FILLERS + PLAIN + MULTIWORDS) for _ in range(chance.randint(0, 9))] for _ in range(5)
        ]
        content = srilm_list([("-1234.5", "-34.2", sentence) for sentence in sentences], expands=True)
        (tmp_path / f"sw_{number}").write_bytes(content)
    keys, failures, notes = read(tmp_path)
    assert (len(keys), failures, notes) == (65, [], [])


def test_a_list_line_with_missing_words_is_reported_as_damage(tmp_path: Path, ninja) -> None:
    (tmp_path / "sw_1").write_bytes(b"-12 -34.5 4 hello world\n")
    code, _, err = ninja("best", tmp_path / "sw_1")
    assert code == 1
    assert "the number of words is 4, but 2 follow; the line may be truncated" in err


@pytest.mark.parametrize("num_read", [0, 1, 3])
def test_a_folder_that_vanishes_while_it_is_read_is_an_input_error(tmp_path, num_read):
    folder, names, errors = tmp_path / "lattices", "abc", []
    folder.mkdir()
    for name in names:
        write_all(folder / f"{name}.ark", [from_arcs(name, [0], [1], [1], [1.0], finals={1: 0.0})])
    lattices = ninja.read(folder, on_error=lambda error: errors.append(str(error)), read_ahead=False)
    keys = [key for key, _ in islice(lattices, num_read)]
    shutil.rmtree(folder)
    assert keys + [key for key, _ in lattices] == [*names[:num_read]]
    unread = [folder / f"{name}.ark" for name in names[num_read:]] if num_read else [folder]
    assert errors == [f"{path}: cannot be read: No such file or directory" for path in unread]
