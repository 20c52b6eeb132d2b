"""The pipeline: order, failures of single lattices, threads and outputs."""

import shutil
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from example_lattices import EXAMPLES, write_first
from fake_lm import FakeLM

import ninja as package
from ninja import pipeline
from ninja.errors import LatticeError, Log, OptionError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.pipeline import OnBatches, OnLattices, stream

WORDS = SymbolTable.from_words(["<eps>", "a", "b"])


def lattices(number, *, words=None, indices=None):
    for index in range(number):
        if indices is not None:
            indices.append(index)
        key = f"utt{index}"
        yield key, Lattice.from_arrays(key, [0, 1, 1], [1], [1 + index % 2], [index], [0], [np.inf, 0], words=words)


def cost(lattice):
    if lattice.graph[0] == 3:
        raise LatticeError("the third lattice fails")
    return float(lattice.graph[0])


def add_one(lattice):
    assert lattice.words is not None
    return lattice.with_costs(lattice.graph + 1)


def run_out_of_memory(lattice):
    raise MemoryError


@dataclass(slots=True)
class CountingLog(Log):
    """A log with an additional count."""

    num_pairs: int = 0


def count_lattices(lattices, log):
    log.note("model loaded")
    for key, lattice in lattices:
        log.num_pairs += 1
        yield key, lattice.words is WORDS


JOBS = pytest.mark.parametrize("options", [{"jobs": 1}, {"jobs": 2}], ids=["one thread", "two threads"])


@JOBS
def test_results_are_in_input_order_and_failures_affect_single_lattices(options):
    failures = []
    log = Log(on_error=failures.append)
    results = list(stream(lattices(9), OnLattices(cost), log=log, **options))
    assert results == [(f"utt{index}", float(index)) for index in range(9) if index != 3]
    assert [str(failure) for failure in failures] == ["key 'utt3': the third lattice fails"]
    assert (log.lattices, log.failures) == (8, failures)


@JOBS
def test_without_on_error_the_first_failure_is_raised_in_input_order(options):
    results = []
    with pytest.raises(LatticeError, match="key 'utt3': the third lattice fails"):
        results.extend(key for key, _ in stream(lattices(9), OnLattices(cost), **options))
    assert results == ["utt0", "utt1", "utt2"]


def thread_id(lattice):
    time.sleep(0.01)
    return threading.get_ident()


def test_jobs_run_on_worker_threads():
    results = dict(stream(lattices(100), OnLattices(thread_id), jobs=2))
    assert threading.get_ident() not in results.values()
    assert 1 <= len(set(results.values())) <= 2


@JOBS
def test_stages_keep_the_symbol_table_of_lattices(options):
    for index, (key, lattice) in enumerate(stream(lattices(3, words=WORDS), OnLattices(add_one), **options)):
        assert lattice.key == key
        assert lattice.words is WORDS
        assert lattice.graph[0] == index + 1
        assert not lattice.graph.flags.writeable
        assert not lattice.dst.flags.writeable


def test_out_of_memory_is_a_failure_of_one_lattice():
    failures = []
    assert list(stream(lattices(1), OnLattices(run_out_of_memory), log=Log(on_error=failures.append))) == []
    assert "out of memory; prune the lattice first" in str(failures[0])


def test_reading_ahead_of_threads_is_bounded():
    indices = []
    log = Log(on_error=[].append)
    results = stream(lattices(1000, indices=indices), OnLattices(cost), jobs=2, log=log)
    next(results)
    assert len(indices) < 150
    results.close()


def test_keys_already_done_are_skipped_and_counted():
    log = Log()
    results = dict(stream(lattices(4), OnLattices(cost), done={"utt0", "utt3"}, log=log))
    assert results == {"utt1": 1.0, "utt2": 2.0}
    assert (log.lattices, log.skipped) == (2, 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stream_stage_writes_to_the_log_of_the_run(jobs):
    notes = []
    log = CountingLog(on_note=notes.append)
    results = list(stream(lattices(7), count_lattices, jobs=jobs, log=log))
    assert (len(results), log.lattices, log.num_pairs) == (7, 7, 7)
    assert log.notes == notes == ["model loaded"]


@JOBS
def test_an_empty_input_yields_no_results(options):
    assert list(stream(lattices(0), OnLattices(cost), **options)) == []


@pytest.mark.parametrize("jobs", [0, 2**31])
def test_numbers_of_jobs_out_of_range_are_refused(jobs):
    with pytest.raises(OptionError, match=f"jobs is {jobs}, but must be between 1 and 4096"):
        list(stream(lattices(1), OnLattices(cost), jobs=jobs))


def totals(batch):
    return [float(lattice.graph.sum()) for lattice in batch]


def costs(batch):
    return [cost(lattice) for lattice in batch]


@JOBS
def test_a_batch_function_returns_a_result_for_each_lattice(options):
    assert dict(stream(lattices(40), OnBatches(totals), **options)) == {
        f"utt{index}": float(index) for index in range(40)
    }


@JOBS
def test_a_failure_in_a_batch_does_not_affect_other_lattices(options):
    log = Log(on_error=[].append)
    results = dict(stream(lattices(9), OnBatches(costs), log=log, **options))
    assert set(results) == {f"utt{index}" for index in range(9) if index != 3}
    assert [failure.key for failure in log.failures] == ["utt3"]


def test_repeated_keys_are_noted_once_for_each_repetition():
    log = Log()
    list(stream([*lattices(3), *lattices(2)], OnLattices(cost), log=log))
    assert log.repeated == ["utt0", "utt1"]


def num_arcs(lattice):
    return lattice.num_arcs


def exit_process(lattice):
    raise SystemExit(9)


@pytest.mark.parametrize("ending", ["exhausted", "closed early", "failed thread"])
def test_threads_end_with_their_stream(ending):
    before = set(threading.enumerate())
    results = stream(lattices(80), OnLattices(exit_process if ending == "failed thread" else num_arcs), jobs=2)
    if ending == "failed thread":
        with pytest.raises(SystemExit):
            next(results)
    elif ending == "closed early":
        next(results)
        results.close()
    else:
        assert len(list(results)) == 80
    assert not [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("ninja-worker")]


# Scripts that use the library write the same bytes as the commands.

SCRIPTS = {
    "prune": (
        "prune lat.ark.gz --beam 6 --acoustic-scale 0.1 -o {}",
        lambda: pipeline.OnBatches(partial(package.graph.prune, beam=6.0, scales=package.Scales(acoustic=0.1))),
    ),
    "minimize": ("minimize lat.ark.gz -o {}", lambda: pipeline.OnBatches(package.graph.minimize)),
    "reverse": ("reverse lat.ark.gz -o {}", lambda: pipeline.OnLattices(package.graph.reverse)),
    "convert": ("convert lat.ark.gz --words words.txt -o {}", lambda: pipeline.OnBatches(lambda batch: batch)),
}


@pytest.fixture(scope="module")
def nine_lattices(tmp_path_factory):
    """Return an archive of 2.8 MB with 17,120 arcs, which is read in several blocks and several batches."""
    return write_first(tmp_path_factory.mktemp("nine") / "lat.ark.gz", 9)


@pytest.mark.parametrize("name", ["out.ark", "out.ark.gz", "out.jsonl", "folder/"])
@pytest.mark.parametrize("command", SCRIPTS)
def test_a_script_writes_the_same_bytes_as_the_command(ninja, nine_lattices, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    for file in (nine_lattices, EXAMPLES / "words.txt"):
        shutil.copy(file, ".")
    command_line, stage = SCRIPTS[command]
    assert ninja(*command_line.format(f"by_command.{name}").split())[0] == 0
    inputs = pipeline.Inputs(
        "lat.ark.gz", words="words.txt" if "words" in command_line else None, log=Log(on_error=print)
    )
    scales = package.Scales(acoustic=0.1) if "--acoustic-scale" in command_line else None
    summary = pipeline.run(inputs, stage(), pipeline.Output(f"by_script.{name}", scales=scales))
    assert (summary.lattices, summary.failures) == (9, ())
    by_command, by_script = Path(f"by_command.{name}"), Path(f"by_script.{name}")
    if name.endswith("/"):
        by_command, by_script = by_command / "lat.ark.gz", by_script / "lat.ark.gz"
    assert by_command.read_bytes() == by_script.read_bytes()


def test_a_script_resumes_an_interrupted_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    archive = str(EXAMPLES / "lat.ark.gz")
    stage = pipeline.OnBatches(partial(package.graph.prune, beam=6.0))
    output = pipeline.Output("out.ark", resume=True, settings={"beam": 6.0})

    def fail_batch(batch):
        return [fail(lattice) for lattice in batch]

    def fail(lattice):
        raise LatticeError("it fails", key=lattice.key)

    def read_until_interrupted(inputs):
        for number, pair in enumerate(inputs.lattices()):
            if number == 17:
                raise KeyboardInterrupt
            yield pair

    with pytest.raises(KeyboardInterrupt):
        pipeline.run(pipeline.Inputs(archive), stage, output, jobs=1, read=read_until_interrupted)
    assert not Path("out.ark").exists()
    summary = pipeline.run(pipeline.Inputs(archive), stage, output)
    assert (summary.lattices + summary.skipped, summary.skipped > 0) == (40, True)
    pipeline.run(pipeline.Inputs(archive), stage, pipeline.Output("whole.ark"))
    assert Path("out.ark").read_bytes() == Path("whole.ark").read_bytes()
    inputs = pipeline.Inputs(archive, log=Log(on_error=[].append))
    with pytest.raises(LatticeError, match="all 40 lattices failed"):
        pipeline.run(inputs, pipeline.OnBatches(fail_batch), pipeline.TextOutput("none.txt"))
    assert not Path("none.txt").exists()


def test_lines_returned_by_a_function_are_written_to_a_text_file(tmp_path, ninja):
    archive = EXAMPLES / "lat.ark.gz"
    lines = pipeline.OnLattices(lambda lattice: f"{lattice.key} {lattice.num_arcs}\n")
    results = []
    pipeline.run(
        pipeline.Inputs(archive), lines, pipeline.TextOutput(str(tmp_path / "arcs.txt")), on_result=results.append
    )
    assert "".join(results) == (tmp_path / "arcs.txt").read_text()
    expected = [f"{key} {lattice.num_arcs}" for key, lattice in package.read(archive)]
    assert (tmp_path / "arcs.txt").read_text().splitlines() == expected


def test_outputs_per_file_report_differing_symbol_tables(tmp_path):
    for name, word in (("one", "a"), ("two", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "words.txt").write_text(f"<eps> 0\n{word} 1\n")
        with package.write(tmp_path / name / f"{name}.ark") as output:
            output.write(next(lattices(1))[1])
    inputs = pipeline.Inputs([str(tmp_path / "*" / "*.ark")])
    output = pipeline.Output(f"{tmp_path / 'out'}/", to="slf")
    with pytest.raises(OptionError, match=r"words\.txt.* --words"):
        pipeline.run(inputs, OnLattices(lambda lattice: lattice), output)


def test_runs_with_the_same_inputs_have_separate_summaries(tmp_path):
    inputs = pipeline.Inputs(EXAMPLES / "lat.ark.gz", log=Log(on_error=[].append))

    def fail_first(lattice):
        if lattice.key == first:
            raise LatticeError("it fails")
        return lattice

    first = next(iter(package.keys(EXAMPLES / "lat.ark.gz")))
    first_summary = pipeline.run(inputs, OnLattices(fail_first), pipeline.Output(str(tmp_path / "one.ark")))
    second_summary = pipeline.run(
        inputs, OnLattices(lambda lattice: lattice), pipeline.Output(str(tmp_path / "two.ark"))
    )
    assert (first_summary.lattices, len(first_summary.failures)) == (39, 1)
    assert (second_summary.lattices, len(second_summary.failures)) == (40, 0)


def test_repeated_keys_are_in_the_summary(tmp_path):
    archive = str(EXAMPLES / "lat.ark.gz")
    stage = OnBatches(lambda batch: batch)
    summary = pipeline.run(pipeline.Inputs([archive, archive]), stage, pipeline.Output(str(tmp_path / "out.ark")))
    assert len(summary.repeated) == 40


def test_an_unknown_word_id_fails_only_one_lattice_of_a_batch():
    log = Log(on_error=[].append)

    def spelled_words(batch):
        return [lattice.words.word(int(lattice.word[0]) + 5 * (lattice.key == "utt1")) for lattice in batch]

    results = dict(stream(lattices(3, words=WORDS), OnBatches(spelled_words), log=log))
    assert (set(results), [failure.key for failure in log.failures]) == ({"utt0", "utt2"}, ["utt1"])


def test_arguments_of_the_wrong_type_are_refused(tmp_path):
    with pytest.raises(OptionError, match="inputs has type str"):
        pipeline.run("lat.ark", OnLattices(cost), pipeline.TextOutput(str(tmp_path / "out.txt")))
    with pytest.raises(OptionError, match=r"stage is cost, but must be OnBatches\(function\), OnLattices\(function\)"):
        pipeline.run(pipeline.Inputs("lat.ark"), cost, pipeline.TextOutput(str(tmp_path / "out.txt")))
    with pytest.raises(OptionError, match=r"output has type str, but must be ninja\.pipeline\.Output\(name\) or Text"):
        pipeline.run(pipeline.Inputs("lat.ark"), OnLattices(cost), str(tmp_path / "out.ark"))
    with pytest.raises(
        OptionError, match=r"Rescorer requires a RescoreReport; use Inputs\(..., log=ninja.RescoreReport"
    ):
        pipeline.run(pipeline.Inputs("lat.ark"), package.Rescorer(FakeLM()), pipeline.Output(str(tmp_path / "out.ark")))
    with pytest.raises(OptionError, match=r"log is allowed only with \(key, lattice\) pairs"):
        stream(pipeline.Inputs(EXAMPLES / "lat.ark.gz"), OnLattices(cost), log=Log())


def test_a_script_does_not_resume_an_output_with_other_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stage = OnBatches(lambda batch: batch)

    def read_until_interrupted(inputs):
        for number, pair in enumerate(inputs.lattices()):
            if number == 17:
                raise KeyboardInterrupt
            yield pair

    def run(**settings):
        output = pipeline.Output("out.ark", resume=True, settings=settings or None)
        return pipeline.run(pipeline.Inputs(EXAMPLES / "lat.ark.gz"), stage, output, jobs=1, read=read)

    read = read_until_interrupted
    with pytest.raises(KeyboardInterrupt):
        run(beam=6.0)
    read = None
    with pytest.raises(OptionError, match="used a different --beam"):
        run(beam=8.0)
    with pytest.raises(OptionError, match="resume requires the settings"):
        run()
    assert run(beam=6.0).skipped > 0
