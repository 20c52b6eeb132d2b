"""One output for each input file."""

import os

import pytest
from ended import interrupt_at
from lattice_files import write_all

import ninja as package
from ninja.graph import from_arcs


def lattice(key):
    return from_arcs(key, [0, 1], [1, 2], [5, 6], [0.5, 1.5], finals={2: 0.0})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Create a folder d with three gzip archives of two lattices each, and an empty folder d2."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("d")
    os.mkdir("d2")
    for number in (1, 2, 10):
        write_all(f"d/lat.{number}.gz", [lattice(f"a{number}"), lattice(f"b{number}")])
    (tmp_path / "words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    (tmp_path / "lat.list").write_text("".join(f"d/lat.{number}.gz\n" for number in (1, 2, 10)))
    return tmp_path


def written_keys(output_folder="d2"):
    names = [name for name in sorted(os.listdir(output_folder)) if not name.endswith(".run")]  # written by --resume
    return {name: list(package.keys(f"{output_folder}/{name}")) for name in names}


EXPECTED = {f"lat.{number}.gz": [f"a{number}", f"b{number}"] for number in (1, 10, 2)}


@pytest.mark.parametrize("source", [["d/lat.JOB.gz"], ["d/lat.1.gz", "d/lat.2.gz", "d/lat.10.gz"], ["d"], ["lat.list"]])
@pytest.mark.parametrize("output", ["d2/lat.JOB.gz", "d2/", "d2", "new/"])
@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_one_output_is_written_per_input_file(folder, ninja, source, output, options):
    code, _, errors = ninja("prune", *source, "-o", output, *options)
    assert (code, errors.splitlines()[-1].split(",")[0]) == (0, "ninja: 6 lattices"), errors
    assert written_keys("new" if output == "new/" else "d2") == EXPECTED


def test_several_jobs_write_one_output_per_input_file(folder, ninja):
    assert ninja("prune", "d/lat.JOB.gz", "-o", "d2/lat.JOB.gz", "--jobs", "2")[0] == 0
    assert written_keys() == EXPECTED


@pytest.mark.parametrize("verb", ["merge", "copy", "to-nbest", "push", "determinize", "minimize"])
def test_commands_write_archives_and_script_files_per_input_file(folder, ninja, verb):
    code, _, errors = ninja(verb, "d/lat.*.gz", "-o", "ark,scp:d2/x-JOB.ark,d2/x-JOB.scp")
    assert code == 0, errors
    assert sorted(os.listdir("d2")) == [f"x-{number}.{end}" for number in (1, 10, 2) for end in ("ark", "scp")]
    assert [key[:3].rstrip("-") for key in package.keys("scp:d2/x-10.scp")] == ["a10", "b10"]


def test_names_get_the_extension_of_the_format(folder, ninja):
    assert ninja("convert", "d", "--words", "words.txt", "--to", "json", "-o", "d2")[0] == 0
    assert sorted(os.listdir("d2")) == ["lat.1.jsonl", "lat.10.jsonl", "lat.2.jsonl"]
    assert ninja("convert", "d/lat.1.gz", "--words", "words.txt", "--to", "slf", "-o", "slf/")[0] == 0
    assert sorted(os.listdir("slf")) == ["a1.slf", "b1.slf"]  # SLF has one file per lattice
    assert ninja("prune", "slf", "--to", "binary", "-o", "new/")[0] == 0
    assert {name for name in os.listdir("new") if name.endswith("ark")} == {"a1.ark", "b1.ark"}


@pytest.mark.parametrize("verb", ["prune", "convert", "push", "copy", "1best", "scale", "determinize"])
def test_files_in_a_folder_keep_their_format(folder, ninja, verb):
    assert ninja("convert", "d/lat.1.gz", "--words", "words.txt", "--to", "slf", "-o", "slf/")[0] == 0
    os.rename("slf/b1.slf", "slf/b1")  # recognised by its content
    os.mkdir("out")
    for output in ("out", "new/"):
        code, _, errors = ninja(verb, "slf", "-o", output)
        assert code == 0, errors
        assert sorted(os.listdir(output)) == ["a1.slf", "b1.slf"]
        for name in os.listdir(output):
            assert (folder / output / name).read_bytes().startswith(b"VERSION=1.1")
            (lattice,) = [lattice for _, lattice in package.read(f"{output}/{name}")]
            assert lattice.words.spell(lattice.word[lattice.word > 0]) == ["five", "six"]


def test_files_of_rescored_lattices_keep_their_format(folder, ninja):
    pytest.importorskip("torch")
    assert ninja("convert", "d/lat.1.gz", "--words", "words.txt", "--to", "slf", "-o", "slf/")[0] == 0
    code, _, errors = ninja("rescore", "slf/", "-o", "out/")
    assert code == 0, errors
    assert [name for name in sorted(os.listdir("out")) if not name.endswith(".toml")] == ["a1.slf", "b1.slf"]
    assert (folder / "out/a1.slf").read_bytes().startswith(b"VERSION=1.1")


def test_a_read_only_format_is_refused_for_outputs(folder, ninja):
    os.mkdir("t")
    (folder / "t/y.columns").write_text("y-1 -10.5 -2 | five six\n")
    code, _, errors = ninja("convert", "t/y.columns", "-o", "new/")
    assert (code, "cannot be written as one file per input; use --to" in errors) == (2, True), errors


def test_an_interrupted_run_is_resumed_at_its_current_output(folder, ninja, monkeypatch):
    with interrupt_at(4, monkeypatch):
        assert ninja("prune", "d/lat.JOB.gz", "-o", "d2/lat.JOB.gz", "--resume")[0] == 130
    code, _, errors = ninja("prune", "d/lat.JOB.gz", "-o", "d2/lat.JOB.gz", "--resume")
    assert code == 0
    assert ".lat.2.gz.part: resuming after 1 lattice of an earlier attempt" in errors
    assert "skipped 3 lattices that are already in the output" in errors
    assert written_keys() == EXPECTED


def test_empty_inputs_have_empty_outputs_and_damaged_inputs_none(folder, ninja):
    (folder / "d/lat.1.gz").write_bytes(b"")
    (folder / "d/lat.2.ark").write_bytes(b"")
    code, _, errors = ninja("prune", "d/lat.1.gz", "d/lat.2.ark", "d/lat.10.gz", "-o", "d2/lat.JOB.ark")
    assert code == 1
    assert written_keys() == {"lat.10.ark": ["a10", "b10"], "lat.2.ark": []}
    assert "d2/lat.1.ark: the only lattice failed; no output is written" in errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("prune d/lat.JOB.gz -o d3/lat.JOB.gz", "d3/lat.JOB.gz: the folder d3 does not exist; create it first"),
        ("prune d/lat.JOB.gz -o d/lat.JOB.gz", "d/lat.1.gz is an input and would be overwritten"),
        ("prune d -o d", "d/lat.1.gz is an input and would be overwritten"),
        ("prune d/lat.1.gz e/lat.1.gz -o d2/x.JOB.gz", "d/lat.1.gz and e/lat.1.gz would both be written to this file"),
        (
            "prune d/lat.1.gz d/lat.2.gz -o ark,scp:d2/x.ark,d2/x.JOB.scp",
            "d2/x.ark: d/lat.1.gz and d/lat.2.gz would both be written to this file",
        ),
        (
            "prune d/lat.1.gz d/lat.2.gz -o ark,scp:d2/x.JOB.ark,d2/x.scp",
            "d2/x.scp: d/lat.1.gz and d/lat.2.gz would both be written to this file",
        ),
        ("prune e/lat.1.gz d/lat.1.gz -o d2/", "e/lat.1.gz and d/lat.1.gz would both be written to this file"),
        (
            "prune e/none.gz -o d2/x.JOB.gz",
            "e/none.gz has no number that could replace JOB in d2/x.JOB.gz; specify a folder with -o",
        ),
        ("prune - -o d2/", "standard input has no file name to use for an output; specify a single file with -o"),
        (
            "best d/lat.JOB.gz -o JOB.tra",
            "JOB.tra: JOB is allowed only in the names of lattice outputs; remove it",
        ),
        ("nbest-to-lattice d -o d2/", "d2/: the command writes a single output; specify a file"),
        ("prune d -o d2/x.JOB.gz --words-out JOB.txt", "JOB.txt: JOB is allowed only in the names of lattice outputs"),
        ("best d -o d2", "d2 is a folder, but the output is a single file; add a file name"),
        ("best d -o new/", "new/ is a folder, but the output is a single file; add a file name"),
    ],
)
def test_invalid_outputs_are_refused_before_writing(folder, ninja, line, message):
    os.mkdir("e")
    for name in ("none.gz", "lat.1.gz"):
        (folder / "e" / name).write_bytes((folder / "d/lat.1.gz").read_bytes())
    code, _, errors = ninja(*line.split())
    assert (code, message in errors, len(errors.splitlines())) == (2, True, 1), errors
    assert written_keys() == {}
    assert written_keys("d") == EXPECTED


def test_job_in_the_output_is_the_number_matched_in_the_input(folder, ninja):
    for number in (1, 2):
        os.rename(f"d/lat.{number}.gz", f"d/lat.{number}.8.gz")
    assert ninja("prune", "ark:d/lat.JOB.8.gz", "-o", "d2/JOB.ark")[0] == 0
    assert sorted(os.listdir("d2")) == ["1.ark", "2.ark"]


def test_job_within_a_longer_word_is_not_replaced(folder, ninja):
    assert ninja("prune", "d", "-o", "d2/JOBS.ark")[0] == 0
    assert len(written_keys()["JOBS.ark"]) == 6


@pytest.mark.parametrize("output", ["JOB/JOBS-{}.ark", "ark,t:JOB/JOBS-{}.ark", "ark,scp:JOB/JOBS-{}.ark,JOB/{}.scp"])
def test_job_is_replaced_only_as_a_whole_word_of_file_names(folder, ninja, output):
    os.mkdir("JOB")
    code, _, errors = ninja("prune", "d", "-o", output.format("JOB", "JOB"))
    assert code == 0, errors
    assert [name for name in sorted(os.listdir("JOB")) if name.endswith("ark")] == [
        f"JOBS-{number}.ark" for number in (1, 10, 2)
    ]


def test_similar_notes_of_several_outputs_are_reported_once(folder, ninja):
    code, _, errors = ninja("convert", "d", "--words", "words.txt", "--to", "slf", "-o", "d2")
    assert code == 0
    for number in (1, 2, 10):
        (folder / f"d/lat.{number}.gz.scales.toml").write_text("acoustic_scale = 0.5\nword_penalty = 0.0\n")
    code, _, errors = ninja("prune", "d/lat.*.gz", "-o", "d2/")
    assert code == 0
    assert errors.count("wrote the scales to") == 1, errors
    assert "2 other outputs have similar notes" in errors


@pytest.mark.timeout(60)  # reading a pipe without a writer never ends
def test_unreadable_files_in_a_list_do_not_affect_other_files(folder, ninja):
    os.mkfifo("pipe")
    (folder / "lat.list").write_text(
        "d/lat.1.gz\npipe\nd/lat.2.gz\ns3://b/lat.3.gz\nnone\nark:touch ran |\nd/lat.10.gz\n"
    )
    code, _, errors = ninja("prune", "lat.list", "-o", "d2/", "--allow-pipes")
    assert code == 1
    assert written_keys() == EXPECTED
    assert not (folder / "ran").exists()
    for message in (
        "pipe: cannot be read: a file named in another file must be a regular file, not a pipe or device",
        "lat.list:4: 's3://b/lat.3.gz' is a URL",
        "none: cannot",
    ):
        assert message in errors, errors
    assert "4 failed" in errors
