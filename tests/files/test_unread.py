"""Errors name the format of files without lattices; lists of files can be read from standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lattice_files import write_all

import ninja
from ninja.cli.main import main
from ninja.decoding.matrices import matrices_in
from ninja.errors import FormatError, NinjaError
from ninja.files.stream import Stream
from ninja.formats.format import HEAD
from ninja.formats.slf import write_slf
from ninja.graph import from_arcs
from ninja.io.reader import recognised
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable.from_words(["<eps>", "a", "b"])
TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."


def chain(key: str) -> ninja.Lattice:
    return from_arcs(key, [0, 1], [1, 2], [1, 2], [0.5, 0.5], [0.5, 0.5], finals={2: 0.0}).with_words(WORDS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for key in "uv":
        Path(f"{key}.slf").write_bytes(write_slf(chain(key)))
    write_all("ark,scp:two.ark,two.scp", (chain(key) for key in ("x", "y")))
    return tmp_path


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.slf", write_slf(chain("a")))
    return file.getvalue()


def parquet() -> bytes:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    pq.write_table(pa.table({"key": ["a"], "arc_begin": [[0]]}), file)
    return file.getvalue()


SLF = write_slf(chain("a")) * 5
KINDS = {
    "bzip2": (lambda: bz2.compress(SLF), r"the file is compressed with bzip2; decompress it first \(bunzip2\)"),
    "empty bzip2": (lambda: bz2.compress(b""), "the file is compressed with bzip2"),
    "xz": (lambda: lzma.compress(SLF), r"the file is compressed with xz; decompress it first \(unxz\)"),
    "lzma": (lambda: lzma.compress(SLF, lzma.FORMAT_ALONE), "the file is compressed with lzma"),
    "zstd": (
        lambda: b"\x28\xb5\x2f\xfd\x24\x05" + SLF,
        r"the file is compressed with zstd; decompress it first \(unzstd\)",
    ),
    "lz4": (lambda: b"\x04\x22\x4d\x18\x64\x40" + SLF, "the file is compressed with lz4"),
    "gzip twice": (
        lambda: gzip.compress(gzip.compress(SLF)),
        r"the file is compressed with gzip twice; decompress it once",
    ),
    "zip": (zipped, r"the file is a zip file that was not written by torch; extract it first \(unzip\)"),
    "tar": (
        lambda: b"a.slf".ljust(257, b"\0") + b"ustar\x0000" + SLF,
        r"the file is a tar file; extract it first \(tar -xf\)",
    ),
    "torch": (lambda: TORCH, "the file is in torch's old format; load it with torch and save it again with torch.save"),
    "pickle": (
        lambda: pickle.dumps([1, 2]),
        "the file is a Python pickle, which could run arbitrary code; save it in another format",
    ),
    "Parquet": (
        parquet,
        "the file is in Parquet format, which cannot be memory-mapped; convert it to an Arrow file with pyarrow",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_errors_name_the_format_of_unsupported_files(kind: str, folder: Path) -> None:
    make, message = KINDS[kind]
    Path("lat.ark").write_bytes(make())
    with pytest.raises(FormatError, match=f"^lat.ark: {message}"):
        list(ninja.read("lat.ark"))


@pytest.mark.parametrize("kind", ["bzip2", "xz", "zstd", "torch", "Parquet"])
def test_matrices_in_unsupported_files_are_refused(kind: str) -> None:
    make, message = KINDS[kind]
    with pytest.raises(FormatError, match=f"^logits.pt: {message}"):
        list(matrices_in(Stream(io.BytesIO(make()), "logits.pt"), "utt", "logits.pt"))


@pytest.mark.parametrize("name", ["w.slf.bz2", "w.ark.xz", "w.fst.zst", "w.pt"])
def test_unsupported_lattice_files_in_a_folder_are_reported(name: str, folder: Path) -> None:
    Path("all").mkdir()
    Path("all/u.slf").write_bytes(SLF[: len(SLF) // 5])
    Path(f"all/{name}").write_bytes(TORCH if name == "w.pt" else bz2.compress(SLF))
    Path("all/notes.txt.bz2").write_bytes(bz2.compress(b"nothing of interest\n"))
    errors: list[NinjaError] = []
    assert [key for key, _ in ninja.read("all", on_error=errors.append)] == ["u"]
    assert [error.path for error in errors] == [f"all/{name}"]


def test_parquet_converted_as_advised_is_read(folder: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    feather, pq = pytest.importorskip("pyarrow.feather"), pytest.importorskip("pyarrow.parquet")
    write_all("native.arrow", [chain("a")])
    with pa.ipc.open_file("native.arrow") as file:
        pq.write_table(file.read_all(), "lat.parquet")
    feather.write_feather(pq.read_table("lat.parquet"), "lat.arrow", compression="uncompressed")
    ((key, lattice),) = ninja.read("lat.arrow")
    assert key == "a"
    assert lattice.identical(chain("a"))


@pytest.fixture
def best(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs ``ninja best`` on standard input and returns exit code, keys and messages."""

    def run(content: bytes, source: str = "-") -> tuple[int, list[str], str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        code = main(["best", source])
        out, err = capfd.readouterr()
        return code, [line.split()[0] for line in out.splitlines()], err

    return run


LISTS = {
    "list": b"u.slf\nv.slf\n",
    "list without a final newline": b"u.slf\nv.slf",
    "list of script files": b"two.scp\n",
    "script file": b"",
    "script file of files": b"u u.slf\nv v.slf\n",
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_is_read_from_the_standard_input(kind: str, best: Any) -> None:
    content = LISTS[kind] or Path("two.scp").read_bytes()
    keys = ["x", "y"] if b"two" in content else ["u", "v"]
    assert best(content)[:2] == (0, keys)
    assert best(gzip.compress(content))[:2] == (0, keys)


@pytest.mark.parametrize("ids", [False, True])
def test_a_list_is_read_from_a_slow_pipe(ids: bool, folder: Path) -> None:
    names = ("two.scp",) if ids else ("u.slf", "v.slf")
    script = "; ".join(f"printf {name[:2]}; sleep 0.05; printf '{name[2:]}\\n'" for name in names)
    command = f"({script}) | {sys.executable} -m ninja best -"
    stdout = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in stdout.splitlines()] == (["x", "y"] if ids else ["u", "v"])


def test_a_long_list_is_read_completely(best: Any) -> None:
    assert best(b"u.slf\n" * 2000)[:2] == (0, ["u"] * 2000)


@pytest.mark.parametrize(("name", "keys"), [("two.ark", ["x", "y"]), ("u.slf", ["stdin"])])
def test_lattices_are_read_from_standard_input(name: str, keys: list[str], best: Any) -> None:
    assert best(Path(name).read_bytes())[:2] == (0, keys)


def test_a_script_file_is_recognised_by_content_with_any_name(folder: Path) -> None:
    Path("lattices.lst").write_bytes(Path("two.scp").read_bytes())
    assert [key for key, _ in ninja.read("lattices.lst")] == ["x", "y"]
    Path("1").touch()
    Path("utt").write_bytes(b"name 1\nnumaligns 1\nposterior 1\nalign 0 a 1\n")  # a mesh lists no files
    assert [key for key, _ in ninja.read("utt")] == ["1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"u u.slf\nv two.ark:12\n", r"it looks like a script file; use scp:-"),
        (
            b"u.slf\nv.slf\n",
            "it looks like a list of files, which cannot be read from a pipe or with ark:; pass the name of the list",
        ),
        (
            b"far/u.slf\nfar/v.slf\n",
            "it looks like a list of files, but 'far/u.slf' does not exist in the current folder",
        ),
    ],
)
def test_a_list_read_as_an_archive_is_refused_with_advice(content: bytes, message: str, best: Any) -> None:
    code, _, stderr = best(content, "ark:-")
    assert code == 1
    assert f"standard input: {message}" in stderr
    with pytest.raises(FormatError, match=f"lat.x: {message.replace(':-', ':lat.x')}"):
        recognised(content, "lat.x")


@pytest.mark.parametrize(
    "content",
    [b"utt 1 0 3 hello\nutt 1 3 4 world\n", b"utt 1 0 3 hello 0.9\nutt 1 3 4 world 1\n", b"1 1 0 3 a\n1 1 3 4 b\n"],
)
def test_a_ctm_with_whole_seconds_is_recognised_by_its_extension(content: bytes, folder: Path) -> None:
    Path("x.ctm").write_bytes(content)
    assert len(list(ninja.read("x.ctm"))) == len(list(ninja.read("x.ctm", format="ctm"))) == 1


def test_other_text_files_are_not_recognised() -> None:
    for content in (
        b"utt\t0\t90\t1\t50450\n",
        b"utt1 the cat\n",
        b"utt 1 2 3\n",
        b"\n",
        b"a b\n",
        b"PAR1 a\n",
    ):
        assert recognised(content, "file") is None


def test_lattices_are_not_recognised_as_other_files() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        key = random.integers(33, 127, 8, np.uint8).tobytes().replace(b"|", b"x")
        assert recognised((key + b" \n0 1 5 0.5,1,3_4\n1 1,2,\n\n")[:HEAD], "file") is None


@pytest.mark.parametrize("begin", [b"", b"\x1f\x8b", b"\x1f\x8b\x08", b"\x1f\x8b\x08\0\0\0\0\0\0\x03"])
def test_a_few_bytes_after_a_gzip_stream_are_an_error(begin: bytes, folder: Path) -> None:
    packed = gzip.compress(Path("two.ark").read_bytes())
    random = np.random.default_rng(len(begin))
    for length in range(1, 21):
        for _ in range(5):
            trailing = (begin + random.integers(1, 256, length, np.uint8).tobytes())[:length]
            Path("junk.gz").write_bytes(packed + trailing)
            errors: list[NinjaError] = []
            keys = [key for key, _ in ninja.read("junk.gz", on_error=errors.append)]
            assert len(errors) == 1
            adjective = "incomplete" if trailing.startswith(b"\x1f\x8b") else "unexpected"
            prefix = f"junk.gz, byte {len(packed)}: "
            message = (
                f"{prefix}{adjective} data follows the end of the gzip stream; remove the data, or copy the file again"
            )
            assert str(errors[0]).startswith(message), trailing
            assert keys == ["x", "y"]
