"""Shards of a run in any order: the joined output equals that of a single run."""

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
from example_lattices import EXAMPLES
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


def write_sources():
    lattices = [lattice for _, lattice in package.read("lat.ark")]
    write_all("lat.txt", lattices)
    write_all("ark,scp:listed.ark,listed.scp", lattices)
    for number in range(1, 8):
        write_all(f"part.{number}.gz", lattices[6 * number - 6 : 6 * number])
    Path("mixed.list").write_text("part.1.gz\npart.2.gz\nlat.ark\npart.7.gz\nlat.txt\n")


SOURCES = [["lat.ark"], ["lat.txt"], ["listed.scp"], ["part.JOB.gz"], ["mixed.list"], ["ark:lat.ark", "scp:listed.scp"]]


@pytest.mark.parametrize("source", SOURCES, ids=" ".join)
@pytest.mark.parametrize("shards", [1, 3, 15])
def test_joined_parts_equal_the_output_of_a_single_run(example_folder, ninja, source, shards):
    write_sources()
    order = list(range(1, shards + 1))
    random.Random(shards).shuffle(order)
    for output in ("out.ark", "ark,t:out.txt", "ark,scp:o.ark,o.scp")[shards == 15 :]:
        name = output.rpartition(":")[2].split(",")[0]
        names = [name, "o.scp"] if name == "o.ark" else [name]
        assert ninja("prune", *source, "--beam", "4", "-o", output)[0] == 0
        expected = [Path(file_name).read_bytes() for file_name in names]
        for file_name in names:
            os.remove(file_name)
        run_shards(ninja, shards, "prune", *source, "--beam", "4", "-o", output, order=order)
        code, _, errors = ninja("gather", name)
        assert code == 0, errors
        assert [Path(file_name).read_bytes() for file_name in names] == expected
        assert not [part for part in os.listdir(f"{name}.shards") if part.startswith(".")]


def test_gzip_parts_are_joined_by_concatenation(example_folder, ninja):
    assert ninja("prune", "lat.ark", "-o", "one.ark.gz")[0] == 0
    run_shards(ninja, 3, "prune", "lat.ark", "-o", "out.ark.gz")
    assert ninja("gather", "out.ark.gz.shards", "--remove-parts")[0] == 0
    joined, expected = (gzip.decompress(Path(name).read_bytes()) for name in ("out.ark.gz", "one.ark.gz"))
    assert joined == expected
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
def test_all_outputs_of_a_command_are_joined(example_folder, ninja, command):
    shutil.copy(EXAMPLES / "text", ".")
    keys = list(package.keys("lat.ark"))
    Path("some.keys").write_text(f"{keys[0]}\n{keys[1]}\n")  # only the first shard contains them
    verb, *options = command
    assert ninja(verb, "lat.ark", *[option.format("one") for option in options])[0] == 0
    run_shards(ninja, 3, verb, "lat.ark", *[option.format("out") for option in options])
    (folder,) = [name for name in os.listdir() if name.endswith(".shards")]
    code, _, errors = ninja("gather", folder)
    assert code == 0, errors
    joined = {name.removeprefix("out"): Path(name).read_bytes() for name in os.listdir() if name.startswith("out.")
              and not name.endswith(".shards")}  # fmt: skip
    expected = {name.removeprefix("one"): Path(name).read_bytes() for name in os.listdir() if name.startswith("one.")}
    assert joined == expected


def test_several_archives_are_joined_by_key(example_folder, ninja):
    assert ninja("prune", "lat.ark", "--beam", "3", "-o", "narrow.ark")[0] == 0
    assert ninja("union", "lat.ark", "narrow.ark", "-o", "one.ark")[0] == 0
    run_shards(ninja, 4, "union", "lat.ark", "narrow.ark", "-o", "out.ark", order=[4, 2, 1, 3])
    assert ninja("gather", "out.ark")[0] == 0
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()


# Boundaries of shards


def lattice_positions(path):
    """Return the begin of each lattice of a binary archive by reading it completely."""
    copy = Path(path).parent
    write_all(f"ark,scp:{copy}/copy.ark,{copy}/copy.scp", (lattice for _, lattice in package.read(path)))
    rows = [line.split() for line in (copy / "copy.scp").read_text().splitlines()]
    assert (copy / "copy.ark").read_bytes() == Path(path).read_bytes()
    return [int(position.rpartition(":")[2]) - len(key.encode()) - 1 for key, position in rows]


@settings(max_examples=12)
@given(st.data())
def test_next_lattice_begin_agrees_with_reading_the_archive(tmp_path_factory, data):
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
    positions = lattice_positions(path)
    size = os.path.getsize(path)
    offset = data.draw(st.integers(0, size))
    expected = next((position for position in [*positions, size] if position >= offset), size)
    assert archive_positions.next_lattice_begin(path, offset, text=False) == expected


def test_next_lattice_begin_is_exact_for_small_blocks(example_folder, monkeypatch):
    positions = lattice_positions("lat.ark")
    size = os.path.getsize("lat.ark")
    monkeypatch.setattr(archive_positions, "BLOCK", 3 * archive_positions.LONGEST_HEAD)
    for offset in range(0, size, 30_011):
        expected = next((position for position in positions if position >= offset), size)
        assert archive_positions.next_lattice_begin("lat.ark", offset, text=False) == expected


def test_a_shard_boundary_within_the_labels_of_a_lattice_is_an_error(example_folder, ninja):
    small = [from_arcs(f"inner{n}", [0], [1], [5], [0.5], finals={1: 0.0}) for n in range(6)]
    write_all("inner.ark", small)
    content = b"\0\0\0\0" + Path("inner.ark").read_bytes()
    content += b"\0" * (-len(content) % 4)
    with package.write("lat.ark") as output:
        output.write(from_arcs("outer", [0], [1], [5], [0.5], labels=[np.frombuffer(content, np.int32).tolist()],
                               finals={1: 0.0}))  # fmt: skip
    codes = [ninja("copy", "lat.ark", "-o", "out.ark", "--shard", f"{number}/2")[0] for number in (1, 2)]
    assert codes[0] == 1  # the first shard ends within a lattice, which is an error
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "outer" in errors


@pytest.mark.parametrize("name", ["lat.ark", "lat.txt", "listed.scp", "part.*.gz", "mixed.list"])
def test_shards_contain_each_lattice_once_and_have_similar_sizes(example_folder, name):
    write_sources()
    source_units, states = units(name)
    for shards in (1, 2, 5, 16, 100):
        plan = Plan("x", shards, "copy", {}, "1", (), tuple(states), tuple(source_units))
        parts = [plan.tables(Shard(number, shards)) for number in range(1, shards + 1)]
        keys = [key for part in parts if part for key in package.keys(part)]
        assert keys == list(package.keys(name))
    whole = sum(unit.size for unit in source_units)
    halves = Plan("x", 2, "copy", {}, "1", (), tuple(states), tuple(source_units))
    largest = max(len(lattice.word) for _, lattice in package.read("lat.ark"))
    assert largest
    first = sum((table.place.end or os.path.getsize(table.place.path)) - table.place.offset
                for table in halves.tables(Shard(1, 2)))  # fmt: skip
    if not name.endswith("scp"):
        assert abs(first - whole / 2) < whole / 5


def test_plans_depend_only_on_sources_and_number_of_shards(example_folder):
    write_sources()
    plans = []
    for _ in range(2):
        source_units, states = units(["lat.ark", "listed.scp"])
        plans.append(Plan("x", 7, "copy", {}, "1", (), tuple(states), tuple(source_units)))
    assert plans[0].digest == plans[1].digest
    assert [plans[0].tables(Shard(n, 7)) for n in range(1, 8)] == [plans[1].tables(Shard(n, 7)) for n in range(1, 8)]
    assert pickle.loads(pickle.dumps(plans[0])).tables(Shard(3, 7)) == plans[0].tables(Shard(3, 7))


@pytest.mark.parametrize("cores", [1, 2])
def test_byte_ranges_of_an_archive_are_read_completely(example_folder, monkeypatch, cores):
    monkeypatch.setattr("ninja.formats.kaldi.archive.num_cores", lambda: cores)  # with two cores, a thread reads ahead
    positions = [*lattice_positions("lat.ark"), os.path.getsize("lat.ark")]
    keys = list(package.keys("lat.ark"))
    for first, last in ((0, 40), (3, 4), (7, 31), (39, 40)):
        byte_range = Table(Place("lat.ark", positions[first], end=positions[last]))
        assert [key for key, _ in package.read((byte_range,))] == keys[first:last]
    truncated = Table(Place("lat.ark", positions[5], end=positions[7] - 9))
    last_state = positions[7] - 176
    with pytest.raises(FormatError, match=f"byte {last_state}, .*: the file ends within a state: 176 bytes are needed"):
        list(package.read((truncated,)))


def test_errors_in_shards_have_line_numbers_of_the_whole_file(example_folder, ninja):
    write_sources()
    rows = Path("listed.scp").read_text().splitlines()
    rows[30] = "broken nowhere.ark:17"
    Path("listed.scp").write_text("\n".join(rows) + "\n")
    errors = [ninja("copy", "listed.scp", "-o", "out.ark", "--shard", f"{number}/3")[2] for number in (1, 2, 3)]
    assert sum("failed: listed.scp:31" in message or "nowhere.ark" in message for message in errors) == 1


# Records


def test_a_complete_shard_is_not_run_again(example_folder, ninja):
    command = ["prune", "lat.ark", "-o", "out.ark"]
    run_shards(ninja, 3, *command)
    part = Path("out.ark.shards/00002-of-00003.out.ark")
    changed = part.stat().st_mtime_ns
    assert "shard 2 of 3 is already complete" in ninja(*command, "--shard", "2/3")[2]
    assert part.stat().st_mtime_ns == changed
    content = part.read_bytes()
    part.write_bytes(content[:-1])  # truncated
    assert ninja(*command, "--shard", "2/3", "--resume")[0] == 0
    assert part.read_bytes() == content
    part.unlink()
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "shard 2 of 3 must still be run: 2 (--shard 2/3)" in errors
    assert not os.path.exists("out.ark")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--beam", "5"], "a different --beam"),
        (["--words", "words.txt"], None),
        (["--jobs", "1"], None),
        (["--on-error", "raise"], "a different --on-error"),
    ],
)
def test_changed_options_are_refused_if_they_change_the_output(example_folder, ninja, change, message):
    command = ["prune", "lat.ark", "-o", "out.ark"]
    assert ninja(*command, "--shard", "1/2")[0] == 0
    code, _, errors = ninja(*command, *change, "--shard", "2/2")
    assert (code == 0) == (message is None), errors
    assert message is None or message in errors


def test_changed_sources_tables_and_shard_counts_are_refused(example_folder, ninja):
    shutil.copy("words.txt", "table.txt")
    command = ["best", "lat.ark", "--words", "table.txt", "-o", "out.txt", "--shard"]
    assert ninja(*command, "1/2")[0] == 0
    code, _, errors = ninja(*command, "2/3")
    assert code == 2
    assert "run with 2 shards; remove it, or choose another output" in errors
    with open("table.txt", "a") as words:
        words.write("more 999999\n")
    code, _, errors = ninja(*command, "2/2")
    assert code == 2
    assert "a different --words" in errors
    shutil.copy("words.txt", "table.txt")
    assert ninja(*command, "2/2")[0] == 0
    os.utime("lat.ark", ns=(1, 1))
    code, _, errors = ninja(*command, "2/2")
    assert code == 2
    assert "other sources: lat.ark has changed since then" in errors


def test_parts_of_two_plans_are_not_joined(example_folder, ninja):
    run_shards(ninja, 2, "prune", "lat.ark", "-o", "out.ark")
    record = Path("out.ark.shards/00002-of-00002.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"plan": "0"}))
    code, _, errors = ninja("gather", "out.ark")
    assert code == 2
    assert "contains shards of a run with other options" in errors


def test_a_changed_part_is_not_joined(example_folder, ninja):
    run_shards(ninja, 2, "prune", "lat.ark", "-o", "out.ark")
    part = Path("out.ark.shards/00001-of-00002.out.ark")
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "00001-of-00002.out.ark: does not match the record of its shard" in errors
    assert not os.path.exists("out.ark")


def test_an_attempt_with_a_usage_error_leaves_no_plan(example_folder, ninja):
    command = ["rescore", "lat.ark", "--rnnlm", "none", "-o", "out.ark", "--shard", "1/2"]
    assert ninja(*command)[0] == 2
    assert ninja("prune", "lat.ark", "-o", "out.ark", "--shard", "1/2")[0] == 0


def test_the_folder_of_the_output_must_exist(example_folder, ninja):
    code, _, errors = ninja("prune", "lat.ark.gz", "-o", "none/out.ark", "--shard", "1/2")
    assert (code, errors) == (1, "ninja: error: none/out.ark.shards: cannot be created: No such file or directory\n")
    assert not os.path.exists("none")


def test_failures_are_stored_in_the_records(example_folder, ninja):
    write_all("lat.ark", (from_arcs(key, [0], [1], [5], [0.5], finals={1: 0.0}) for key in "abcdefgh"))
    content = Path("lat.ark").read_bytes()
    nan = np.float32(np.nan).tobytes()
    Path("lat.ark").write_bytes(content.replace(np.float32(0.5).tobytes(), nan, 1))  # in the first lattice
    assert ninja("copy", "lat.ark", "-o", "one.ark")[0] == 1
    codes = [ninja("copy", "lat.ark", "-o", "out.ark", "--shard", f"{number}/8")[0] for number in range(1, 9)]
    assert codes == [1] + 7 * [0]
    assert ninja("copy", "lat.ark", "-o", "out.ark", "--shard", "1/8")[0] == 1
    code, _, errors = ninja("gather", "out.ark")
    assert code == 1
    assert "7 lattices from 8 shards, 1 failed" in errors
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()


# Unsupported commands


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


@pytest.mark.parametrize(("command", "message"), REFUSED, ids=lambda value: " ".join(value) if len(value) < 9 else "")
def test_commands_whose_parts_cannot_be_joined_are_refused(example_folder, ninja, command, message):
    os.mkdir("a")
    os.mkdir("b")
    code, _, errors = ninja(*command, "--shard", "1/2")
    assert code in (1, 2)
    assert re.search(message, errors), errors
    assert not [name for name in os.listdir() if name.endswith(".shards")]


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "-1/3", "1/0"])
def test_invalid_shard_numbers_are_refused(example_folder, ninja, shard):
    assert ninja("prune", "lat.ark", "-o", "out.ark", "--shard", shard)[0] == 2


def test_shards_of_sources_with_spelled_words_require_a_symbol_table(example_folder, ninja):
    assert ninja("convert", "lat.ark", "--words", "words.txt", "--to", "slf", "-o", "slf")[0] == 0
    os.rename("words.txt", "table.txt")
    code, _, errors = ninja("convert", "slf", "-o", "out.ark", "--shard", "1/2")
    assert code == 2
    assert "--shard requires --words" in errors
    assert not [name for name in os.listdir("out.ark.shards") if name != "plan.json"]
    assert ninja("convert", "slf", "--words", "table.txt", "-o", "one.ark")[0] == 0
    run_shards(ninja, 4, "convert", "slf", "--words", "table.txt", "-o", "out.ark")
    assert ninja("gather", "out.ark")[0] == 0
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()


def test_a_shard_without_lattices_is_noted(example_folder, ninja):
    shutil.copy(EXAMPLES / "lat.ark.gz", ".")
    runs = [ninja("prune", "lat.ark.gz", "-o", "out.ark", "--shard", f"{number}/3") for number in (1, 2, 3)]
    assert [code for code, _, _ in runs] == [0, 0, 0]
    assert sum("has no lattices; use fewer shards" in errors for _, _, errors in runs) == 2
    assert ninja("gather", "out.ark")[0] == 0


def test_records_contain_a_checksum_of_the_keys(example_folder, ninja):
    run_shards(ninja, 2, "prune", "lat.ark", "-o", "out.ark")
    run_shards(ninja, 2, "best", "lat.ark", "-o", "out.txt")
    for number in (1, 2):
        checksums = [json.loads(Path(f"{name}.shards/0000{number}-of-00002.json").read_text())["keys"]
                 for name in ("out.ark", "out.txt")]  # fmt: skip
        keys = "".join(f"{key}\n" for key in package.keys(f"out.ark.shards/0000{number}-of-00002.out.ark"))
        assert checksums == 2 * [hashlib.sha256(keys.encode()).hexdigest()]


def test_the_work_of_a_command_can_be_pickled_and_run(example_folder, ninja):
    command = ("prune", "lat.ark", "--beam", "4", "-o", "out.ark")
    work = pickle.loads(pickle.dumps(CommandWork(command)))
    plan = work.plan(3)
    assert ninja(*command, "--shard", "2/3")[0] == 0
    assert [shard.number for shard in missing(plan)] == [1, 3]  # the command has the same plan
    for shard in missing(plan):
        assert run_shard(plan, shard, work).failures == ()
    assert ninja("gather", "out.ark")[0] == 0
    expected = Path("out.ark").read_bytes()
    assert ninja(*command)[0] == 0
    assert Path("out.ark").read_bytes() == expected
    with pytest.raises(OptionError, match="merge cannot run in shards"):
        CommandWork(("merge", "lat.ark", "-o", "out.ark")).plan(3)
