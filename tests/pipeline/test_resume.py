"""Resumed outputs: their scales, and the partial files after an interruption."""

import contextlib
import os
import re
import resource
from pathlib import Path

import pytest
from ended import interrupt_at
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all

import ninja as package
from ninja import ChosenScales, Scales
from ninja.errors import LatticeError, Log, OptionError
from ninja.files.output import PartFile
from ninja.graph import from_arcs
from ninja.pipeline import Inputs, OnLattices, Output, run

pytestmark = pytest.mark.usefixtures("folder")

HALF_WEIGHT = ChosenScales(Scales(0.1), lm_weight=0.5)
HIGHER_WEIGHT = ChosenScales(Scales(0.1), lm_weight=0.9)


def lattice(key):
    return from_arcs(key, [0, 1], [1, 2], [5, 6], [0.5, 1.5], finals={2: 0.0})


def interrupt(name="a.gz", chosen=HALF_WEIGHT, keys=("a", "b"), **options):
    output = package.write(name, resume=True, chosen=chosen, **options)
    with contextlib.suppress(KeyboardInterrupt), output:
        for key in keys:
            output.write(lattice(key))
        raise KeyboardInterrupt
    return output


def contents():
    return {path.name: path.read_bytes() for path in Path().iterdir()}


@pytest.mark.parametrize("name", ["a.gz", "a.ark", "ark,t:a.txt", "ark,scp:a.ark,a.scp"])
def test_an_interrupted_output_is_not_resumed_with_other_scales(name):
    assert interrupt(name).num_saved == 2
    before = contents()
    with pytest.raises(
        OptionError, match=r"used lm_weight 0\.5, but this attempt uses 0\.9; use the same options, or omit"
    ):
        interrupt(name, HIGHER_WEIGHT)
    with pytest.raises(OptionError, match=r"used acoustic_scale 0\.1 and .*, but this attempt uses no scales; use"):
        interrupt(name, None)
    assert contents() == before
    with package.write(name, resume=True, chosen=HALF_WEIGHT) as output:
        assert set(output.keys_done) == {"a", "b"}
        output.write(lattice("c"))
    assert package.find_scales(name.split(",")[-1].split(":")[-1]) == HALF_WEIGHT
    assert not [name for name in os.listdir() if ".part" in name]


def test_a_finished_output_is_not_resumed_with_other_scales():
    write_all("a.gz", [lattice("a")], chosen=HALF_WEIGHT)
    before = contents()
    with pytest.raises(OptionError, match=r"a\.gz: an earlier attempt used lm_weight 0\.5, but this attempt uses 0\.9"):
        interrupt(chosen=HIGHER_WEIGHT)
    assert contents() == before
    with package.write("a.gz", resume=True, chosen=HALF_WEIGHT) as output:
        assert set(output.keys_done) == {"a"}
    assert contents() == before  # no byte is written without new lattices


def test_a_new_output_discards_the_scales_of_an_earlier_attempt():
    interrupt()
    write_all("a.gz", [lattice("a")], chosen=HIGHER_WEIGHT)
    assert package.find_scales("a.gz") == HIGHER_WEIGHT
    interrupt(chosen=HIGHER_WEIGHT)
    write_all("a.gz", [lattice("a")])
    assert os.listdir() == ["a.gz"]
    write_all("a.gz", [lattice("b")], resume=True)
    os.remove("a.gz")
    Path(".a.gz.scales.toml.part").write_text("lm_weight = 0.5\n")  # of a removed output
    interrupt(chosen=HIGHER_WEIGHT)


def test_an_attempt_without_lattices_leaves_no_file():
    assert interrupt(keys=()).num_saved == 0
    assert os.listdir() == []


@pytest.fixture
def interrupted(monkeypatch):
    """Interrupt a command at its third lattice."""
    write_all("in.ark", (lattice(key) for key in "abcd"))
    with interrupt_at(3, monkeypatch):
        yield


def test_an_interrupted_command_reports_the_number_of_saved_lattices(ninja, interrupted):
    code, _, errors = ninja("prune", "in.ark", "-o", "out.gz", "--resume")
    messages = ["ninja: 2 lattices were saved; run the same command with --resume to continue", "ninja: interrupted"]
    assert (code, [*filter(None, errors.splitlines())]) == (130, messages)
    assert ninja("prune", "in.ark", "-o", "out.gz", "--resume")[0] == 0
    assert list(package.keys("out.gz")) == list("abcd")


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("name", ["out.ark", "out.gz"])
def test_lattices_saved_before_a_write_error_are_counted_and_resumed(ninja, name, jobs):
    command = ["copy", "in.ark", "-o", name, "--resume", "--jobs", jobs]
    write_all("in.ark", map(lattice("0").with_key, map(str, range(9999))))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        code, _, errors = ninja(*command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (count,) = re.findall(r"(\d+) lattices were saved; run the same command with --resume", errors)
    assert (code, errors.count("cannot be written: File too large")) == (1, 1)
    assert f"resuming after {count} lattices of an earlier attempt" in ninja(*command)[2]
    assert list(package.keys(name)) == list(map(str, range(9999)))


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_resuming_writes_a_script_file_that_an_interrupt_prevented(ninja, monkeypatch, options):
    command = ["copy", "in.ark", "-o", "ark,scp:out.ark,out.scp"]
    write_all("in.ark", map(lattice, "abcd"))
    finish = PartFile.finish

    def finish_archive_only(file):
        if file.name == "out.scp":
            raise KeyboardInterrupt
        finish(file)

    with monkeypatch.context() as patch:
        patch.setattr(PartFile, "finish", finish_archive_only)
        assert ninja(*command, *options)[0] == 130
    assert (Path("out.ark").exists(), Path("out.scp").exists()) == (True, False)
    assert ninja(*command, "--resume")[0] == 0
    assert list(package.keys("scp:out.scp")) == list("abcd")


def test_an_interrupted_command_without_resume_leaves_no_folder(ninja, interrupted):
    code, _, errors = ninja("prune", "in.ark", "-o", "new/")
    assert (code, errors.strip()) == (130, "ninja: interrupted")
    assert os.listdir() == ["in.ark"]


def test_no_output_is_written_if_one_of_several_has_other_scales(ninja):
    for number in (1, 2):
        write_all(f"lat.{number}.gz", [lattice(str(number))])
    Path("words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    Path("names.txt").write_text("five\n")
    os.mkdir("out")
    interrupt("out/lat.2.gz", ChosenScales(Scales(0.5)))
    command = ["context", "lat.JOB.gz", "--words", "words.txt", "--entities", "names.txt", "-o", "out/lat.JOB.gz"]
    code, _, errors = ninja(*command, "--resume")
    assert code == 2
    message = "out/lat.2.gz: an earlier attempt used --acoustic-scale 0.5, but this attempt uses 0.1"
    assert errors == f"ninja: error: {message}; use the same options, or omit --resume to start again\n"
    assert sorted(os.listdir("out")) == [".lat.2.gz.part", ".lat.2.gz.scales.toml.part"]


def test_output_folders_with_files_are_kept(ninja):
    write_all("in.ark", [lattice("a")])
    assert ninja("prune", "in.ark", "-o", "new/")[0] == 0
    assert os.listdir("new") == ["in.ark"]


@pytest.fixture
def files(monkeypatch):
    """Write lattices, also compressed, with files for the options of commands."""
    for name in ("in.ark", "in.ark.gz"):
        write_all(name, (lattice(key) for key in "abcd"))
    Path("words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    head = "\\data\\\nngram 1=4\n\n\\1-grams:\n-99 <s>\n-1 </s>\n"
    for name, costs in (("one.arpa", (-1, -2)), ("two.arpa", (-2, -1))):
        Path(name).write_text(f"{head}{costs[0]} five\n{costs[1]} six\n\n\\end\\\n")


# words.txt is found next to in.ark.
RESCORE_WITHOUT_WORDS = ["rescore", "in.ark", "--rnnlm", "one.arpa", "--unk-penalty", "1", "-o", "out.gz"]
RESCORE = ["rescore", "in.ark", "--words", "words.txt", "--rnnlm", "one.arpa", "--unk-penalty", "1", "-o", "out.gz"]

PRUNE_GZIP = ["prune", "in.ark.gz", "-o", "a.ark"]


def touch(name):
    """Change the modification time of a file, but not its size."""
    os.utime(name, (1e9, 1e9))


@pytest.mark.parametrize(
    ("first", "second", "touched_file", "message"),
    [
        (RESCORE, [*RESCORE[:5], "two.arpa", *RESCORE[6:]], None, r"a different --rnnlm"),
        (RESCORE, [*RESCORE, "--beam", "3"], None, r"a different --beam"),
        (RESCORE, [*RESCORE, "--lm-weight", "0.9"], None, r"--lm-weight 0\.5, but this attempt uses 0\.9"),
        (RESCORE, RESCORE, "one.arpa", r"a different --rnnlm: one\.arpa has changed"),
        (RESCORE, RESCORE, "words.txt", r"a different --words: words\.txt has changed"),
        (RESCORE_WITHOUT_WORDS, RESCORE_WITHOUT_WORDS, "words.txt", r"a different --words: words\.txt has changed"),
        (RESCORE, RESCORE, "in.ark", r"other sources: in\.ark has changed"),
        (RESCORE, ["prune", "in.ark", "-o", "out.gz"], None, "."),
        (["prune", "in.ark", "-o", "out.gz"], ["prune", "in.ark.gz", "-o", "out.gz"], None, "other sources"),
        (["prune", "in.ark", "-o", "out.gz"], ["copy", "in.ark", "-o", "out.gz"], None, "a different command, prune"),
        (PRUNE_GZIP, PRUNE_GZIP, "in.ark.gz", r"other sources: in\.ark\.gz has changed"),
        (
            ["prune", "in.ark", "-o", "o/"],
            ["prune", "in.ark", "-o", "o/in.ark", "--beam", "2"],
            None,
            "a different --beam",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_run_does_not_resume_the_output_of_a_different_run(
    files, ninja, monkeypatch, first, second, touched_file, message
):
    pytest.importorskip("torch")
    with interrupt_at(3, monkeypatch):
        code, _, errors = ninja(*first, "--resume")
    assert (code, "2 lattices were saved" in errors) == (130, True), errors
    if touched_file is not None:
        touch(touched_file)
    before = {path.name: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    code, _, errors = ninja(*second, "--resume")
    assert code == 2, errors
    assert re.search(rf"an earlier attempt used {message}", errors), errors
    assert "use the same options, or omit --resume to start again" in errors
    assert {path.name: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    if touched_file is not None:
        assert ninja(*second)[0] == 0
        assert not [*Path().rglob(".*")]
        return
    code, _, errors = ninja(*first, "--resume", "--jobs", "2", "--on-error", "raise")
    assert (code, "resuming after 2 lattices of an earlier attempt" in errors) == (0, True), errors
    code, _, errors = ninja(*second, "--resume")  # a finished output is refused, too
    assert code == 2
    assert re.search(rf"an earlier attempt used {message}", errors), errors
    assert [path.suffix for path in Path().rglob(".*")] == [".run"]


def test_resuming_adds_failed_lattices_to_the_finished_output(files, ninja, monkeypatch):
    prune = package.graph.prune

    def prune_with_failure(lattice, *args, **options):
        if lattice.key == "b":
            raise LatticeError("no memory, for example", key="b")
        return prune(lattice, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr("ninja.io.writer.KaldiWriter.prepared", lambda self, batch: None)
        put_item = package.io.writer.KaldiWriter._put
        patch.setattr(
            "ninja.io.writer.KaldiWriter._put",
            lambda self, key, item: put_item(self, key, prune_with_failure(item, 8.0)),
        )
        assert ninja("prune", "in.ark", "-o", "out.ark", "--resume")[0] == 1
    assert list(package.keys("out.ark")) == ["a", "c", "d"]
    assert ninja("prune", "in.ark", "-o", "out.ark", "--resume")[0] == 0
    assert list(package.keys("out.ark")) == ["a", "c", "d", "b"]


@pytest.mark.parametrize("count", [2, 4, 9])
@pytest.mark.parametrize("name", ["out.ark", "ark,t:out.txt", "out.gz"])
def test_lattices_are_resumed_after_failures_with_the_same_keys(ninja, monkeypatch, name, count):
    weights_out_of_range = dict.fromkeys("ABC", 1e38)
    weights = [(key.lower(), weights_out_of_range.get(key, number)) for number, key in enumerate("AabababBAbcC")]
    write_all("in.ark", (from_arcs(key, [0], [1], [5], [weight], finals={1: 0.0}) for key, weight in weights))
    command = ["scale", "--lm-scale", "10", "in.ark", "--resume", "-o"]
    ninja(*command, "whole.ark")
    with interrupt_at(count, monkeypatch):
        assert ninja(*command, name)[0] == (1 if count == 9 else 130)
    code, _, errors = ninja(*command, name)
    assert (code, errors.count("range of float32")) == (1, 4)
    whole, resumed = (
        [(key, lattice.graph.tolist()) for key, lattice in package.read(source)] for source in ("whole.ark", name)
    )
    assert whole == resumed


def test_a_finished_output_of_an_unknown_run_is_not_extended(files, ninja):
    write_all("single.ark", [lattice("a")])
    assert ninja("prune", "single.ark", "-o", "out.ark")[0] == 0
    before = Path("out.ark").read_bytes()
    code, _, errors = ninja("prune", "single.ark", "-o", "out.ark", "--resume", "--beam", "2")
    assert (code, "skipped 1 lattice that is already in the output" in errors) == (0, True), errors
    code, _, errors = ninja("prune", "in.ark", "-o", "out.ark", "--resume", "--beam", "2")
    assert code == 2
    assert "out.ark: is complete but does not contain b, and the run that wrote it is unknown; " in errors
    assert Path("out.ark").read_bytes() == before
    assert not [name for name in os.listdir() if name.startswith(".")]


DAMAGED = [b"", b"{", b"[1]", b"[" * 100_000, b'{"options": 1, "sources": [[1]]}', b'{"version": "0.1.0"}', b"\xff"]


@pytest.mark.parametrize("record", [None, *DAMAGED], ids=range(len(DAMAGED) + 1))
def test_outputs_of_an_unknown_run_are_not_resumed(files, ninja, monkeypatch, record):
    with interrupt_at(3, monkeypatch):
        ninja("prune", "in.ark", "-o", "out.ark", "--resume")
    os.remove(".out.ark.run")
    if record is not None:
        Path(".out.ark.run").write_bytes(record)
    code, _, errors = ninja("prune", "in.ark", "-o", "out.ark", "--resume")
    assert code == 2
    assert "written by an unknown run; remove it, or omit --resume to start again" in errors
    assert Path(".out.ark.part").exists()
    assert ninja("prune", "in.ark", "-o", "out.ark")[0] == 0
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_a_symbolic_link_at_the_path_of_the_record_is_not_followed(files, ninja, monkeypatch):
    Path("target").write_text("precious")
    os.symlink("target", ".out.ark.run")
    with interrupt_at(3, monkeypatch):
        assert ninja("prune", "in.ark", "-o", "out.ark", "--resume")[0] == 130
    assert Path("target").read_text() == "precious"
    assert ninja("prune", "in.ark", "-o", "out.ark", "--resume")[0] == 0


@pytest.mark.parametrize("name", ["ninja.files.output.dumped", "ninja.io.resume.complete_entries"])
def test_a_run_interrupted_before_resuming_can_be_resumed(files, ninja, monkeypatch, name):
    with interrupt_at(3, monkeypatch):
        assert ninja("prune", "in.ark", "-o", "out.ark", "--resume")[0] == 130
    before = contents()

    def interrupt_run(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(name, interrupt_run)
        assert ninja("prune", "in.ark", "-o", "out.ark", "--resume")[0] == 130
    assert contents() == before
    code, _, errors = ninja("prune", "in.ark", "-o", "out.ark", "--resume")
    assert (code, "resuming after 2 lattices of an earlier attempt" in errors) == (0, True), errors


class _Interrupted(Exception):
    pass


@pytest.mark.parametrize("in_batches", [True, False])
@given(
    keys=st.lists(st.sampled_from("ab"), min_size=1, max_size=6),
    attempts=st.lists(st.tuples(st.sets(st.integers(0, 5)), st.integers(0, 7)), max_size=3),
)
def test_lattices_that_fail_in_some_attempts_are_written_once(tmp_path_factory, in_batches, keys, attempts):
    folder = tmp_path_factory.mktemp("attempts")
    write_all(
        folder / "in.ark",
        (from_arcs(key, [0], [1], [5], [float(number)], finals={1: 0.0}) for number, key in enumerate(keys)),
    )

    def attempt(failing, interrupted):
        def process(lattice):
            number = int(lattice.graph[0])
            if number == interrupted:
                raise _Interrupted
            if number in failing:
                raise LatticeError("the endpoint is down")
            return lattice

        def stream(lattices, log):
            for key, lattice in lattices:
                try:
                    yield key, process(lattice)
                except LatticeError as error:
                    log.fail(error, key)

        log = Log(on_error=lambda error: None)
        output = Output(str(folder / "out.ark"), resume=True, settings={})
        stage = OnLattices(process) if in_batches else stream
        with contextlib.suppress(_Interrupted, LatticeError):  # LatticeError: all lattices failed
            run(Inputs(folder / "in.ark", log=log), stage, output, jobs=1)

    for failing, interrupted in attempts:
        attempt(failing, interrupted)
    attempt((), None)
    results = [(key, lattice.graph[0]) for key, lattice in package.read(folder / "out.ark")]
    assert sorted(results, key=lambda result: result[1]) == [(key, number) for number, key in enumerate(keys)]
