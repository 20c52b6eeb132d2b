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
def there(tmp_path, monkeypatch):
    """Create a folder d with three gzip archives of two lattices each, and an empty folder d2."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("d")
    os.mkdir("d2")
    for number in (1, 2, 10):
        write_all(f"d/lat.{number}.gz", [lattice(f"a{number}"), lattice(f"b{number}")])
    (tmp_path / "words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    (tmp_path / "lat.list").write_text("".join(f"d/lat.{number}.gz\n" for number in (1, 2, 10)))
    return tmp_path


def written(folder="d2"):
    names = [name for name in sorted(os.listdir(folder)) if not name.endswith(".run")]  # which --resume leaves
    return {name: list(package.keys(f"{folder}/{name}")) for name in names}


EACH = {f"lat.{number}.gz": [f"a{number}", f"b{number}"] for number in (1, 10, 2)}


@pytest.mark.parametrize("source", [["d/lat.JOB.gz"], ["d/lat.1.gz", "d/lat.2.gz", "d/lat.10.gz"], ["d"], ["lat.list"]])
@pytest.mark.parametrize("output", ["d2/lat.JOB.gz", "d2/", "d2", "new/"])
@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_each_input_has_its_output(there, ninja, source, output, options):
    code, _, errors = ninja("prune", *source, "-o", output, *options)
    assert (code, errors.splitlines()[-1].split(",")[0]) == (0, "ninja: 6 lattices"), errors
    assert written("new" if output == "new/" else "d2") == EACH


def test_workers_serve_all_outputs(there, ninja):
    assert ninja("prune", "d/lat.JOB.gz", "-o", "d2/lat.JOB.gz", "--jobs", "2")[0] == 0
    assert written() == EACH


@pytest.mark.parametrize("verb", ["merge", "copy", "to-nbest", "push", "determinize", "minimize"])
def test_many_commands_take_them(there, ninja, verb):
    code, _, errors = ninja(verb, "d/lat.*.gz", "-o", "ark,scp:d2/x-JOB.ark,d2/x-JOB.scp")
    assert code == 0, errors
    assert sorted(os.listdir("d2")) == [f"x-{number}.{end}" for number in (1, 10, 2) for end in ("ark", "scp")]
    assert [key[:3].rstrip("-") for key in package.keys("scp:d2/x-10.scp")] == ["a10", "b10"]


def test_names_get_the_extension_of_the_format(there, ninja):
    assert ninja("convert", "d", "--words", "words.txt", "--to", "json", "-o", "d2")[0] == 0
    assert sorted(os.listdir("d2")) == ["lat.1.jsonl", "lat.10.jsonl", "lat.2.jsonl"]
    assert ninja("convert", "d/lat.1.gz", "--words", "words.txt", "--to", "slf", "-o", "slf/")[0] == 0
    assert sorted(os.listdir("slf")) == ["a1.slf", "b1.slf"]  # which has a file for each lattice
    assert ninja("prune", "slf", "--to", "binary", "-o", "new/")[0] == 0
    assert {name for name in os.listdir("new") if name.endswith("ark")} == {"a1.ark", "b1.ark"}


@pytest.mark.parametrize("verb", ["prune", "convert", "push", "copy", "1best", "scale", "determinize"])
def test_files_in_a_folder_keep_their_format(there, ninja, verb):
    assert ninja("convert", "d/lat.1.gz", "--words", "words.txt", "--to", "slf", "-o", "slf/")[0] == 0
    os.rename("slf/b1.slf", "slf/b1")  # known by its content
    os.mkdir("out")
    for output in ("out", "new/"):
        code, _, errors = ninja(verb, "slf", "-o", output)
        assert code == 0, errors
        assert sorted(os.listdir(output)) == ["a1.slf", "b1.slf"]
        for name in os.listdir(output):
            assert (there / output / name).read_bytes().startswith(b"VERSION=1.1")
            (lattice,) = [lattice for _, lattice in package.read(f"{output}/{name}")]
            assert lattice.words.spell(lattice.word[lattice.word > 0]) == ["five", "six"]


def test_files_of_rescored_lattices_keep_their_format(there, ninja):
    pytest.importorskip("torch")
    assert ninja("convert", "d/lat.1.gz", "--words", "words.txt", "--to", "slf", "-o", "slf/")[0] == 0
    code, _, errors = ninja("rescore", "slf/", "-o", "out/")
    assert code == 0, errors
    assert [name for name in sorted(os.listdir("out")) if not name.endswith(".toml")] == ["a1.slf", "b1.slf"]
    assert (there / "out/a1.slf").read_bytes().startswith(b"VERSION=1.1")


def test_a_format_that_is_only_read_is_not_kept(there, ninja):
    os.mkdir("t")
    (there / "t/y.columns").write_text("y-1 -10.5 -2 | five six\n")
    code, _, errors = ninja("convert", "t/y.columns", "-o", "new/")
    assert (code, "cannot be written to one file per input; use --to" in errors) == (2, True), errors


def test_an_interrupted_run_goes_on_with_the_output_it_was_at(there, ninja, monkeypatch):
    with interrupt_at(4, monkeypatch):
        assert ninja("prune", "d/lat.JOB.gz", "-o", "d2/lat.JOB.gz", "--resume")[0] == 130
    code, _, errors = ninja("prune", "d/lat.JOB.gz", "-o", "d2/lat.JOB.gz", "--resume")
    assert code == 0
    assert ".lat.2.gz.part: resuming after 1 lattice of an earlier attempt" in errors
    assert "skipped 3 lattices that are already in the output" in errors
    assert written() == EACH


def test_an_input_without_lattices_gives_an_empty_output_and_a_damaged_one_none(there, ninja):
    (there / "d/lat.1.gz").write_bytes(b"")
    (there / "d/lat.2.ark").write_bytes(b"")
    code, _, errors = ninja("prune", "d/lat.1.gz", "d/lat.2.ark", "d/lat.10.gz", "-o", "d2/lat.JOB.ark")
    assert code == 1
    assert written() == {"lat.10.ark": ["a10", "b10"], "lat.2.ark": []}
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
def test_impossible_outputs_are_refused_before_anything_is_written(there, ninja, line, message):
    os.mkdir("e")
    for name in ("none.gz", "lat.1.gz"):
        (there / "e" / name).write_bytes((there / "d/lat.1.gz").read_bytes())
    code, _, errors = ninja(*line.split())
    assert (code, message in errors, len(errors.splitlines())) == (2, True, 1), errors
    assert written() == {}
    assert written("d") == EACH


def test_the_number_is_the_one_that_job_stands_for(there, ninja):
    for number in (1, 2):
        os.rename(f"d/lat.{number}.gz", f"d/lat.{number}.8.gz")
    assert ninja("prune", "ark:d/lat.JOB.8.gz", "-o", "d2/JOB.ark")[0] == 0
    assert sorted(os.listdir("d2")) == ["1.ark", "2.ark"]


def test_a_name_with_job_in_a_word_is_a_name(there, ninja):
    assert ninja("prune", "d", "-o", "d2/JOBS.ark")[0] == 0
    assert len(written()["JOBS.ark"]) == 6


@pytest.mark.parametrize("output", ["JOB/JOBS-{}.ark", "ark,t:JOB/JOBS-{}.ark", "ark,scp:JOB/JOBS-{}.ark,JOB/{}.scp"])
def test_only_whole_words_in_file_names_are_replaced(there, ninja, output):
    os.mkdir("JOB")
    code, _, errors = ninja("prune", "d", "-o", output.format("JOB", "JOB"))
    assert code == 0, errors
    assert [name for name in sorted(os.listdir("JOB")) if name.endswith("ark")] == [
        f"JOBS-{number}.ark" for number in (1, 10, 2)
    ]


def test_notes_on_all_outputs_are_reported_once(there, ninja):
    code, _, errors = ninja("convert", "d", "--words", "words.txt", "--to", "slf", "-o", "d2")
    assert code == 0
    for number in (1, 2, 10):
        (there / f"d/lat.{number}.gz.scales.toml").write_text("acoustic_scale = 0.5\nword_penalty = 0.0\n")
    code, _, errors = ninja("prune", "d/lat.*.gz", "-o", "d2/")
    assert code == 0
    assert errors.count("wrote the scales to") == 1, errors
    assert "2 other outputs have similar notes" in errors


@pytest.mark.timeout(60)  # a pipe that is never written to never ends
def test_a_name_of_a_list_that_cannot_be_read_costs_no_other(there, ninja):
    os.mkfifo("pipe")
    (there / "lat.list").write_text(
        "d/lat.1.gz\npipe\nd/lat.2.gz\ns3://b/lat.3.gz\nnone\nark:touch ran |\nd/lat.10.gz\n"
    )
    code, _, errors = ninja("prune", "lat.list", "-o", "d2/", "--allow-pipes")
    assert code == 1
    assert written() == EACH
    assert not (there / "ran").exists()
    for said in (
        "pipe: cannot be read: a file that is named in another file must be a regular file",
        "lat.list:4: 's3://b/lat.3.gz' is a URL",
        "none: cannot",
    ):
        assert said in errors, errors
    assert "4 failed" in errors
