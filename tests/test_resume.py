"""Outputs that are taken up again: their scales, and what an interruption keeps."""

import contextlib
import os
from pathlib import Path

import pytest

import ninja as package
from ninja import ChosenScales, Scales
from ninja.errors import OptionError
from ninja.graph import from_arcs

HALF = ChosenScales(Scales(0.1), lm_weight=0.5)
MORE = ChosenScales(Scales(0.1), lm_weight=0.9)


def lattice(key):
    return from_arcs(key, [0, 1], [1, 2], [5, 6], [0.5, 1.5], finals={2: 0.0})


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interrupt(name="a.gz", chosen=HALF, keys=("a", "b"), **how):
    output = package.write(name, resume=True, chosen=chosen, **how)
    with contextlib.suppress(KeyboardInterrupt), output:
        for key in keys:
            output.write(lattice(key))
        raise KeyboardInterrupt
    return output


def contents():
    return {path.name: path.read_bytes() for path in Path().iterdir()}


@pytest.mark.parametrize("name", ["a.gz", "a.ark", "ark,t:a.txt", "ark,scp:a.ark,a.scp"])
def test_an_interrupted_output_is_not_taken_up_with_other_scales(name):
    assert interrupt(name).kept == 2
    before = contents()
    with pytest.raises(OptionError, match=r"was made with lm_weight 0\.5, not 0\.9; give the same options, or leave"):
        interrupt(name, MORE)
    with pytest.raises(OptionError, match=r"made with acoustic_scale 0\.1 and .*, not without scales; give"):
        interrupt(name, None)
    assert contents() == before
    with package.write(name, resume=True, chosen=HALF) as output:
        assert set(output.keys_done) == {"a", "b"}
        output.write(lattice("c"))
    assert package.find_scales(name.split(",")[-1].split(":")[-1]) == HALF
    assert not [each for each in os.listdir() if ".part" in each]


def test_a_finished_output_is_not_taken_up_with_other_scales():
    with package.write("a.gz", chosen=HALF) as output:
        output.write(lattice("a"))
    before = contents()
    with pytest.raises(OptionError, match=r"a\.gz: an earlier attempt was made with lm_weight 0\.5, not 0\.9"):
        interrupt(chosen=MORE)
    assert contents() == before
    with package.write("a.gz", resume=True, chosen=HALF) as output:
        assert set(output.keys_done) == {"a"}
    assert contents() == before  # no byte is added where no lattice is


def test_an_output_begun_anew_forgets_the_scales_of_an_earlier_attempt():
    interrupt()
    with package.write("a.gz", chosen=MORE) as output:
        output.write(lattice("a"))
    assert package.find_scales("a.gz") == MORE
    interrupt(chosen=MORE)
    with package.write("a.gz") as output:
        output.write(lattice("a"))
    assert os.listdir() == ["a.gz"]
    with package.write("a.gz", resume=True) as output:
        output.write(lattice("b"))
    os.remove("a.gz")
    Path(".a.gz.scales.toml.part").write_text("lm_weight = 0.5\n")  # of an output that is gone
    interrupt(chosen=MORE)


def test_an_attempt_without_a_lattice_leaves_nothing():
    assert interrupt(keys=()).kept == 0
    assert os.listdir() == []


@pytest.fixture
def broken(monkeypatch):
    """Interrupt a command at its third lattice."""
    with package.write("in.ark") as output:
        for key in "abcd":
            output.write(lattice(key))
    write = package.io.lattice_writer.LatticeWriter.write
    seen = []

    def put(self, item, **how):
        seen.append(item.key)
        if len(seen) == 3:
            raise KeyboardInterrupt
        write(self, item, **how)

    monkeypatch.setattr("ninja.io.lattice_writer.LatticeWriter.write", put)
    monkeypatch.setattr("ninja.io.kaldi_writer.KaldiWriter.prepared", lambda self, batch: None)  # one by one


def test_an_interrupted_command_says_what_is_kept(ninja, broken):
    code, _, errors = ninja("prune", "in.ark", "-o", "out.gz", "--resume")
    said = ["ninja: 2 lattices are kept; the same command with --resume goes on from there", "ninja: interrupted"]
    assert (code, [*filter(None, errors.splitlines())]) == (130, said)
    assert ninja("prune", "in.ark", "-o", "out.gz", "--resume")[0] == 0
    assert list(package.keys("out.gz")) == list("abcd")


def test_an_interrupted_command_without_resume_leaves_no_folder(ninja, broken):
    code, _, errors = ninja("prune", "in.ark", "-o", "new/")
    assert (code, errors.strip()) == (130, "ninja: interrupted")
    assert os.listdir() == ["in.ark"]


def test_no_output_of_several_is_written_where_one_has_other_scales(ninja):
    for number in (1, 2):
        with package.write(f"lat.{number}.gz") as output:
            output.write(lattice(str(number)))
    Path("words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    Path("names.txt").write_text("five\n")
    os.mkdir("out")
    interrupt("out/lat.2.gz", ChosenScales(Scales(0.5)))
    line = ["context", "lat.JOB.gz", "--words", "words.txt", "--entities", "names.txt", "-o", "out/lat.JOB.gz"]
    code, _, errors = ninja(*line, "--resume")
    assert code == 2
    made = "out/lat.2.gz: an earlier attempt was made with --acoustic-scale 0.5, not 0.1"
    assert errors == f"ninja: error: {made}; give the same options, or leave --resume out to begin anew\n"
    assert sorted(os.listdir("out")) == [".lat.2.gz.part", ".lat.2.gz.scales.toml.part"]


def test_folders_with_something_in_them_stay(ninja):
    with package.write("in.ark") as output:
        output.write(lattice("a"))
    assert ninja("prune", "in.ark", "-o", "new/")[0] == 0
    assert os.listdir("new") == ["in.ark"]
