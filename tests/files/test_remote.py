"""Files with URLs: memory:// of fsspec, and s3:// with the server of moto if the extra test-cloud is installed."""

import gzip
import io
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all

import ninja as package
from ninja.errors import DependencyError, InputError, OptionError, OutputError, StoreError
from ninja.files import remote
from ninja.files.remote import RemoteFile
from ninja.files.stream import Guard, Place, is_remote, open_stream
from ninja.io.inputs import Inputs

fsspec = pytest.importorskip("fsspec")  # installed with torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ARCHIVE = EXAMPLES / "lat.ark.gz"
PRUNE = ("prune", "--beam", 6, "--acoustic-scale", 0.1)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Create a separate folder for incomplete outputs."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"ninja-{os.getuid()}"


@pytest.fixture
def memory():
    """Return the file system of memory:// with the example lattices and symbol table in the folder in/."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    for name in ("lat.ark.gz", "words.txt"):
        system.pipe_file(f"/in/{name}", (EXAMPLES / name).read_bytes())
    yield system
    system.store.clear()


@pytest.fixture
def pruned(ninja, tmp_path):
    """Return the bytes of the pruned example archive, made with local files."""
    assert ninja(*PRUNE, ARCHIVE, "-o", tmp_path / "pruned.ark")[0] == 0
    return (tmp_path / "pruned.ark").read_bytes()


def interrupt_writing(target):
    """Write several lattices to a target and raise an exception before the end."""

    def lattices():
        yield from (lattice for _, lattice in package.read(ARCHIVE))
        raise RuntimeError

    with pytest.raises(RuntimeError), package.write(target) as output:  # noqa: PT012
        for lattice in lattices():
            output.write(lattice)


def test_urls_are_distinguished_from_paths_and_specifiers():
    assert all(map(is_remote, ("s3://b/x", "gs://b/x", "hdfs://host:9000/x", "memory://x")))
    assert not any(map(is_remote, ("lat.ark", "/s3:/x", "ark:x", "C://x", "s3://", "file:///x", "ark,scp:s3://b/x")))


def test_urls_are_read_and_written_like_files(ninja, memory, pruned, scratch):
    assert ninja(*PRUNE, "memory://in/lat.ark.gz", "-o", "memory://out/p.ark")[0] == 0
    assert memory.cat_file("/out/p.ark") == pruned
    assert ninja(*PRUNE, "ark:gunzip -c memory://in/lat.ark.gz |", "-o", "ark:memory://out/q.ark")[0] == 0
    assert memory.cat_file("/out/q.ark") == pruned
    assert os.listdir(scratch) == []


def test_url_patterns_and_folders_are_read_and_written(ninja, memory, pruned):
    for number in (10, 2):
        memory.pipe_file(f"/many/lat.{number}.gz", ARCHIVE.read_bytes())
    memory.pipe_file("/many/README.md", b"about them")
    memory.pipe_file("/many/.lat.3.gz", b"hidden")
    assert ninja(*PRUNE, "memory://many/lat.JOB.gz", "-o", "memory://out/p.JOB.ark")[0] == 0
    assert sorted(memory.ls("/out", detail=False)) == ["/out/p.10.ark", "/out/p.2.ark"]
    assert ninja(*PRUNE, "memory://many/", "-o", "memory://outs/")[0] == 0
    assert gzip.decompress(memory.cat_file("/outs/lat.10.gz")) == pruned
    assert ninja(*PRUNE, "memory://many/", "-o", "memory://out/all.ark")[0] == 0
    assert memory.cat_file("/out/all.ark") == 2 * pruned
    names = [table.place.path for table in package.io.sources.tables("memory://many/lat.*.gz")]
    assert names == ["memory:///many/lat.2.gz", "memory:///many/lat.10.gz"]
    with pytest.raises(InputError, match="no file matches"):
        list(package.read("memory://many/none.*.gz"))


def test_a_byte_range_has_the_identity_of_its_file(memory):
    memory.pipe_file("/in/lat.ark", bytes(100))
    for place in (Place("memory://in/lat.ark"), Place("memory:///in/lat.ark", offset=10, end=20)):
        with open_stream(place) as stream:
            assert stream.identity == "memory:///in/lat.ark"
            assert not stream.is_local


def test_a_script_file_of_urls_is_written_and_read_with_its_offsets(ninja, memory, pruned):
    assert ninja(*PRUNE, ARCHIVE, "-o", "ark,scp:memory://out/p.ark,memory://out/p.scp")[0] == 0
    lines = memory.cat_file("/out/p.scp").decode().splitlines()
    assert lines[1].split()[1].startswith("memory://out/p.ark:")
    memory.pipe_file("/out/turned.scp", "\n".join(reversed(lines)).encode())
    lattices = [lattice for _, lattice in package.read("memory://out/turned.scp")]
    for lattice, (_, expected) in zip(reversed(lattices), package.read("memory://out/p.ark"), strict=True):
        assert lattice.identical(expected)


def test_a_list_of_urls_is_read_with_a_symbol_table_url(ninja, memory):
    memory.pipe_file("/in/list.txt", b"memory://in/lat.ark.gz\n")
    expected = ninja("best", ARCHIVE, "--words", EXAMPLES / "words.txt")
    assert ninja("best", "memory://in/list.txt", "--words", "memory://in/words.txt") == expected
    assert ninja("convert", "memory://in/lat.ark.gz", "-o", "memory://out/slf/", "--to", "slf")[0] == 0
    assert len(memory.ls("/out/slf")) == len(list(package.read(ARCHIVE)))


def test_memory_mapped_formats_are_read_from_urls(ninja, memory, pruned):
    pytest.importorskip("pyarrow")
    assert ninja("convert", "memory://in/lat.ark.gz", "-o", "memory://out/a.arrow")[0] == 0
    assert ninja(*PRUNE, "memory://out/a.arrow", "-o", "memory://out/p.ark")[0] == 0
    assert memory.cat_file("/out/p.ark") == pruned


@pytest.mark.parametrize("output", ["memory://in/lat.ark.gz", "memory:///in/lat.ark.gz"])
def test_url_outputs_do_not_replace_inputs(ninja, memory, output):
    for source in ("memory://in/lat.ark.gz", "memory://in/", "memory://in/list"):
        memory.pipe_file("/in/list", b"memory://in/lat.ark.gz\n")
        code, _, errors = ninja(*PRUNE, source, "-o", output)
        assert (code, "is an input and would be overwritten" in errors) == (2, True)
    guard = Guard()  # the input is known only after reading
    list(Inputs("memory://in/lat.ark.gz", guard=guard).lattices())
    with pytest.raises(OptionError, match="would be overwritten"), package.write(output, guard=guard):
        pass
    assert memory.cat_file("/in/lat.ark.gz") == ARCHIVE.read_bytes()


def test_an_exception_uploads_nothing(memory, scratch):
    interrupt_writing("memory://out/a.ark")
    assert not memory.exists("/out/a.ark")
    assert os.listdir(scratch) == []


def test_an_upload_that_fails_keeps_the_local(memory, pruned, scratch, monkeypatch, ninja):
    memory.pipe_file("/out/p.ark", b"before")

    def fail_halfway(path, name):
        memory.pipe_file(name, Path(path).read_bytes()[:100])
        raise PermissionError(13, "Forbidden")

    monkeypatch.setattr(memory, "put_file", fail_halfway)
    code, _, errors = ninja(*PRUNE, ARCHIVE, "-o", "memory://out/p.ark")
    (local,) = scratch.iterdir()
    assert code == 1
    assert f"memory://out/p.ark: cannot be written: Forbidden; the complete file is {local} on this machine" in errors
    assert local.read_bytes() == pruned
    assert memory.cat_file("/out/p.ark") == b"before"
    assert memory.ls("/out", detail=False) == ["/out/p.ark"]


@pytest.mark.parametrize("renames_onto", [True, False])
@pytest.mark.parametrize("fails_at", [None, 0, 1, 2, 3])
def test_the_old_object_exists_until_it_is_replaced(memory, scratch, monkeypatch, renames_onto, fails_at):
    old, new = b"before", b"after"
    memory.pipe_file("/out/p.ark", old)
    renames = []
    move = type(memory).mv

    def mv(first, second):
        renames.append(second)
        if len(renames) - 1 == fails_at:
            raise ConnectionResetError(104, "Connection reset by peer")
        if memory.exists(second) and not renames_onto:
            raise FileExistsError(17, "File exists", second)
        assert any(memory.cat_file(name) == old for name in memory.find("/out"))  # the old object is never missing
        move(memory, first, second)

    monkeypatch.setattr(memory, "mv", mv)
    error = None
    try:
        with package.files.output.opened("memory://out/p.ark") as file:
            file.write(new)
    except OutputError as failure:
        error = failure
    if error is None:
        assert memory.cat_file("/out/p.ark") == new
        assert memory.find("/out") == ["/out/p.ark"]
    else:
        assert str(error).startswith("memory://out/p.ark: cannot be written: ")
        (local,) = scratch.iterdir()
        assert local.read_bytes() == new
    assert old in [memory.cat_file(name) for name in memory.find("/out")] or memory.cat_file("/out/p.ark") == new


def test_a_key_with_a_chained_url_is_refused_as_file_name(memory, ninja, tmp_path):
    words = package.SymbolTable([("<eps>", 0), ("one", 1)])
    write_all(
        tmp_path / "in.ark",
        (
            package.graph.from_arcs(key, [0], [1], [1], [1.0], finals={1: 0.0}).with_words(words)
            for key in ("good", "bad::memory:", "file::memory:")
        ),
        words=words,
    )
    code, _, errors = ninja("convert", tmp_path / "in.ark", "--to", "slf", "-o", "memory://out/slf/")
    assert code == 1
    assert "memory://out/slf/, key 'bad::memory:': the key is not a valid file name" in errors
    assert memory.find("/out") == ["/out/slf/good.slf"]


def test_a_failed_download_ends_the_run_without_an_upload(memory, monkeypatch, ninja):
    monkeypatch.setattr(remote, "FIRST_RANGE", 1 << 12)
    monkeypatch.setattr(remote, "LARGEST_RANGE", 1 << 12)
    cat_file = memory.cat_file

    def disconnect(name, start=None, end=None):
        if start and start > 1 << 15:
            raise ConnectionResetError(104, "Connection reset by peer")
        return cat_file(name, start=start, end=end)

    monkeypatch.setattr(memory, "cat_file", disconnect)
    code, _, errors = ninja(*PRUNE, "memory://in/lat.ark.gz", "-o", "memory://out/p.ark")
    assert (code, memory.exists("/out/p.ark")) == (1, False)
    assert "memory://in/lat.ark.gz: cannot be read: Connection reset by peer" in errors
    monkeypatch.setattr(memory, "cat_file", lambda name, start, end: cat_file(name, start=start, end=end)[:-1])
    with pytest.raises(StoreError, match="perhaps because it was overwritten; run the command again"):
        package.SymbolTable.read("memory://in/words.txt")


def test_a_remote_file_overwritten_during_reading_is_refused(memory, monkeypatch):
    monkeypatch.setattr(remote, "FIRST_RANGE", 64)
    with open_stream(Place("memory://in/words.txt")) as stream:
        size = len(stream.head(100))
        memory.pipe_file("/in/words.txt", memory.cat_file("/in/words.txt"))
        with pytest.raises(StoreError, match=r"^memory://in/words.txt: was overwritten while it was being read"):
            stream.rest()
    assert size == 100


def test_the_state_of_a_remote_file_is_not_asked_for_each_range(memory, monkeypatch):
    monkeypatch.setattr(remote, "FIRST_RANGE", 1 << 10)
    monkeypatch.setattr(remote, "LARGEST_RANGE", 1 << 10)
    memory.pipe_file("/in/zeros", bytes(100 << 10))
    calls = []
    info = memory.info
    monkeypatch.setattr(memory, "info", lambda name, **options: calls.append(name) or info(name, **options))
    with open_stream(Place("memory://in/zeros")) as stream:
        assert stream.rest() == bytes(100 << 10)
    assert len(calls) == 8  # when it is opened, after 2, 4, …, 64 ranges, and at the end


def test_a_remote_file_overwritten_between_two_offsets_is_refused(memory, monkeypatch):
    monkeypatch.setattr(remote, "FIRST_RANGE", 8)
    memory.pipe_file("/in/zeros", bytes(1000))
    with remote.RemoteFile("memory://in/zeros") as stream:
        for offset in (0, 100, 200):
            stream.seek(offset)
            assert stream.read(4) == bytes(4)
        memory.pipe_file("/in/zeros", bytes(1000))
        stream.seek(300)
        with pytest.raises(StoreError, match="was overwritten while it was being read"):
            stream.read(4)


def test_a_folder_url_without_slash_is_refused(ninja, memory):
    for arguments in (["memory://in"], ["memory://in/lat.ark.gz", "--words", "memory://in"]):
        code, _, errors = ninja("best", *arguments)
        assert (code, "memory://in: is a folder, not a file; append /" in errors) == (1, True)
    assert ninja("best", "memory://in/")[0] == 0


def test_missing_files_protocols_and_packages_are_named_in_errors(memory, monkeypatch):
    with pytest.raises(InputError, match=r"^memory://in/x.gz: cannot be read: no such file or bucket$"):
        list(package.read("memory://in/x.gz"))
    for url in ("no1://in/x.gz", "ftp://host/x", "http://host/x", "reference://x::data:;base64,e30="):
        with pytest.raises(OptionError, match=r"is not supported; use abfs://|chained URLs"):
            list(package.read(url))
    with pytest.raises(OptionError, match=r"chained URLs \(::\) are not supported"):
        package.write("s3://bucket/a::b.ark").__enter__()
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(DependencyError, match=r"gs:// requires gcsfs.*pip install 'ninja-asr\[cloud\]'"):
        list(package.read("gs://in/x.gz"))
    with pytest.raises(DependencyError, match=r"gs:// requires gcsfs"):
        package.write("gs://in/x.gz").__enter__()
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(DependencyError, match=r"s3:// requires fsspec.*pip install 'ninja-asr\[cloud\]'"):
        list(package.read("s3://in/x.gz"))


def test_a_temporary_folder_of_another_user_is_refused(monkeypatch, memory):
    monkeypatch.setattr(os, "getuid", lambda: os.stat("/").st_uid + 1)
    with pytest.raises(OutputError, match="belongs to another user; set TMPDIR"):
        remote.part_of("memory://out/x")


@given(
    size=st.integers(0, 300),
    steps=st.lists(st.tuples(st.none() | st.integers(0, 400), st.integers(0, 120)), max_size=12),
    first=st.integers(1, 40),
)
def test_range_requests_return_the_bytes_of_the_file(size, steps, first):
    content = bytes(number % 251 for number in range(size))
    fsspec.filesystem("memory").pipe_file("/ranges", content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "FIRST_RANGE", first)
        patch.setattr(remote, "LARGEST_RANGE", 3 * first)
        remote_file, expected = RemoteFile("memory://ranges"), io.BytesIO(content)
        for offset, count in steps:
            if offset is not None:
                remote_file.seek(offset)
                expected.seek(offset)
            content_read = b""
            while len(content_read) < count and (chunk := remote_file.read(count - len(content_read))):
                content_read += chunk
            assert content_read == expected.read(count)


# The following tests need the extra test-cloud.


@pytest.fixture(scope="module")
def server():
    """Start an S3 server in this process and return its address."""
    moto = pytest.importorskip("moto.server", reason="the extra test-cloud is not installed")
    pytest.importorskip("s3fs", reason="the extra test-cloud is not installed")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    """Create a bucket with the example files, and set the environment of programs that access it."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    system = fsspec.filesystem("s3")
    system.mkdir("bucket")
    for name in ("lat.ark.gz", "words.txt"):
        system.pipe_file(f"bucket/in/{name}", (EXAMPLES / name).read_bytes())
    yield system
    system.rm("bucket", recursive=True)


def test_lattices_are_read_and_written_through_s3(ninja, bucket, pruned, scratch):
    assert ninja(*PRUNE, "s3://bucket/in/lat.ark.gz", "-o", "s3://bucket/out/p.ark")[0] == 0
    assert bucket.cat_file("bucket/out/p.ark") == pruned
    bucket.call_s3("put_object", Bucket="bucket", Key="in/", Body=b"")  # cloud consoles create folders like this
    assert ninja(*PRUNE, "s3://bucket/in/", "-o", "s3://bucket/outs/")[0] == 0
    assert gzip.decompress(bucket.cat_file("bucket/outs/lat.ark.gz")) == pruned
    code, _, errors = ninja(*PRUNE, "s3://bucket/in/lat.ark.gz", "-o", "s3a://bucket/in/lat.ark.gz")
    assert (code, "is an input and would be overwritten" in errors) == (2, True)
    code, _, errors = ninja(*PRUNE, "s3://bucket/in/lat.ark.gz", "-o", "s3://bucket2/p.ark")
    assert (code, "bucket2/p.ark: cannot be written: no such file or bucket" in errors) == (1, True)
    code, _, errors = ninja(*PRUNE, "s3://bucket/in/lat.ark.gz", "-o", "s3://bucket")
    assert (code, "s3://bucket: is a bucket, not a file" in errors) == (1, True)
    assert os.listdir(scratch) == []


def test_an_exception_uploads_nothing_to_s3(bucket, scratch):
    interrupt_writing("s3://bucket/out/a.ark")
    assert not bucket.exists("bucket/out/a.ark")
    assert os.listdir(scratch) == []


def test_files_written_by_another_process_are_listed(bucket):
    other_system = type(bucket)(skip_instance_cache=True)
    assert len(package.io.sources.tables("s3://bucket/in/*")) == 2
    for name in ("words.txt", "more.txt"):
        other_system.pipe_file(f"bucket/in/{name}", b"<eps> 0\n")
        assert len(package.SymbolTable.read(f"s3://bucket/in/{name}")) == 1


KILLING_SCRIPT = """
import os, signal, sys
from ninja.cli.main import main
from ninja.files.output import PartFile
from ninja.io import resume

resume.CHECKPOINT_INTERVAL = 0.0  # write each lattice immediately
bytes_written, write = 0, PartFile.write

def write_until_killed(self, content):
    global bytes_written
    size = write(self, content)
    bytes_written += len(content)
    if bytes_written > 10_000:
        os.kill(os.getpid(), signal.SIGKILL)
    return size

PartFile.write = write_until_killed
main(sys.argv[1:])
"""


def test_killed_rescoring_to_s3_is_resumed(ninja, bucket, scratch, tmp_path, monkeypatch):
    write_all("s3://bucket/in/subset.ark", (lattice for _, lattice in [*package.read(ARCHIVE)][:6]))
    arguments = ["rescore", "s3://bucket/in/subset.ark", "--beam", 3, "--resume"]
    local_output = tmp_path / "whole.ark.gz"
    assert ninja(*arguments, "-o", local_output)[0] == 0
    arguments = [*map(str, arguments), "-o", "s3://bucket/out/rescored.ark.gz"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.run([sys.executable, "-c", KILLING_SCRIPT, *arguments], env=environment, capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not bucket.exists("bucket/out/rescored.ark.gz")
    code, _, errors = ninja(*arguments)
    assert (code, "resuming after" in errors and "of an earlier attempt" in errors) == (0, True)
    expected = gzip.decompress(local_output.read_bytes())
    assert gzip.decompress(bucket.cat_file("bucket/out/rescored.ark.gz")) == expected
    assert [path.suffix for path in scratch.iterdir()] == [".run"]  # the record of the run, for resuming
    code, _, errors = ninja(*arguments)  # a finished output can be resumed, too
    assert (code, gzip.decompress(bucket.cat_file("bucket/out/rescored.ark.gz"))) == (0, expected)
