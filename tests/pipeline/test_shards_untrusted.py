"""Untrusted plans and records of shards can name only parts and outputs in their folder."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

import pytest
from lattice_files import write_all

from ninja.graph import from_arcs

PLAN, RECORD = Path("out.ark.shards/plan.json"), Path("out.ark.shards/00001-of-00002.json")


def lattice(key):
    return from_arcs(key, [0, 1], [1, 2], [5, 6], [0.5, 1.5], finals={2: 0.0})


@pytest.fixture
def parts(tmp_path, monkeypatch, ninja):
    """Write the parts of two shards, including a script file and a symbol table."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    Path("words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    write_all("in.ark", (lattice(key) for key in "abcd"))
    Path(".bashrc").write_text("precious")
    Path("notes").write_text("precious")
    command = ["prune", "in.ark", "--words", "words.txt", "-o", "ark,scp:out.ark,out.scp", "--words-out", "table.txt"]
    for number in (1, 2):
        assert ninja(*command, "--shard", f"{number}/2")[0] == 0
    return tmp_path


def files():
    return {path: path.read_bytes() for path in Path("..").rglob("*") if path.is_file()}


def edit_json(file, change):
    fields = json.loads(file.read_text())
    change(fields)
    file.write_text(json.dumps(fields))


FORBIDDEN_NAMES = ["/tmp/evil.ark", "../evil.ark", "x/evil.ark", ".bashrc", "..", ".", "a\0b", "s3://b/x", "n" * 300]
FORBIDDEN_WSPECIFIERS = ["ark,scp:out.ark,../out.scp", "ark,scp:/tmp/evil.ark,out.scp"]


@pytest.mark.parametrize("name", [*FORBIDDEN_NAMES, "notes", *FORBIDDEN_WSPECIFIERS])
@pytest.mark.parametrize("index", [0, 1])
def test_a_plan_cannot_name_files_outside_its_folder(parts, ninja, name, index):
    def change(fields):
        fields["outputs"][index][1] = name

    old_name = json.loads(PLAN.read_text())["outputs"][index][1].rpartition(",")[2]
    edit_json(PLAN, change)
    digest = hashlib.sha256(json.dumps(json.loads(PLAN.read_text()), sort_keys=True).encode()).hexdigest()
    base = os.path.basename(name.rpartition(",")[2])
    for number in (1, 2):  # make the records and parts consistent with the plan
        stem = f"0000{number}-of-00002"
        with contextlib.suppress(OSError, ValueError):
            os.rename(f"out.ark.shards/{stem}.{old_name}", f"out.ark.shards/{stem}.{base}")

        def adjust_record(fields, stem=stem):
            fields["plan"] = digest
            fields["parts"] = {
                f"{stem}.{base}" if key.endswith(old_name) else key: part for key, part in fields["parts"].items()
            }

        edit_json(RECORD.with_name(f"{stem}.json"), adjust_record)
    before = files()
    code, _, stderr = ninja("gather", "out.ark")
    assert code in (1, 2), stderr
    assert "internal error" not in stderr
    assert "plan.json" in stderr or "must still be run" in stderr
    assert files() == before


def test_an_output_listed_only_in_the_plan_does_not_replace_a_file(parts, ninja):
    Path("table.txt").write_text("precious")
    code, _, message = ninja("gather", "out.ark")
    assert code == 1
    assert (
        "table.txt: already exists and would be overwritten, because plan.json lists it as an output; move it"
        in message
    )
    assert Path("table.txt").read_text() == "precious"
    assert not Path("out.ark").exists()
    os.remove("table.txt")
    assert ninja("gather", "out.ark")[0] == 0
    assert Path("table.txt").exists()


@pytest.mark.parametrize("name", [*FORBIDDEN_NAMES, "00001-of-00002./tmp/evil", "00001-of-00002.notes", "notes"])
@pytest.mark.parametrize("option", [None, "output_file"])
def test_a_record_can_name_only_parts_of_its_shard(parts, ninja, name, option):
    content = b"precious"

    def change(fields):
        fields["parts"][name] = {"option": option, "size": 8, "sha256": hashlib.sha256(content).hexdigest()}

    edit_json(RECORD, change)
    before = files()
    code, _, stderr = ninja("gather", "out.ark")
    assert (code, "shard 1 of 2 must still be run" in stderr) == (1, True), stderr
    assert files() == before


INVALID_VALUES = [None, [], {}, "x", -1, 1e300, True, [[1]], {"a": 1}, 10**30]


@pytest.mark.parametrize("value", INVALID_VALUES, ids=map(repr, INVALID_VALUES))
@pytest.mark.parametrize("file", [PLAN, RECORD], ids=["plan", "record"])
def test_fields_of_invalid_types_are_refused(parts, ninja, value, file):
    content = file.read_text()
    for name, valid_value in json.loads(content).items():
        if isinstance(value, type(valid_value)) and value != -1 and not isinstance(value, bool):
            continue
        edit_json(file, lambda fields, name=name: fields.update({name: value}))
        code, _, stderr = ninja("gather", "out.ark")
        assert code in (1, 2), (name, stderr)
        assert "internal error" not in stderr
        assert not Path("out.ark").exists()
    file.write_text(content)
    assert ninja("gather", "out.ark")[0] == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"a":' * 100_000])
def test_plans_and_records_that_are_not_json_objects_are_refused(parts, ninja, content):
    for file in (RECORD, PLAN):
        file.write_bytes(content)
        code, _, stderr = ninja("gather", "out.ark")
        assert (code, "internal error" in stderr) == (1, False), stderr


def test_an_oversized_plan_is_refused(parts, ninja, monkeypatch):
    monkeypatch.setattr("ninja.io.resume.LARGEST", 100)
    code, _, stderr = ninja("gather", "out.ark")
    assert code == 1
    assert "plan.json: is damaged" in stderr


@pytest.mark.parametrize("row", [b"a", b"a :", b"a x:" + b"9" * 5000, b"a x:-1", b"a x:1 y"])
def test_invalid_rows_of_script_file_parts_are_refused(parts, ninja, row):
    part = Path("out.ark.shards/00001-of-00002.out.scp")
    part.write_bytes(row + b"\n")

    def change(fields):
        size, checksum = len(row) + 1, hashlib.sha256(row + b"\n").hexdigest()
        fields["parts"][part.name] |= {"size": size, "sha256": checksum}

    edit_json(RECORD, change)
    code, _, stderr = ninja("gather", "out.ark")
    assert code == 1
    assert "internal error" not in stderr
    assert "out.scp" in stderr
    assert not Path("out.ark").exists()


def test_outputs_of_shards_must_be_in_one_folder(parts, ninja):
    os.mkdir("lang")
    command = ["prune", "in.ark", "--words", "words.txt", "-o", "new.ark", "--words-out", "lang/table.txt"]
    code, _, message = ninja(*command, "--shard", "1/2")
    assert code == 2
    assert "with --shard, new.ark and lang/table.txt must be in the same folder" in message
