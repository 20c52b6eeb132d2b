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


def put(target, lattices=LATTICES, **options):
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
def test_a_target_is_understood(target, file, packed, text):
    put(target)
    content = Path(file).read_bytes()
    assert (content[:2] == b"\x1f\x8b") == packed
    content = gzip.decompress(content) if packed else content
    assert content == TEXT.encode() if text else content.startswith(b"a \xd6\xfd\xb2\x7e")
    assert all(one.identical(other) for (_, one), other in zip(read(file), LATTICES, strict=True))
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
def test_a_target_that_makes_no_sense_is_refused(target, message):
    with pytest.raises(OptionError) as caught:
        write(target)
    assert message in str(caught.value)
    assert os.listdir() == []


@pytest.mark.parametrize("target", ["ark,scp:a.ark,a.scp", "scp,ark:a.scp,a.ark", "ark,t,scp:a.ark,a.scp"])
def test_a_script_file_says_where_each_lattice_lies(target):
    put(target)
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
    put(target)
    content = stream.buffer.getvalue()
    assert content == TEXT.encode() if text else content.startswith(b"a \xd6")


def test_a_lattice_is_written_as_the_kind_asked_for():
    put("a.ark", kind="raw")
    assert [lattice.kind for _, lattice in read("a.ark")] == ["raw"] * 3
    assert next(read("a.ark"))[1].ali.tolist() == [7, 8, 9]


@pytest.mark.parametrize("target", ["a.txt", "a.ark.gz"])
def test_threads_share_a_writer(target):
    lattices = [small(str(number), labels=5000) for number in range(200)]
    with write(target) as output, ThreadPoolExecutor(4) as pool:
        list(pool.map(output.write, lattices))
    written = dict(read(target))
    assert len(written) == len(lattices)
    assert all(lattice.identical(written[lattice.key]) for lattice in lattices)


@pytest.mark.parametrize("key", ["", "a b", "a\n", "a\t"])
def test_a_key_that_could_not_be_read_back_is_refused(key):
    with pytest.raises(LatticeError, match="the key"):
        put("a.ark", [small("a").with_key(key)])
    assert os.listdir() == []


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz", "ark,scp:a.ark,a.scp"])
def test_nothing_is_left_behind_when_writing_fails(target, failure):
    Path("a.scp").write_text("old")

    def fail():
        yield small("a", 300_000)
        assert len(os.listdir()) > 1
        raise failure

    with pytest.raises(failure):
        put(target, fail())
    assert os.listdir() == ["a.scp"]
    assert Path("a.scp").read_text() == "old"


def test_the_output_may_be_the_input():
    put("a.ark")
    before = Path("a.ark").read_bytes()
    with write("a.ark") as output:
        for _, lattice in read("a.ark"):
            output.write(lattice)
            assert Path("a.ark").read_bytes() == before
    assert Path("a.ark").read_bytes() == before


@pytest.mark.parametrize("target", ["link.ark", "ark,scp:link.ark,link.scp", "link.fst"])
def test_a_link_at_the_name_of_an_output_is_replaced_and_not_followed(target, tmp_path):
    for ending in ("ark", "scp", "fst"):
        (tmp_path / f"theirs.{ending}").write_text("precious")
        os.symlink(f"theirs.{ending}", f"link.{ending}")
    put(target, LATTICES[:1])
    for each in tmp_path.glob("theirs.*"):
        assert each.read_text() == "precious"
    written = target.rpartition(",")[2]
    assert not os.path.islink(written)
    assert len(list(keys(written))) == 1


def test_the_standard_output_is_written_whatever_it_is(tmp_path):
    """/dev/stdout is a link, which is neither replaced nor the name of a temporary file."""
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
            return super().write(content[:100_000])  # files may take less than they are given

    with monkeypatch.context() as patch:
        patch.setattr(
            files_module, "open", lambda descriptor, mode, buffering: FullDisk(descriptor, "r+"), raising=False
        )
        with pytest.raises(OutputError, match=r"a\.ark: cannot be written: No space left on device"):
            put("a.ark", [small(f"k{number}", 50_000) for number in range(30)], resume=resume)
    assert os.listdir() == ([".a.ark.part"] if resume else [])
    with write("a.ark", resume=True) as output:
        assert len(output.keys_done) == (5 if resume else 0)


@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz", "a.txt", "a.txt.gz", "ark,scp:a.ark,a.scp"])
def test_an_interrupted_output_is_taken_up_again(target, monkeypatch):
    monkeypatch.setattr("ninja.files.gzip.MEMBER", 2000)
    monkeypatch.setattr("ninja.formats.kaldi.archive.FLUSH", 1000)
    everything = [small(f"k{number}", 40 + number) for number in range(60)]

    def interrupted():
        yield from everything[:25]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put(target, interrupted(), resume=True)
    (part,) = [name for name in os.listdir() if name.endswith(".part")]
    assert len(os.listdir()) == 1
    with open(part, "ab") as stream:
        stream.write(b"k25 \xd6\xfd\xb2\x7e\x06\0" if "txt" not in target else b"k25 \n0\t1")  # the machine went down
    with write(target, resume=True) as output:
        assert set(output.keys_done) == {f"k{number}" for number in range(25)}
        for lattice in everything:
            if lattice.key not in output.keys_done:
                output.write(lattice)
    put(f"whole-{target}" if ":" not in target else "ark,scp:whole.ark,whole.scp", everything)
    name = "a.ark" if ":" in target else target
    whole = Path("whole.ark" if ":" in target else f"whole-{target}").read_bytes()
    content = Path(name).read_bytes()
    assert gzip.decompress(content) == gzip.decompress(whole) if name.endswith(".gz") else content == whole
    if ":" in target:
        assert Path("a.scp").read_text() == Path("whole.scp").read_text().replace("whole", "a")
    with write(target, resume=True) as output:  # all is there already
        assert len(output.keys_done) == 60
    assert Path(name).read_bytes()[: len(content)] == content
    assert list(keys(name)) == [lattice.key for lattice in everything]


@pytest.mark.parametrize("cut", [1, 40, 100, 1000, 2500])
@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz", "a.txt"])
def test_an_output_cut_anywhere_is_taken_up_again(target, cut, monkeypatch):
    monkeypatch.setattr("ninja.files.gzip.MEMBER", 500)
    monkeypatch.setattr("ninja.formats.kaldi.archive.FLUSH", 300)
    everything = [small(f"k{number}", 40 + number) for number in range(20)]
    put(target, everything)
    content = Path(target).read_bytes()
    os.remove(target)
    Path(f".{target}.part").write_bytes(content[: len(content) - cut])
    with write(target, resume=True) as output:
        assert len(output.keys_done) < 20 + target.endswith(".gz")  # of the last member only its checksum may lack
        for lattice in everything:
            if lattice.key not in output.keys_done:
                output.write(lattice)
    assert all(one.identical(other) for (_, one), other in zip(read(target), everything, strict=True))


def test_a_damaged_output_is_not_appended_to():
    put("a.ark")
    content = Path("a.ark").read_bytes()
    Path("a.ark").write_bytes(content[:-3])
    with pytest.raises(FormatError, match=r"a\.ark: cannot be resumed"):
        put("a.ark", resume=True)
    assert os.listdir() == ["a.ark"]
    with pytest.raises(OptionError, match="specify a file"):
        put("-", resume=True)


def test_lattices_of_a_gzip_member_that_was_broken_off_are_kept(monkeypatch):
    monkeypatch.setattr("ninja.formats.kaldi.archive.FLUSH", 300)
    everything = [small(f"k{number}", 400 + number) for number in range(200)]
    put("whole.ark.gz", everything)
    content = Path("whole.ark.gz").read_bytes()  # one member
    Path(".a.ark.gz.part").write_bytes(content[: len(content) // 2])
    with write("a.ark.gz", resume=True) as output:
        kept = len(output.keys_done)
        assert 50 < kept < 150
        found = re.fullmatch(
            r"(.*): resuming after (\d+) lattices of an earlier attempt; discarded (\d+) bytes .*", output.resumed
        )
        assert (os.path.basename(found[1]), int(found[2])) == (".a.ark.gz.part", kept)
        assert 0 < int(found[3]) < 10_000
        for lattice in everything[kept:]:
            output.write(lattice)
    assert gzip.decompress(Path("a.ark.gz").read_bytes()) == gzip.decompress(content)


@pytest.mark.parametrize("target", ["a.ark", "a.ark.gz"])
def test_an_output_to_be_resumed_is_kept_as_time_passes(target, monkeypatch):
    monkeypatch.setattr("ninja.io.resume.CHECKPOINT_INTERVAL", 0.0)
    with write(target, resume=True) as output:
        for number in range(5):
            output.write(small(f"k{number}"))
            Path(f"copy-{target}").write_bytes(Path(f".{target}.part").read_bytes())
            assert len(list(keys(f"copy-{target}"))) == number + 1


def test_entries_before_damage_are_kept_as_far_as_they_are_written_again(monkeypatch):
    everything = [small(f"k{number}", 40) for number in range(60)]
    put("whole.ark", everything)
    content = bytearray(Path("whole.ark").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40] = b"\xff" * 40
    Path(".a.ark.part").write_bytes(content)
    with write("a.ark", resume=True) as output:
        for lattice in everything:
            if lattice.key not in output.keys_done:
                output.write(lattice)
    assert Path("a.ark").read_bytes() == Path("whole.ark").read_bytes()


@pytest.mark.parametrize("first", [["--resume"], []])
def test_a_killed_run_goes_on_where_it_was(first, tmp_path):
    draw = random.Random(1)  # else a hundred of them would be a few bytes
    labels = [[draw.randrange(1 << 24) for _ in range(4000)] for _ in range(100)]
    everything = [
        Lattice.from_arrays(f"k{number}", [0, 1, 1], [1], [3], [1.5], [2.0], [INF, 0.5], ali_begin=[0, 4000], ali=each)
        for number, each in enumerate(labels)
    ]
    put("whole.ark", everything)
    line = [sys.executable, "-m", "ninja", "prune", "-", "--beam", "1000", "-o", "a.ark.gz", *first]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as run:
        run.stdin.write(Path("whole.ark").read_bytes())
        run.stdin.flush()
        until = time.monotonic() + 60
        while not os.path.isfile(".a.ark.gz.part") or os.path.getsize(".a.ark.gz.part") < 700_000:
            assert time.monotonic() < until
            time.sleep(0.02)
        run.kill()
    line = [sys.executable, "-m", "ninja", "prune", "-", "--beam", "1000", "-o", "a.ark.gz", "--resume"]
    with open("whole.ark", "rb") as whole:
        errors = subprocess.run(line, stdin=whole, stderr=subprocess.PIPE, text=True, check=True).stderr
    (kept,) = re.findall(r"part: resuming after (\d+) lattices of an earlier attempt", errors)
    assert int(kept) > 10
    assert f"skipped {kept} lattices that are already in the output" in errors
    found = list(read("a.ark.gz"))
    assert all(one.identical(other) for (_, one), other in zip(found, everything, strict=True))


def test_the_words_of_an_output_may_be_a_path():
    Path("words.txt").write_text("<eps> 0\nzero 1\none 2\ntwo 3\n")
    put("a.jsonl", LATTICES[:1], words="words.txt")
    assert '"two"' in Path("a.jsonl").read_text()
