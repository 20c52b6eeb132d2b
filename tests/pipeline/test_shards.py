"""Runs in shards: split, done by any worker in any order, killed, joined; the output equals that of one run."""

import gzip
import hashlib
import json
import os
import pickle
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_files import write_all
from shards import run_shards

import ninja as package
from ninja.cli.shards import CommandWork
from ninja.errors import FormatError, OptionError
from ninja.files.stream import Place, Table
from ninja.graph import from_arcs
from ninja.pipeline import archive_positions
from ninja.pipeline.plan import Plan, Shard, units
from ninja.pipeline.shard import missing, run_shard

EXAMPLES = Path(__file__).parents[2] / "examples"


def forms():
    lattices = [lattice for _, lattice in package.read("lat.ark")]
    write_all("lat.txt", lattices)
    write_all("ark,scp:listed.ark,listed.scp", lattices)
    for number in range(1, 8):
        write_all(f"part.{number}.gz", lattices[6 * number - 6 : 6 * number])
    Path("mixed.list").write_text("part.1.gz\npart.2.gz\nlat.ark\npart.7.gz\nlat.txt\n")


SOURCES = [["lat.ark"], ["lat.txt"], ["listed.scp"], ["part.JOB.gz"], ["mixed.list"], ["ark:lat.ark", "scp:listed.scp"]]


@pytest.mark.parametrize("source", SOURCES, ids=" ".join)
@pytest.mark.parametrize("shards", [1, 3, 15])
def test_joined_parts_are_the_bytes_of_one_run(here, ninja, source, shards):
    forms()
    order = list(range(1, shards + 1))
    random.Random(shards).shuffle(order)
    for output in ("out.ark", "ark,t:out.txt", "ark,scp:o.ark,o.scp")[shards == 15 :]:
        name = output.rpartition(":")[2].split(",")[0]
        names = [name, "o.scp"] if name == "o.ark" else [name]
        assert ninja("prune", *source, "--beam", "4", "-o", output)[0] == 0
        expected = [Path(each).read_bytes() for each in names]
        for each in names:
            os.remove(each)
        run_shards(ninja, shards, "prune", *source, "--beam", "4", "-o", output, order=order)
        code, _, errors = ninja("gather", name)
        assert code == 0, errors
        assert [Path(each).read_bytes() for each in names] == expected
        assert not [each for each in os.listdir(f"{name}.shards") if each.startswith(".")]


def test_packed_parts_are_joined_by_their_members(here, ninja):
    assert ninja("prune", "lat.ark", "-o", "one.ark.gz")[0] == 0
    run_shards(ninja, 3, "prune", "lat.ark", "-o", "out.ark.gz")
    assert ninja("gather", "out.ark.gz.shards", "--remove-parts")[0] == 0
    joined, one = (gzip.decompress(Path(name).read_bytes()) for name in ("out.ark.gz", "one.ark.gz"))
    assert joined == one
    assert not os.path.exists("out.ark.gz.shards")
    assert ninja("gather", "out.ark.gz")[0] == 1


TEXTS = [
    ["best", "--words", "words.txt", "--alignment", "{}.ali", "--cost", "{}.cost", "-o", "{}.txt"],
    ["nbest", "--n", "3", "--words", "words.txt", "-o", "{}.txt"],
    ["best-path", "-o", "ark,t:{}.tra", "--alignments", "ark,t:{}.ali", "--write-lattices", "ark:{}.ark"],
    ["mbr-decode", "--words", "words.txt", "-o", "{}.txt", "--sausage", "{}.sau"],
    ["to-ctm-conf", "--words", "words.txt", "-o", "{}.ctm"],
    ["arc-post", "-o", "{}.post"],
    ["to-post", "-o", "ark:{}.post"],
    ["oracle", "--ref", "text", "--words", "words.txt", "-o", "{}.txt", "--details", "{}.details"],
    ["depth", "-o", "{}.depth"],
    ["to-fst", "-o", "ark:{}.fsts"],
    ["copy", "--include", "some.keys", "-o", "{}.ark"],
]


@pytest.mark.parametrize("command", TEXTS, ids=lambda command: command[0])
def test_all_outputs_of_a_command_are_joined(here, ninja, command):
    shutil.copy(EXAMPLES / "text", ".")
    keys = list(package.keys("lat.ark"))
    Path("some.keys").write_text(f"{keys[0]}\n{keys[1]}\n")  # other shards have none of them
    verb, *options = command
    assert ninja(verb, "lat.ark", *[each.format("one") for each in options])[0] == 0
    run_shards(ninja, 3, verb, "lat.ark", *[each.format("out") for each in options])
    (folder,) = [each for each in os.listdir() if each.endswith(".shards")]
    code, _, errors = ninja("gather", folder)
    assert code == 0, errors
    joined = {each.removeprefix("out"): Path(each).read_bytes() for each in os.listdir() if each.startswith("out.")
              and not each.endswith(".shards")}  # fmt: skip
    expected = {each.removeprefix("one"): Path(each).read_bytes() for each in os.listdir() if each.startswith("one.")}
    assert joined == expected


def test_several_archives_are_joined_by_key(here, ninja):
    assert ninja("prune", "lat.ark", "--beam", "3", "-o", "narrow.ark")[0] == 0
    assert ninja("union", "lat.ark", "narrow.ark", "-o", "one.ark")[0] == 0
    run_shards(ninja, 4, "union", "lat.ark", "narrow.ark", "-o", "out.ark", order=[4, 2, 1, 3])
    assert ninja("gather", "out.ark")[0] == 0
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()


# Cuts


def begins(path):
    """Return the positions of all lattices of a binary archive by reading it completely, to check
    `next_lattice_begin`."""
    copy = Path(path).parent
    write_all(f"ark,scp:{copy}/copy.ark,{copy}/copy.scp", (lattice for _, lattice in package.read(path)))
    rows = [line.split() for line in (copy / "copy.scp").read_text().splitlines()]
    assert (copy / "copy.ark").read_bytes() == Path(path).read_bytes()
    return [int(place.rpartition(":")[2]) - len(key.encode()) - 1 for key, place in rows]


@settings(max_examples=12)
@given(st.data())
def test_a_cut_is_the_next_begin_of_a_lattice(tmp_path_factory, data):
    path = str(tmp_path_factory.mktemp("cuts") / "lat.ark")
    head = np.frombuffer(b"utt \xd6\xfd\xb2\x7e\x06\0\0\0vector\x08\0\0\0lattice4\2\0\0\0\0\0", np.int32)
    labels = st.lists(st.one_of(st.integers(1, 1 << 30), st.sampled_from([0x20414141, 0x7EB2FDD6])), max_size=6)
    with package.write(path) as output:
        for number in range(data.draw(st.integers(1, 5))):
            ali = data.draw(labels)
            if data.draw(st.booleans()):
                ali = [*ali, *head.tolist(), *ali]  # bytes that look like the beginning of a lattice
            key = data.draw(st.sampled_from(["a", "utt-ü", "x" * 300])) + str(number)
            output.write(from_arcs(key, [0], [1], [5], [0.5], labels=[ali], finals={1: 0.0}))
    places = begins(path)
    size = os.path.getsize(path)
    offset = data.draw(st.integers(0, size))
    expected = next((place for place in [*places, size] if place >= offset), size)
    assert archive_positions.next_lattice_begin(path, offset, text=False) == expected


def test_cuts_lie_at_begins_wherever_blocks_end(here, monkeypatch):
    places = begins("lat.ark")
    size = os.path.getsize("lat.ark")
    monkeypatch.setattr(archive_positions, "BLOCK", 3 * archive_positions.LONGEST_HEAD)
    for offset in range(0, size, 30_011):
        expected = next((place for place in places if place >= offset), size)
        assert archive_positions.next_lattice_begin("lat.ark", offset, text=False) == expected


def test_lattices_within_the_labels_of_another_do_not_cut_it_unseen(here, ninja):
    small = [from_arcs(f"inner{n}", [0], [1], [5], [0.5], finals={1: 0.0}) for n in range(6)]
    write_all("inner.ark", small)
    content = b"\0\0\0\0" + Path("inner.ark").read_bytes()
    content += b"\0" * (-len(content) % 4)
    with package.write("lat.ark") as output:
        output.write(from_arcs("outer", [0], [1], [5], [0.5], labels=[np.frombuffer(content, np.int32).tolist()],
                               finals={1: 0.0}))  # fmt: skip
    codes = [ninja("copy", "lat.ark", "-o", "out.ark", "--shard", f"{number}/2")[0] for number in (1, 2)]
    assert codes[0] == 1  # the first shard is left with half a lattice, and says so
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "outer" in errors


@pytest.mark.parametrize("name", ["lat.ark", "lat.txt", "listed.scp", "part.*.gz", "mixed.list"])
def test_shards_have_each_lattice_once_and_about_the_same_size(here, name):
    forms()
    found, states = units(name)
    for shards in (1, 2, 5, 16, 100):
        plan = Plan("x", shards, "copy", {}, "1", (), tuple(states), tuple(found))
        parts = [plan.tables(Shard(number, shards)) for number in range(1, shards + 1)]
        keys = [key for part in parts if part for key in package.keys(part)]
        assert keys == list(package.keys(name))
    whole = sum(unit.size for unit in found)
    halves = Plan("x", 2, "copy", {}, "1", (), tuple(states), tuple(found))
    largest = max(len(lattice.word) for _, lattice in package.read("lat.ark"))
    assert largest
    first = sum((each.place.end or os.path.getsize(each.place.path)) - each.place.offset
                for each in halves.tables(Shard(1, 2)))  # fmt: skip
    if not name.endswith("scp"):
        assert abs(first - whole / 2) < whole / 5


def test_plans_follow_from_sources_and_number_alone(here):
    forms()
    plans = []
    for _ in range(2):
        found, states = units(["lat.ark", "listed.scp"])
        plans.append(Plan("x", 7, "copy", {}, "1", (), tuple(states), tuple(found)))
    assert plans[0].digest == plans[1].digest
    assert [plans[0].tables(Shard(n, 7)) for n in range(1, 8)] == [plans[1].tables(Shard(n, 7)) for n in range(1, 8)]
    assert pickle.loads(pickle.dumps(plans[0])).tables(Shard(3, 7)) == plans[0].tables(Shard(3, 7))


@pytest.mark.parametrize("cores", [1, 2])
def test_stretches_of_an_archive_are_read_to_their_ends(here, monkeypatch, cores):
    monkeypatch.setattr("ninja.formats.kaldi.archive.num_cores", lambda: cores)  # with two, a compiled thread reads
    places = [*begins("lat.ark"), os.path.getsize("lat.ark")]
    keys = list(package.keys("lat.ark"))
    for first, last in ((0, 40), (3, 4), (7, 31), (39, 40)):
        stretch = Table(Place("lat.ark", places[first], end=places[last]))
        assert [key for key, _ in package.read((stretch,))] == keys[first:last]
    cut = Table(Place("lat.ark", places[5], end=places[7] - 9))
    with pytest.raises(FormatError, match=f"byte {places[7] - 20}, .*: the file ends within a state"):
        list(package.read((cut,)))


def test_faults_of_stretches_are_said_with_their_place_in_the_file(here, ninja):
    forms()
    rows = Path("listed.scp").read_text().splitlines()
    rows[30] = "broken nowhere.ark:17"
    Path("listed.scp").write_text("\n".join(rows) + "\n")
    errors = [ninja("copy", "listed.scp", "-o", "out.ark", "--shard", f"{number}/3")[2] for number in (1, 2, 3)]
    assert sum("failed: listed.scp:31" in each or "nowhere.ark" in each for each in errors) == 1


# Records


def test_a_shard_that_is_done_is_not_run_again(here, ninja):
    command = ["prune", "lat.ark", "-o", "out.ark"]
    run_shards(ninja, 3, *command)
    part = Path("out.ark.shards/00002-of-00003.out.ark")
    changed = part.stat().st_mtime_ns
    assert "shard 2 of 3 is already complete" in ninja(*command, "--shard", "2/3")[2]
    assert part.stat().st_mtime_ns == changed
    content = part.read_bytes()
    part.write_bytes(content[:-1])  # cut short
    assert ninja(*command, "--shard", "2/3", "--resume")[0] == 0
    assert part.read_bytes() == content
    part.unlink()
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "shard 2 of 3 must still be run: 2 (--shard 2/3)" in errors
    assert not os.path.exists("out.ark")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--beam", "5"], "another --beam"),
        (["--words", "words.txt"], None),
        (["--jobs", "1"], None),
        (["--on-error", "raise"], "another --on-error"),
    ],
)
def test_a_changed_option_is_refused(here, ninja, change, said):
    command = ["prune", "lat.ark", "-o", "out.ark"]
    assert ninja(*command, "--shard", "1/2")[0] == 0
    code, _, errors = ninja(*command, *change, "--shard", "2/2")
    assert (code == 0) == (said is None), errors
    assert said is None or said in errors


def test_changed_sources_models_and_numbers_are_refused(here, ninja):
    shutil.copy("words.txt", "own.txt")
    command = ["best", "lat.ark", "--words", "own.txt", "-o", "out.txt", "--shard"]
    assert ninja(*command, "1/2")[0] == 0
    code, _, errors = ninja(*command, "2/3")
    assert code == 2
    assert "run with 2 shards; remove it, or choose another output" in errors
    with open("own.txt", "a") as words:
        words.write("more 999999\n")
    code, _, errors = ninja(*command, "2/2")
    assert code == 2
    assert "another --words" in errors
    shutil.copy("words.txt", "own.txt")
    assert ninja(*command, "2/2")[0] == 0
    os.utime("lat.ark", ns=(1, 1))
    code, _, errors = ninja(*command, "2/2")
    assert code == 2
    assert "other sources: lat.ark has changed since then" in errors


def test_parts_of_two_plans_are_not_joined(here, ninja):
    run_shards(ninja, 2, "prune", "lat.ark", "-o", "out.ark")
    record = Path("out.ark.shards/00002-of-00002.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"plan": "0"}))
    code, _, errors = ninja("gather", "out.ark")
    assert code == 2
    assert "contains shards of a run with other options" in errors


def test_a_changed_part_is_not_joined(here, ninja):
    run_shards(ninja, 2, "prune", "lat.ark", "-o", "out.ark")
    part = Path("out.ark.shards/00001-of-00002.out.ark")
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "00001-of-00002.out.ark: does not match the record of its shard" in errors
    assert not os.path.exists("out.ark")


def test_a_first_try_with_a_wrong_option_leaves_no_plan_behind(here, ninja):
    command = ["rescore", "lat.ark", "--rnnlm", "none", "-o", "out.ark", "--shard", "1/2"]
    assert ninja(*command)[0] == 2
    assert ninja("prune", "lat.ark", "-o", "out.ark", "--shard", "1/2")[0] == 0


def test_failures_stand_in_the_records(here, ninja):
    write_all("lat.ark", (from_arcs(key, [0], [1], [5], [0.5], finals={1: 0.0}) for key in "abcdefgh"))
    content = Path("lat.ark").read_bytes()
    nan = np.float32(np.nan).tobytes()
    Path("lat.ark").write_bytes(content.replace(np.float32(0.5).tobytes(), nan, 1))  # of the first lattice
    assert ninja("copy", "lat.ark", "-o", "one.ark")[0] == 1
    codes = [ninja("copy", "lat.ark", "-o", "out.ark", "--shard", f"{number}/8")[0] for number in range(1, 9)]
    assert codes == [1] + 7 * [0]
    assert ninja("copy", "lat.ark", "-o", "out.ark", "--shard", "1/8")[0] == 1
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "7 lattices from 8 shards, 1 failed" in errors
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()


# What cannot be done


REFUSED = [
    (["prune", "lat.ark"], "--shard requires an output file; specify it with -o"),
    (["prune", "-", "-o", "out.ark"], "standard input cannot be divided into shards"),
    (["copy", "lat.ark", "--include", "-", "-o", "out.ark"], "standard input cannot be read by several shards"),
    (["prune", "ark:cat lat.ark; |", "--allow-pipes", "-o", "out.ark"], "cannot be divided into shards"),
    (["prune", "lat.ark", "-o", "lat.JOB.ark"], "with --shard, the output must be a single file"),
    (["prune", "lat.ark", "-o", "folder/"], "with --shard, the output must be a single file"),
    (["convert", "lat.ark", "--words", "words.txt", "-o", "out.arrow"], "outputs of shards cannot be joined"),
    (["copy", "lat.ark", "-o", "out.ark", "--strict"], "--strict depends on all lattices"),
    (["best", "lat.ark", "-o", "a/x", "--cost", "b/y"], "must be in the same folder"),
    (["best", "lat.ark", "-o", "a/x", "--cost", "./a/../a/x"], "two outputs would be written to this file"),
]


@pytest.mark.parametrize(("command", "said"), REFUSED, ids=lambda value: " ".join(value) if len(value) < 9 else "")
def test_parts_that_cannot_be_joined_are_refused(here, ninja, command, said):
    os.mkdir("a")
    os.mkdir("b")
    code, _, errors = ninja(*command, "--shard", "1/2")
    assert code in (1, 2)
    assert re.search(said, errors), errors
    assert not [each for each in os.listdir() if each.endswith(".shards")]


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "-1/3", "1/0"])
def test_a_shard_that_there_is_not_is_refused(here, ninja, shard):
    assert ninja("prune", "lat.ark", "-o", "out.ark", "--shard", shard)[0] == 2


def test_words_of_the_sources_own_order_need_a_table(here, ninja):
    assert ninja("convert", "lat.ark", "--words", "words.txt", "--to", "slf", "-o", "slf")[0] == 0
    os.rename("words.txt", "table.txt")
    code, _, errors = ninja("convert", "slf", "-o", "out.ark", "--shard", "1/2")
    assert code == 2
    assert "--shard requires --words" in errors
    assert not [each for each in os.listdir("out.ark.shards") if each != "plan.json"]
    assert ninja("convert", "slf", "--words", "table.txt", "-o", "one.ark")[0] == 0
    run_shards(ninja, 4, "convert", "slf", "--words", "table.txt", "-o", "out.ark")
    assert ninja("gather", "out.ark")[0] == 0
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()


def test_a_shard_without_lattices_says_so(here, ninja):
    shutil.copy(EXAMPLES / "lat.ark.gz", ".")
    said = [ninja("prune", "lat.ark.gz", "-o", "out.ark", "--shard", f"{number}/3") for number in (1, 2, 3)]
    assert [code for code, _, _ in said] == [0, 0, 0]
    assert sum("has no lattices; use fewer shards" in errors for _, _, errors in said) == 2
    assert ninja("gather", "out.ark")[0] == 0


def test_records_hold_a_checksum_of_the_keys(here, ninja):
    run_shards(ninja, 2, "prune", "lat.ark", "-o", "out.ark")
    run_shards(ninja, 2, "best", "lat.ark", "-o", "out.txt")
    for number in (1, 2):
        found = [json.loads(Path(f"{name}.shards/0000{number}-of-00002.json").read_text())["keys"]
                 for name in ("out.ark", "out.txt")]  # fmt: skip
        keys = "".join(f"{key}\n" for key in package.keys(f"out.ark.shards/0000{number}-of-00002.out.ark"))
        assert found == 2 * [hashlib.sha256(keys.encode()).hexdigest()]


def test_a_command_is_work_for_other_processes(here, ninja):
    command = ("prune", "lat.ark", "--beam", "4", "-o", "out.ark")
    work = pickle.loads(pickle.dumps(CommandWork(command)))
    plan = work.plan(3)
    assert ninja(*command, "--shard", "2/3")[0] == 0
    assert [shard.number for shard in missing(plan)] == [1, 3]  # the plan is the same
    for shard in missing(plan):
        assert run_shard(plan, shard, work).failures == ()
    assert ninja("gather", "out.ark")[0] == 0
    expected = Path("out.ark").read_bytes()
    assert ninja(*command)[0] == 0
    assert Path("out.ark").read_bytes() == expected
    with pytest.raises(OptionError, match="merge cannot run in shards"):
        CommandWork(("merge", "lat.ark", "-o", "out.ark")).plan(3)
