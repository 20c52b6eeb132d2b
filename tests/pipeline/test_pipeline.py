"""The pipeline: order, errors of single lattices, threads, outputs."""

import shutil
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fake_lm import FakeLM

import ninja as package
from ninja import pipeline
from ninja.errors import LatticeError, Log, OptionError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.pipeline import OnBatches, OnLattices, stream

EXAMPLES = Path(__file__).parents[2] / "examples"

WORDS = SymbolTable.from_words(["<eps>", "a", "b"])


def lattices(number, *, words=None, seen=None):
    for index in range(number):
        if seen is not None:
            seen.append(index)
        key = f"utt{index}"
        yield key, Lattice.from_arrays(key, [0, 1, 1], [1], [1 + index % 2], [index], [0], [np.inf, 0], words=words)


def cost(lattice):
    if lattice.graph[0] == 3:
        raise LatticeError("it is the third")
    return float(lattice.graph[0])


def spelled(lattice):
    assert lattice.words is not None
    return lattice.with_costs(lattice.graph + 1)


def crowded(lattice):
    raise MemoryError


@dataclass(slots=True)
class CountingLog(Log):
    """A log with its own count."""

    seen: int = 0


def counted(lattices, log):
    log.note("model loaded")
    for key, lattice in lattices:
        log.seen += 1
        yield key, lattice.words is WORDS


JOBS = pytest.mark.parametrize("how", [{"jobs": 1}, {"jobs": 2}], ids=["one thread", "two threads"])


@JOBS
def test_results_come_in_input_order_and_a_failure_is_its_lattices_own(how):
    failures = []
    log = Log(on_error=failures.append)
    answers = list(stream(lattices(9), OnLattices(cost), log=log, **how))
    assert answers == [(f"utt{index}", float(index)) for index in range(9) if index != 3]
    assert [str(failure) for failure in failures] == ["key 'utt3': it is the third"]
    assert (log.lattices, log.failures) == (8, failures)


@JOBS
def test_without_a_listener_the_first_failure_is_raised_behind_the_results_before_it(how):
    answers = []
    with pytest.raises(LatticeError, match="key 'utt3': it is the third"):
        answers.extend(key for key, _ in stream(lattices(9), OnLattices(cost), **how))
    assert answers == ["utt0", "utt1", "utt2"]


def thread_of(lattice):
    time.sleep(0.01)
    return threading.get_ident()


def test_workers_are_several_threads():
    answers = dict(stream(lattices(100), OnLattices(thread_of), jobs=2))
    assert threading.get_ident() not in answers.values()
    assert 1 <= len(set(answers.values())) <= 2


@JOBS
def test_words_reach_the_stage_and_come_back_as_the_same_table(how):
    for index, (key, lattice) in enumerate(stream(lattices(3, words=WORDS), OnLattices(spelled), **how)):
        assert lattice.key == key
        assert lattice.words is WORDS
        assert lattice.graph[0] == index + 1
        assert not lattice.graph.flags.writeable
        assert not lattice.dst.flags.writeable


def test_a_lattice_too_large_for_the_memory_is_one_failure():
    failures = []
    assert list(stream(lattices(1), OnLattices(crowded), log=Log(on_error=failures.append))) == []
    assert "out of memory; prune the lattice first" in str(failures[0])


def test_input_is_read_no_further_than_threads_need():
    seen = []
    log = Log(on_error=[].append)
    results = stream(lattices(1000, seen=seen), OnLattices(cost), jobs=2, log=log)
    next(results)
    assert len(seen) < 150
    results.close()


def test_keys_already_done_are_left_out_and_counted():
    log = Log()
    answers = dict(stream(lattices(4), OnLattices(cost), done={"utt0", "utt3"}, log=log))
    assert answers == {"utt1": 1.0, "utt2": 2.0}
    assert (log.lattices, log.skipped) == (2, 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stream_stage_writes_to_the_log_of_the_run(jobs):
    told = []
    log = CountingLog(on_note=told.append)
    results = list(stream(lattices(7), counted, jobs=jobs, log=log))
    assert (len(results), log.lattices, log.seen) == (7, 7, 7)
    assert log.notes == told == ["model loaded"]


@JOBS
def test_no_input_gives_no_results(how):
    assert list(stream(lattices(0), OnLattices(cost), **how)) == []


@pytest.mark.parametrize("jobs", [0, 2**31])
def test_numbers_of_jobs_out_of_range_are_refused(jobs):
    with pytest.raises(OptionError, match=f"jobs is {jobs}, but must be between 1 and 4096"):
        list(stream(lattices(1), OnLattices(cost), jobs=jobs))


def totals(batch):
    return [float(lattice.graph.sum()) for lattice in batch]


def refuses_the_third(batch):
    return [cost(lattice) for lattice in batch]


@JOBS
def test_a_function_of_batches_gives_a_result_for_each_lattice(how):
    assert dict(stream(lattices(40), OnBatches(totals), **how)) == {f"utt{index}": float(index) for index in range(40)}


@JOBS
def test_a_lattice_that_fails_a_function_of_batches_does_not_cost_the_others(how):
    log = Log(on_error=[].append)
    answers = dict(stream(lattices(9), OnBatches(refuses_the_third), log=log, **how))
    assert set(answers) == {f"utt{index}" for index in range(9) if index != 3}
    assert [failure.key for failure in log.failures] == ["utt3"]


def test_repeated_keys_are_noted_once_for_each_repetition():
    log = Log()
    list(stream([*lattices(3), *lattices(2)], OnLattices(cost), log=log))
    assert log.repeated == ["utt0", "utt1"]


def arcs(lattice):
    return lattice.num_arcs


def leaves(lattice):
    raise SystemExit(9)


@pytest.mark.parametrize("how", ["read to its end", "left early", "a thread failed"])
def test_no_thread_outlives_a_stream(how):
    before = set(threading.enumerate())
    results = stream(lattices(80), OnLattices(leaves if how == "a thread failed" else arcs), jobs=2)
    if how == "a thread failed":
        with pytest.raises(SystemExit):
            next(results)
    elif how == "left early":
        next(results)
        results.close()
    else:
        assert len(list(results)) == 80
    assert not [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("ninja-worker")]


# Scripts of the library write the bytes of the commands.

SCRIPTS = {
    "prune": (
        "prune lat.ark.gz --beam 6 --acoustic-scale 0.1 -o {}",
        lambda: pipeline.OnBatches(partial(package.graph.prune, beam=6.0, scales=package.Scales(acoustic=0.1))),
    ),
    "minimize": ("minimize lat.ark.gz -o {}", lambda: pipeline.OnBatches(package.graph.minimize)),
    "reverse": ("reverse lat.ark.gz -o {}", lambda: pipeline.OnLattices(package.graph.reverse)),
    "convert": ("convert lat.ark.gz --words words.txt -o {}", lambda: pipeline.OnBatches(lambda batch: batch)),
}


@pytest.mark.parametrize("name", ["out.ark", "out.ark.gz", "out.jsonl", "folder/"])
@pytest.mark.parametrize("command", SCRIPTS)
def test_a_script_writes_the_bytes_of_the_command(ninja, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    for file in ("lat.ark.gz", "words.txt"):
        shutil.copy(EXAMPLES / file, file)
    line, stage = SCRIPTS[command]
    assert ninja(*line.format(f"by_command.{name}").split())[0] == 0
    inputs = pipeline.Inputs("lat.ark.gz", words="words.txt" if "words" in line else None, log=Log(on_error=print))
    scales = package.Scales(acoustic=0.1) if "--acoustic-scale" in line else None
    summary = pipeline.run(inputs, stage(), pipeline.Output(f"by_script.{name}", scales=scales))
    assert (summary.lattices, summary.failures) == (40, ())
    by_command, by_script = Path(f"by_command.{name}"), Path(f"by_script.{name}")
    if name.endswith("/"):
        by_command, by_script = by_command / "lat.ark.gz", by_script / "lat.ark.gz"
    assert by_command.read_bytes() == by_script.read_bytes()


def test_a_script_goes_on_with_an_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    archive = str(EXAMPLES / "lat.ark.gz")
    stage = pipeline.OnBatches(partial(package.graph.prune, beam=6.0))
    output = pipeline.Output("out.ark", resume=True, settings={"beam": 6.0})

    def fails_at_last(batch):
        return [raises(lattice) for lattice in batch]

    def raises(lattice):
        raise LatticeError("it fails", key=lattice.key)

    def interrupted(inputs):
        for number, pair in enumerate(inputs.lattices()):
            if number == 17:
                raise KeyboardInterrupt
            yield pair

    with pytest.raises(KeyboardInterrupt):
        pipeline.run(pipeline.Inputs(archive), stage, output, jobs=1, read=interrupted)
    assert not Path("out.ark").exists()
    summary = pipeline.run(pipeline.Inputs(archive), stage, output)
    assert (summary.lattices + summary.skipped, summary.skipped > 0) == (40, True)
    pipeline.run(pipeline.Inputs(archive), stage, pipeline.Output("whole.ark"))
    assert Path("out.ark").read_bytes() == Path("whole.ark").read_bytes()
    inputs = pipeline.Inputs(archive, log=Log(on_error=[].append))
    with pytest.raises(LatticeError, match="all 40 lattices failed"):
        pipeline.run(inputs, pipeline.OnBatches(fails_at_last), pipeline.TextOutput("none.txt"))
    assert not Path("none.txt").exists()


def test_lines_of_a_function_are_a_text(tmp_path, ninja):
    archive = EXAMPLES / "lat.ark.gz"
    lines = pipeline.OnLattices(lambda lattice: f"{lattice.key} {lattice.num_arcs}\n")
    results = []
    pipeline.run(
        pipeline.Inputs(archive), lines, pipeline.TextOutput(str(tmp_path / "arcs.txt")), on_result=results.append
    )
    assert "".join(results) == (tmp_path / "arcs.txt").read_text()
    expected = [f"{key} {lattice.num_arcs}" for key, lattice in package.read(archive)]
    assert (tmp_path / "arcs.txt").read_text().splitlines() == expected


def test_outputs_of_each_file_name_the_reason_why_ids_have_no_names(tmp_path):
    for name, word in (("one", "a"), ("two", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "words.txt").write_text(f"<eps> 0\n{word} 1\n")
        with package.write(tmp_path / name / f"{name}.ark") as output:
            output.write(next(lattices(1))[1])
    inputs = pipeline.Inputs([str(tmp_path / "*" / "*.ark")])
    output = pipeline.Output(f"{tmp_path / 'out'}/", to="slf")
    with pytest.raises(OptionError, match=r"words\.txt.* --words"):
        pipeline.run(inputs, OnLattices(lambda lattice: lattice), output)


def test_a_second_run_with_the_same_inputs_counts_for_itself(tmp_path):
    inputs = pipeline.Inputs(EXAMPLES / "lat.ark.gz", log=Log(on_error=[].append))

    def fails(lattice):
        if lattice.key == first:
            raise LatticeError("it fails")
        return lattice

    first = next(iter(package.keys(EXAMPLES / "lat.ark.gz")))
    one = pipeline.run(inputs, OnLattices(fails), pipeline.Output(str(tmp_path / "one.ark")))
    two = pipeline.run(inputs, OnLattices(lambda lattice: lattice), pipeline.Output(str(tmp_path / "two.ark")))
    assert (one.lattices, len(one.failures)) == (39, 1)
    assert (two.lattices, len(two.failures)) == (40, 0)


def test_repeated_keys_stay_in_the_summary(tmp_path):
    archive = str(EXAMPLES / "lat.ark.gz")
    stage = OnBatches(lambda batch: batch)
    summary = pipeline.run(pipeline.Inputs([archive, archive]), stage, pipeline.Output(str(tmp_path / "out.ark")))
    assert len(summary.repeated) == 40


def test_a_word_without_a_name_does_not_cost_the_other_lattices_of_a_batch():
    log = Log(on_error=[].append)

    def spelled_words(batch):
        return [lattice.words.word(int(lattice.word[0]) + 5 * (lattice.key == "utt1")) for lattice in batch]

    answers = dict(stream(lattices(3, words=WORDS), OnBatches(spelled_words), log=log))
    assert (set(answers), [failure.key for failure in log.failures]) == ({"utt0", "utt2"}, ["utt1"])


def test_arguments_of_another_type_are_refused(tmp_path):
    with pytest.raises(OptionError, match="inputs has type str"):
        pipeline.run("lat.ark", OnLattices(cost), pipeline.TextOutput(str(tmp_path / "out.txt")))
    with pytest.raises(OptionError, match=r"stage is cost, but must be OnBatches\(function\), OnLattices\(function\)"):
        pipeline.run(pipeline.Inputs("lat.ark"), cost, pipeline.TextOutput(str(tmp_path / "out.txt")))
    with pytest.raises(
        OptionError, match=r"Rescorer requires a RescoreReport; use Inputs\(..., log=ninja.RescoreReport"
    ):
        pipeline.run(pipeline.Inputs("lat.ark"), package.Rescorer(FakeLM()), pipeline.Output(str(tmp_path / "out.ark")))
    with pytest.raises(OptionError, match="log is allowed only for pairs"):
        stream(pipeline.Inputs(EXAMPLES / "lat.ark.gz"), OnLattices(cost), log=Log())


def test_a_script_does_not_go_on_with_an_output_of_other_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stage = OnBatches(lambda batch: batch)

    def interrupted(inputs):
        for number, pair in enumerate(inputs.lattices()):
            if number == 17:
                raise KeyboardInterrupt
            yield pair

    def run(**settings):
        output = pipeline.Output("out.ark", resume=True, settings=settings or None)
        return pipeline.run(pipeline.Inputs(EXAMPLES / "lat.ark.gz"), stage, output, jobs=1, read=read)

    read = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(beam=6.0)
    read = None
    with pytest.raises(OptionError, match="another --beam"):
        run(beam=8.0)
    with pytest.raises(OptionError, match="resume requires the settings"):
        run()
    assert run(beam=6.0).skipped > 0
