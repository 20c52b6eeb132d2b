"""The sources that ``ninja.read`` accepts, and how they are read."""

import gc
import gzip
import io
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest
from lattice_files import write_all

from ninja.errors import FormatError, InputError, OptionError, SymbolError
from ninja.io import keys, read
from ninja.lattice import Lattice
from ninja.openfst import to_fst

SAMPLE = Path(__file__).parents[1] / "data/english/formats"
INF = float("inf")


def small(key, words=(3,)):
    num_states = len(words) + 1
    return Lattice.from_arrays(
        key,
        [*range(num_states), num_states - 1],
        list(range(1, num_states)),
        list(words),
        [1.0] * len(words),
        [2.0] * len(words),
        [INF] * len(words) + [0.5],
        ali_begin=range(num_states),
        ali=[5] * len(words),
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Create a folder with the files of a Kaldi decoder and make it the current directory."""
    monkeypatch.chdir(tmp_path)
    for job in (1, 2, 10):
        write_all(f"lat.{job}.gz", [small(f"utt-{job}-a"), small(f"utt-{job}-b")])
    write_all("ark,scp:plain.ark,plain.scp", (small(name, [ord(name)]) for name in "xyz"))
    (tmp_path / "num_jobs").write_text("3\n")
    (tmp_path / "words.txt").write_text("<eps> 0\na 3\n")
    (tmp_path / "log").mkdir()
    return tmp_path


ALL = ["utt-1-a", "utt-1-b", "utt-2-a", "utt-2-b", "utt-10-a", "utt-10-b"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("plain.ark", ["x", "y", "z"]),
        (Path("plain.ark"), ["x", "y", "z"]),
        ("ark:plain.ark", ["x", "y", "z"]),
        ("ark,s,cs:plain.ark", ["x", "y", "z"]),
        ("ark,bg,o,t:plain.ark", ["x", "y", "z"]),
        ("plain.scp", ["x", "y", "z"]),
        ("scp:plain.scp", ["x", "y", "z"]),
        ("scp,p:plain.scp", ["x", "y", "z"]),
        ("lat.1.gz", ALL[:2]),
        ("ark:lat.1.gz", ALL[:2]),
        ("ark:gunzip -c lat.1.gz|", ALL[:2]),
        ("ark:gunzip -c lat.1.gz lat.2.gz |", ALL[:4]),
        ("ark:gunzip -c lat.*.gz|", ALL),
        ("ark:zcat lat.1.gz |", ALL[:2]),
        ("ark: cat plain.ark |", ["x", "y", "z"]),
        ("ark:cat 'plain.ark'|", ["x", "y", "z"]),
        ("lat.*.gz", ALL),
        ("lat.JOB.gz", ALL),
        ("lat.?.gz", ALL[:4]),
        (["lat.2.gz", "plain.ark"], ["utt-2-a", "utt-2-b", "x", "y", "z"]),
        (".", [*ALL, "x", "y", "z"]),
    ],
)
@pytest.mark.parametrize("read_ahead", [True, False])
def test_every_form_of_source_is_read(folder, source, expected, read_ahead):
    pairs = list(read(source, read_ahead=read_ahead))
    assert [key for key, _ in pairs] == expected
    assert [lattice.key for _, lattice in pairs] == expected
    assert list(keys(source)) == expected


@pytest.mark.parametrize("folder_name", ["lat:1", "a[1]", "JOB", "ark"])
def test_the_name_of_an_existing_file_is_read_as_a_path(tmp_path, monkeypatch, folder_name):
    monkeypatch.chdir(tmp_path)
    os.mkdir(folder_name)
    write_all(f"{folder_name}/lat.JOB.ark", [small("k")])
    assert list(keys(f"{folder_name}/lat.JOB.ark")) == ["k"]
    assert list(keys(folder_name)) == ["k"]


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("ark:sox in.wav |", FormatError, "allow_pipes"),
        ("ark:gunzip -c $(rm -rf x) |", FormatError, "is not allowed"),
        ("ark:cat plain.ark; rm x |", FormatError, "is not allowed"),
        ("ark:cat plain.ark > x |", FormatError, "is not allowed"),
        ("ark:cat -n plain.ark |", FormatError, "is not allowed"),
        ("ark:| gzip -c", FormatError, "to write to"),
        ("ark,x:plain.ark", OptionError, "unknown option 'x'"),
        ("ark,scp:a,b", OptionError, "must contain exactly one of 'ark' and 'scp'"),
        ("lat.9*.gz", InputError, "no file matches"),
        ("lat9.JOB.gz", InputError, "no file matches"),
        ("log", FormatError, "contains no lattices"),
    ],
)
def test_an_invalid_source_is_refused_immediately(folder, source, kind, message):
    with pytest.raises(kind) as caught:
        list(read(source)) if source == "log" else read(source)  # a folder is listed only when it is read
    assert message in str(caught.value)


def test_pipe_commands_run_only_with_allow_pipes(folder):
    assert list(keys("ark:cat plain.ark | cat |", allow_pipes=True)) == ["x", "y", "z"]
    with pytest.raises(InputError, match="exit code 3"):
        list(read("ark:cat plain.ark; exit 3 |", allow_pipes=True))


def test_missing_files_are_reported_and_skipped(folder):
    errors = []
    assert list(keys(["none.ark", "plain.ark"], on_error=errors.append)) == ["x", "y", "z"]
    assert type(errors[0]) is InputError
    assert str(errors[0]) == "none.ark: cannot be read: No such file or directory"
    with pytest.raises(InputError, match=r"none\.ark"):
        list(read("none.ark"))


def test_a_script_file_may_list_lattices_in_any_order(folder):
    lines = Path("plain.scp").read_text().splitlines()
    Path("back.scp").write_text(
        "\n".join([*lines[::-1], "again " + lines[1].split()[1], "g gunzip -c one.gz |", "h one"])
    )
    first = Path("plain.ark").read_bytes()[2 : 2 + 150]
    Path("one.gz").write_bytes(gzip.compress(first))
    Path("one").write_bytes(first)
    pairs = list(read("back.scp"))
    assert [key for key, _ in pairs] == ["z", "y", "x", "again", "g", "h"]
    assert [lattice.word.tolist() for _, lattice in pairs] == [[122], [121], [120], [121], [120], [120]]
    assert [lattice.key for _, lattice in pairs] == ["z", "y", "x", "again", "g", "h"]


@pytest.mark.parametrize("text", [True, False])
def test_script_files_of_large_archives_find_every_lattice(tmp_path, text):
    write_all(
        f"ark{',t' if text else ''},scp:{tmp_path}/a.ark,{tmp_path}/a.scp",
        (small(f"k{number}", range(1, 100 + 7 * number)) for number in range(300)),
    )
    pairs = list(read(tmp_path / "a.scp"))
    assert len(pairs) == 300
    assert all(
        lattice.identical(expected) for (_, lattice), (_, expected) in zip(pairs, read(tmp_path / "a.ark"), strict=True)
    )


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("k none.ark:17", InputError, "No such file"),
        ("k plain.ark:99999", FormatError, "found ''"),
        ("k plain.ark:5", FormatError, "wrong magic number|expected a new line"),
        ("k", FormatError, "expected a key and a file"),
        ("k sox x.wav |", FormatError, "in a script file"),
        ("k plain.ark:2[0:5]", FormatError, "which applies only to matrices"),
        ("k lat.1.gz:2", FormatError, "requires an uncompressed file"),
        ("k gunzip -c lat.*.gz |", FormatError, "specifies 3 files"),
    ],
)
def test_a_bad_line_of_a_script_file_is_one_failure(folder, line, kind, message):
    rows = Path("plain.scp").read_text().splitlines()
    Path("bad.scp").write_text("\n".join([rows[0], line, rows[1]]) + "\n")
    errors = []
    assert list(keys("bad.scp", on_error=errors.append)) == ["x", "y"]
    (error,) = errors
    assert type(error) is kind
    assert re.search(message, str(error))
    assert error.path is not None
    if line != "k":
        assert error.key == "k"
    assert list(keys("scp,p:bad.scp")) == ["x", "y"]


def test_allowing_pipes_does_not_allow_them_in_script_files(folder):
    Path("bad.scp").write_text("k touch danger; cat plain.ark |\n")
    with pytest.raises(FormatError, match="in a script file"):
        list(read("scp:bad.scp", allow_pipes=True))
    assert not Path("danger").exists()


def test_the_standard_input_is_read(folder, monkeypatch):
    for content in (Path("plain.ark").read_bytes(), gzip.compress(Path("plain.ark").read_bytes())):
        for source in ("-", "ark:-", "ark:", "ark:gunzip -c - |"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            assert list(keys(source)) == ["x", "y", "z"]
    code = "import ninja; print(*(key for key, _ in ninja.read('-')))"
    with open("lat.10.gz", "rb") as stream:
        process = subprocess.run([sys.executable, "-c", code], stdin=stream, capture_output=True, env=environment())
    assert process.stdout.split() == [b"utt-10-a", b"utt-10-b"], process.stderr


def environment():
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def test_lattices_are_yielded_as_soon_as_a_pipe_delivers_them(folder):
    content = Path("plain.ark").read_bytes()
    code = "import ninja\nfor key, _ in ninja.read('-'): print(key, flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), bufsize=0
    )
    size = len(content) // 3
    for number, name in enumerate([b"x\n", b"y\n", b"z\n"]):
        process.stdin.write(content[number * size : (number + 1) * size])
        assert process.stdout.readline() == name
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdout.close()


def test_a_single_lattice_without_a_key_takes_the_file_name(folder):
    (_, lattice), *_ = read(SAMPLE / "lat.ark.gz")
    content = gzip.decompress((SAMPLE / "lat.ark.gz").read_bytes())
    begin = content.index(b"\xd6")
    end = content.index(b" \xd6\xfd\xb2\x7e", begin + 1) - len("libri-4446-2275-0014")
    for name, packed in (("utt-7.lat", content[begin:end]), ("utt-8.lat.gz", gzip.compress(content[begin:end]))):
        Path(name).write_bytes(packed)
        ((key, result),) = read(name)
        assert key == result.key == name[:5]
        assert result.with_key(lattice.key).identical(lattice)


def test_an_openfst_file_is_a_lattice_with_graph_costs(folder):
    pytest.importorskip("pywrapfst")
    to_fst(small("k", [3, 4])).write("utt.fst")
    ((key, lattice),) = read("utt.fst")
    assert (key, lattice.word.tolist(), lattice.acoustic.tolist()) == ("utt", [3, 4], [0, 0])
    with pytest.raises(SymbolError, match="word id 4"):
        list(read("utt.fst", words="words.txt"))


def test_words_are_attached_to_every_lattice(folder):
    lattices = [lattice for _, lattice in read("lat.*.gz", words="words.txt")]
    assert lattices[0].words is lattices[-1].words
    assert lattices[0].words.spell(lattices[0].word) == ["a"]
    (_, sample), *_ = read(SAMPLE / "lat.ark.gz", words=SAMPLE / "words.txt")
    assert len(sample.words.spell(sample.word)) > 50


def test_an_empty_archive_has_no_lattices(tmp_path):
    for name, content in (("a.ark", b""), ("b.ark.gz", gzip.compress(b"")), ("c.scp", b""), ("d.txt", b"\n\n")):
        (tmp_path / name).write_bytes(content)
        assert list(read(tmp_path / name)) == []


def test_concatenated_gzip_members_are_read(folder):
    Path("all.gz").write_bytes(b"".join(Path(f"lat.{job}.gz").read_bytes() for job in (1, 2, 10)))
    assert list(keys("all.gz")) == ALL


def test_gzip_members_may_be_padded_with_zeros_only(folder):
    member = Path("lat.1.gz").read_bytes()
    Path("padded.gz").write_bytes(member + bytes(1000) + member + bytes(3))
    assert list(keys("padded.gz")) == 2 * list(keys("lat.1.gz"))
    Path("odd.gz").write_bytes(member + b"this is not gzip")
    failures = []
    assert list(keys("odd.gz", on_error=failures.append)) == list(keys("lat.1.gz"))
    assert [str(failure) for failure in failures] == [
        f"odd.gz, byte {len(member)}: unexpected data follows the end of the gzip stream; remove the data, or "
        "copy the file again"
    ]
    Path("odd.gz").write_bytes(member + bytes(5) + member + bytes(7) + b"\x1f")
    with pytest.raises(FormatError, match=f"byte {2 * len(member) + 12}: unexpected data follows the end"):
        list(keys("odd.gz"))
    Path("odd.gz").write_bytes(member + bytes(5) + b"\x1f\x8b" + 30 * b"damage")
    with pytest.raises(FormatError, match=f"byte {len(member) + 5}: incomplete data follows the end"):
        list(keys("odd.gz"))


@pytest.mark.parametrize("read_ahead", [True, False])
def test_a_truncated_gzip_file_yields_its_complete_lattices(tmp_path, monkeypatch, read_ahead):
    import ninja.files.gzip as streams

    monkeypatch.setattr(streams, "PACKED_CHUNK", 7)
    lattices = [small(f"u{number}", words=(3, 4, number + 1)) for number in range(20)]
    write_all(tmp_path / "all.ark", lattices)
    content = (tmp_path / "all.ark").read_bytes()
    packed = gzip.compress(content)
    truncated = tmp_path / "cut.ark.gz"
    for size in range(2, len(packed), 5):
        truncated.write_bytes(packed[:size])
        failures = []
        pairs = list(read(truncated, on_error=failures.append, read_ahead=read_ahead))
        unpacked = zlib.decompressobj(wbits=31).decompress(packed[:size])
        assert len(pairs) >= sum(unpacked.find(b"u%d " % (number + 1)) > 0 for number in range(19))
        assert [key for key, _ in pairs] == [lattice.key for lattice in lattices[: len(pairs)]]
        assert [str(failure) for failure in failures] == [f"{truncated}: the gzip stream is truncated"]


def num_threads():
    """Count the threads of this process, including those not created by Python."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


@pytest.mark.parametrize("name", ["big.ark", "big.ark.gz", "big.scp"])
def test_an_abandoned_reader_ends_its_thread(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ninja.formats.kaldi.archive.num_cores", lambda: 2)
    monkeypatch.setattr("ninja.lattice.batch.CREDITS", 2)
    lattice = small("k", range(1, 400))
    write_all(
        "ark,scp:big.ark,big.scp" if name == "big.scp" else name,
        (lattice.with_key(f"k{number}") for number in range(1_000)),  # 19 MB, so that the threads are not finished
    )
    before = num_threads()
    lattices = read(name)
    assert next(lattices)[0] == "k0"
    assert num_threads() > before
    lattices.close()
    unfinished = read(name)
    next(unfinished)
    del unfinished
    read(name)  # not started
    gc.collect()
    deadline = time.monotonic() + 60
    while num_threads() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert num_threads() <= before


def test_errors_of_the_reading_thread_reach_the_caller(tmp_path, monkeypatch):
    write_all(tmp_path / "a.ark.gz", [small("k")])

    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("ninja.formats.kaldi.archive.fill", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        list(read(tmp_path / "a.ark.gz"))


@pytest.mark.parametrize("cores", [1, 2])
def test_reading_ahead_agrees_with_plain_reading(tmp_path, monkeypatch, cores):
    monkeypatch.setattr("ninja.formats.kaldi.archive.num_cores", lambda: cores)
    path = tmp_path / "mixed.ark"
    content = gzip.decompress((SAMPLE / "lat.ark.gz").read_bytes())
    path.write_bytes(content * 60 + b"bad \xd6\xfd\xb2\x7e damaged" + content)
    outcomes = []
    for read_ahead in (True, False):
        errors = []
        outcomes.append((list(read(path, on_error=errors.append, read_ahead=read_ahead)), errors))
    (pairs, (error,)), (plain_pairs, (plain_error,)) = outcomes
    assert len(pairs) == len(plain_pairs) == 180
    assert all(a.identical(b) for (_, a), (_, b) in zip(pairs, plain_pairs, strict=True))
    assert str(error) == str(plain_error)
    assert error.byte > 60 * len(content)


def test_an_entry_larger_than_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ninja.formats.kaldi.archive.LARGEST_ENTRY", 1000)
    monkeypatch.setattr("ninja.formats.kaldi.archive.CHUNK", 256)
    for name in ("a.ark", "b.ark.gz"):
        write_all(tmp_path / name, [small("k"), small("large", range(1, 2000))])
        errors = []
        assert list(keys(tmp_path / name, on_error=errors.append)) == ["k"]
        assert "the rest of this archive is not read" in str(errors[0])
        assert errors[0].byte > 0


def test_an_exception_in_the_error_handler_stops_reading(folder):
    def stop(error):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(read(["none.ark", "plain.ark"], on_error=stop))
