"""The targets that ``ninja.write`` accepts; outputs are written completely or not at all."""

import gzip
import io
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lattice_files import write_all

from ninja.errors import FormatError, LatticeError, OptionError, OutputError
from ninja.files import output as files_module
from ninja.io import keys, read, write
from ninja.lattice import Lattice

pytestmark = pytest.mark.usefixtures("folder")

INF = float("inf")


def small(key, labels=3):
    return Lattice.from_arrays(
        key, [0, 1, 1], [1], [3], [1.5], [2.0], [INF, 0.5], ali_begin=[0, labels], ali=range(7, 7 + labels)
    )


LATTICES = [small("a"), small("b"), small("c")]
TEXT = "".join(f"{key} \n0\t1\t3\t1.5,2,7_8_9\n1\t0.5,0,\n\n" for key in "abc")


def write_target(target, lattices=LATTICES, **options):
    write_all(target, lattices, **options)


@pytest.mark.parametrize(
    ("target", "file", "packed", "text"),
    [
        ("a.ark", "a.ark", False, False),
        (Path("a.ark"), "a.ark", False, False),
        ("ark:a.ark", "a.ark", False, False),
        ("ark,f:a.ark", "a.ark", False, False),
        ("lat.1.gz", "lat.1.gz", True, False),
        ("ark:lat.1.gz", "lat.1.gz", True, False),
        ("ark:| gzip -c > lat.1.gz", "lat.1.gz", True, False),
        ("ark:|gzip -c >lat.1.gz", "lat.1.gz", True, False),
        ("ark,t:a", "a", False, True),
        ("ark,t:|gzip -c>a.gz", "a.gz", True, True),
        ("a.txt", "a.txt", False, True),
        ("a.txt.gz", "a.txt.gz", True, True),
    ],
)
def test_every_form_of_target_is_written(target, file, packed, text):
    write_target(target)
    content = Path(file).read_bytes()
    assert (content[:2] == b"\x1f\x8b") == packed
    content = gzip.decompress(content) if packed else content
    assert content == TEXT.encode() if text else content.startswith(b"a \xd6\xfd\xb2\x7e")
    assert all(lattice.identical(expected) for (_, lattice), expected in zip(read(file), LATTICES, strict=True))
    assert os.listdir() == [file]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ark,x:a", "unknown option 'x'"),
        ("scp:a", "expected ark:FILE, or"),
        ("ark,scp:a.ark", "must specify two files"),
        ("ark,scp:a.gz,a.scp", "requires an uncompressed archive"),
        ("ark,scp:-,a.scp", "requires an uncompressed archive"),
        ("ark,scp:a\nb.ark,a.scp", r"with a one-line name, not 'a\nb.ark'"),
        ("scp,ark:a.scp,|a", "requires an uncompressed archive"),
        ("ark,scp:a,a", "must have a different name from the archive"),
        ("ark:| lattice-copy ark:- ark:-", "supported output command is '| gzip -c > FILE'"),
        ("ark:| gzip -c > a; rm b", "supported output command is '| gzip -c > FILE'"),
        ("| cat", "commands are not run"),
        (".", "is a folder; add a file name"),
        ("", "is not a file name"),
    ],
)
def test_an_invalid_target_is_refused(target, message):
    with pytest.raises(OptionError) as caught:
        write(target)
    assert message in str(caught.value)
    assert os.listdir() == []


@pytest.mark.parametrize("target", ["ark,scp:a.ark,a.scp", "scp,ark:a.scp,a.ark", "ark,t,scp:a.ark,a.scp"])
def test_a_script_file_has_the_offset_of_each_lattice(target):
    write_target(target)
    assert [line.split()[0] for line in Path("a.scp").read_text().splitlines()] == ["a", "b", "c"]
    for line in Path("a.scp").read_text().splitlines():
        name, _, offset = line.split()[1].rpartition(":")
        assert name == "a.ark"
        assert Path(name).read_bytes()[int(offset) : int(offset) + 1] == (b"\n" if ",t" in target else b"\xd6")
    assert list(keys("scp:a.scp")) == ["a", "b", "c"]


@pytest.mark.parametrize(("target", "text"), [("-", False), ("ark:-", False), ("ark,t:-", True), ("ark,t:", True)])
def test_the_standard_output_is_written(target, text, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    write_target(target)
    content = stream.buffer.getvalue()
    assert content == TEXT.encode() if text else content.startswith(b"a \xd6")


def test_lattices_are_written_in_the_requested_kind():
    write_target("a.ark", kind="raw")
    assert [lattice.kind for _, lattice in read("a.ark")] == ["raw"] * 3
    assert next(read("a.ark"))[1].ali.tolist() == [7, 8, 9]


@pytest.mark.parametrize("target", ["a.txt", "a.ark.gz"])
def test_threads_share_a_writer(target):
    lattices = [small(str(number), labels=5000) for number in range(200)]
    with write(target) as output, ThreadPoolExecutor(4) as pool:
        list(pool.map(output.write, lattices))
    lattices_read = dict(read(target))
    assert len(lattices_read) == len(lattices)
    assert all(lattice.identical(lattices_read[lattice.key]) for lattice in lattices)


@pytest.mark.parametrize("key", ["", "a b", "a\n", "a\t"])
def test_a_key_that_could_not_be_read_back_is_refused(key):
    with pytest.raises(LatticeError, match="the key"):
        write_target("a.ark", [small("a").with_key(key)])
    assert os.listdir() == []


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz", "ark,scp:a.ark,a.scp"])
def test_no_file_remains_when_writing_fails(target, failure):
    Path("a.scp").write_text("old")

    def fail():
        yield small("a", 300_000)
        assert len(os.listdir()) > 1
        raise failure

    with pytest.raises(failure):
        write_target(target, fail())
    assert os.listdir() == ["a.scp"]
    assert Path("a.scp").read_text() == "old"


def test_the_output_may_be_the_input():
    write_target("a.ark")
    before = Path("a.ark").read_bytes()
    with write("a.ark") as output:
        for _, lattice in read("a.ark"):
            output.write(lattice)
            assert Path("a.ark").read_bytes() == before
    assert Path("a.ark").read_bytes() == before


@pytest.mark.parametrize("target", ["link.ark", "ark,scp:link.ark,link.scp", "link.fst"])
def test_a_symbolic_link_at_the_output_path_is_replaced(target, tmp_path):
    for ending in ("ark", "scp", "fst"):
        (tmp_path / f"target.{ending}").write_text("precious")
        os.symlink(f"target.{ending}", f"link.{ending}")
    write_target(target, LATTICES[:1])
    for link_target in tmp_path.glob("target.*"):
        assert link_target.read_text() == "precious"
    path = target.rpartition(",")[2]
    assert not os.path.islink(path)
    assert len(list(keys(path))) == 1


def test_dev_stdout_redirected_to_a_file_is_written(tmp_path):
    """/dev/stdout is a symbolic link; it is not replaced, and no temporary file is named after it."""
    script = """
import ninja
from ninja.graph import from_arcs
with ninja.write('/dev/stdout') as output:
    output.write(from_arcs('k', [0], [1], [1], [1.0], finals={1: 0.0}))
"""
    with open("out.ark", "wb") as stdout:
        root = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": root}
        subprocess.run([sys.executable, "-c", script], stdout=stdout, env=environment, check=True)
    assert list(keys("out.ark")) == ["k"]
    assert os.listdir() == ["out.ark"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_full_disk_is_an_output_error_and_leaves_no_output(monkeypatch, resume):
    class FullDisk(io.FileIO):
        def write(self, content):
            if self.tell() > 1 << 20:
                raise OSError(28, "No space left on device")
            return super().write(content[:100_000])  # a write may be short

    with monkeypatch.context() as patch:
        patch.setattr(
            files_module, "open", lambda descriptor, mode, buffering: FullDisk(descriptor, "r+"), raising=False
        )
        with pytest.raises(OutputError, match=r"a\.ark: cannot be written: No space left on device"):
            write_target("a.ark", [small(f"k{number}", 50_000) for number in range(30)], resume=resume)
    assert os.listdir() == ([".a.ark.part"] if resume else [])
    with write("a.ark", resume=True) as output:
        assert len(output.keys_done) == (5 if resume else 0)


@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz", "a.txt", "a.txt.gz", "ark,scp:a.ark,a.scp"])
def test_an_interrupted_output_is_resumed(target, monkeypatch):
    monkeypatch.setattr("ninja.files.gzip.MEMBER", 2000)
    monkeypatch.setattr("ninja.formats.kaldi.archive.FLUSH", 1000)
    lattices = [small(f"k{number}", 40 + number) for number in range(60)]

    def interrupted_source():
        yield from lattices[:25]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_target(target, interrupted_source(), resume=True)
    (part,) = [name for name in os.listdir() if name.endswith(".part")]
    assert len(os.listdir()) == 1
    with open(part, "ab") as stream:
        stream.write(b"k25 \xd6\xfd\xb2\x7e\x06\0" if "txt" not in target else b"k25 \n0\t1")  # as after a crash
    with write(target, resume=True) as output:
        assert set(output.keys_done) == {f"k{number}" for number in range(25)}
        for lattice in lattices:
            if lattice.key not in output.keys_done:
                output.write(lattice)
    write_target(f"whole-{target}" if ":" not in target else "ark,scp:whole.ark,whole.scp", lattices)
    name = "a.ark" if ":" in target else target
    whole = Path("whole.ark" if ":" in target else f"whole-{target}").read_bytes()
    content = Path(name).read_bytes()
    assert gzip.decompress(content) == gzip.decompress(whole) if name.endswith(".gz") else content == whole
    if ":" in target:
        assert Path("a.scp").read_text() == Path("whole.scp").read_text().replace("whole", "a")
    with write(target, resume=True) as output:  # the output is already complete
        assert len(output.keys_done) == 60
    assert Path(name).read_bytes()[: len(content)] == content
    assert list(keys(name)) == [lattice.key for lattice in lattices]


@pytest.mark.parametrize("cut", [1, 40, 100, 1000, 2500])
@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz", "a.txt"])
def test_a_truncated_output_is_resumed(target, cut, monkeypatch):
    monkeypatch.setattr("ninja.files.gzip.MEMBER", 500)
    monkeypatch.setattr("ninja.formats.kaldi.archive.FLUSH", 300)
    lattices = [small(f"k{number}", 40 + number) for number in range(20)]
    write_target(target, lattices)
    content = Path(target).read_bytes()
    os.remove(target)
    Path(f".{target}.part").write_bytes(content[: len(content) - cut])
    with write(target, resume=True) as output:
        # Of a gzip file, only the checksum of the last member may be missing.
        assert len(output.keys_done) < 20 + target.endswith(".gz")
        for lattice in lattices:
            if lattice.key not in output.keys_done:
                output.write(lattice)
    assert all(lattice.identical(expected) for (_, lattice), expected in zip(read(target), lattices, strict=True))


def test_a_damaged_output_is_not_appended_to():
    write_target("a.ark")
    content = Path("a.ark").read_bytes()
    Path("a.ark").write_bytes(content[:-3])
    with pytest.raises(FormatError, match=r"a\.ark: cannot be resumed"):
        write_target("a.ark", resume=True)
    assert os.listdir() == ["a.ark"]
    with pytest.raises(OptionError, match="specify a file"):
        write_target("-", resume=True)


def test_lattices_of_a_truncated_gzip_member_are_kept(monkeypatch):
    monkeypatch.setattr("ninja.formats.kaldi.archive.FLUSH", 300)
    lattices = [small(f"k{number}", 400 + number) for number in range(200)]
    write_target("whole.ark.gz", lattices)
    content = Path("whole.ark.gz").read_bytes()  # a single gzip member
    Path(".a.ark.gz.part").write_bytes(content[: len(content) // 2])
    with write("a.ark.gz", resume=True) as output:
        num_kept = len(output.keys_done)
        assert 50 < num_kept < 150
        note = re.fullmatch(
            r"(.*): resuming after (\d+) lattices of an earlier attempt; discarded (\d+) bytes .*", output.resumed
        )
        assert (os.path.basename(note[1]), int(note[2])) == (".a.ark.gz.part", num_kept)
        assert 0 < int(note[3]) < 10_000
        for lattice in lattices[num_kept:]:
            output.write(lattice)
    assert gzip.decompress(Path("a.ark.gz").read_bytes()) == gzip.decompress(content)


@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz"])
def test_a_resumable_output_is_flushed_at_each_checkpoint(target, monkeypatch):
    monkeypatch.setattr("ninja.io.resume.CHECKPOINT_INTERVAL", 0.0)
    with write(target, resume=True) as output:
        for number in range(5):
            output.write(small(f"k{number}"))
            Path(f"copy-{target}").write_bytes(Path(f".{target}.part").read_bytes())
            assert len(list(keys(f"copy-{target}"))) == number + 1


def test_a_damaged_partial_output_is_resumed_before_the_damage(monkeypatch):
    lattices = [small(f"k{number}", 40) for number in range(60)]
    write_target("whole.ark", lattices)
    content = bytearray(Path("whole.ark").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40] = b"\xff" * 40
    Path(".a.ark.part").write_bytes(content)
    with write("a.ark", resume=True) as output:
        for lattice in lattices:
            if lattice.key not in output.keys_done:
                output.write(lattice)
    assert Path("a.ark").read_bytes() == Path("whole.ark").read_bytes()


@pytest.mark.parametrize("first", [["--resume"], []])
def test_a_killed_run_is_resumed(first, tmp_path):
    generator = random.Random(1)  # random labels, which gzip can hardly compress
    labels = [[generator.randrange(1 << 24) for _ in range(4000)] for _ in range(100)]
    lattices = [
        Lattice.from_arrays(f"k{number}", [0, 1, 1], [1], [3], [1.5], [2.0], [INF, 0.5], ali_begin=[0, 4000], ali=ali)
        for number, ali in enumerate(labels)
    ]
    write_target("whole.ark", lattices)
    command = [sys.executable, "-m", "ninja", "prune", "-", "--beam", "1000", "-o", "a.ark.gz", *first]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as run:
        run.stdin.write(Path("whole.ark").read_bytes())
        run.stdin.flush()
        deadline = time.monotonic() + 60
        while not os.path.isfile(".a.ark.gz.part") or os.path.getsize(".a.ark.gz.part") < 700_000:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        run.kill()
    command = [sys.executable, "-m", "ninja", "prune", "-", "--beam", "1000", "-o", "a.ark.gz", "--resume"]
    with open("whole.ark", "rb") as whole:
        errors = subprocess.run(command, stdin=whole, stderr=subprocess.PIPE, text=True, check=True).stderr
    (num_kept,) = re.findall(r"part: resuming after (\d+) lattices of an earlier attempt", errors)
    assert int(num_kept) > 10
    assert f"skipped {num_kept} lattices that are already in the output" in errors
    pairs = list(read("a.ark.gz"))
    assert all(lattice.identical(expected) for (_, lattice), expected in zip(pairs, lattices, strict=True))


def test_write_accepts_the_path_of_a_symbol_table_as_words():
    Path("words.txt").write_text("<eps> 0\nzero 1\none 2\ntwo 3\n")
    write_target("a.jsonl", LATTICES[:1], words="words.txt")
    assert '"two"' in Path("a.jsonl").read_text()
