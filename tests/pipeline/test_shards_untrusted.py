"""Plans and records of shards from untrusted sources can only name parts and outputs in their folder."""

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
    """Write the parts of two shards, with a script file and a symbol table."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    Path("words.txt").write_text("<eps> 0\nfive 5\nsix 6\n")
    write_all("in.ark", (lattice(key) for key in "abcd"))
    Path(".bashrc").write_text("precious")
    Path("notes").write_text("precious")
    line = ["prune", "in.ark", "--words", "words.txt", "-o", "ark,scp:out.ark,out.scp", "--words-out", "table.txt"]
    for number in (1, 2):
        assert ninja(*line, "--shard", f"{number}/2")[0] == 0
    return tmp_path


def files():
    return {path: path.read_bytes() for path in Path("..").rglob("*") if path.is_file()}


def changed(path, change):
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))


ELSEWHERE = ["/tmp/evil.ark", "../evil.ark", "x/evil.ark", ".bashrc", "..", ".", "a\0b", "s3://b/x", "n" * 300]


@pytest.mark.parametrize("name", [*ELSEWHERE, "notes", "ark,scp:out.ark,../out.scp", "ark,scp:/tmp/evil.ark,out.scp"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_plan_names_no_file_elsewhere(parts, ninja, name, place):
    def change(facts):
        facts["outputs"][place][1] = name

    old = json.loads(PLAN.read_text())["outputs"][place][1].rpartition(",")[2]
    changed(PLAN, change)
    digest = hashlib.sha256(json.dumps(json.loads(PLAN.read_text()), sort_keys=True).encode()).hexdigest()
    base = os.path.basename(name.rpartition(",")[2])
    for number in (1, 2):  # the records and the parts fit
        stem = f"0000{number}-of-00002"
        with contextlib.suppress(OSError, ValueError):
            os.rename(f"out.ark.shards/{stem}.{old}", f"out.ark.shards/{stem}.{base}")

        def fit(facts, stem=stem):
            facts["plan"] = digest
            facts["parts"] = {
                f"{stem}.{base}" if key.endswith(old) else key: part for key, part in facts["parts"].items()
            }

        changed(RECORD.with_name(f"{stem}.json"), fit)
    before = files()
    code, _, said = ninja("gather", "out.ark")
    assert code in (1, 2), said
    assert "internal error" not in said
    assert "plan.json" in said or "must still be run" in said
    assert files() == before


def test_a_file_that_the_user_did_not_name_is_not_replaced(parts, ninja):
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


@pytest.mark.parametrize("name", [*ELSEWHERE, "00001-of-00002./tmp/evil", "00001-of-00002.notes", "notes"])
@pytest.mark.parametrize("option", [None, "output_file"])
def test_a_record_names_parts_alone(parts, ninja, name, option):
    content = b"precious"

    def change(facts):
        facts["parts"][name] = {"option": option, "size": 8, "sha256": hashlib.sha256(content).hexdigest()}

    changed(RECORD, change)
    before = files()
    code, _, said = ninja("gather", "out.ark")
    assert (code, "shard 1 of 2 must still be run" in said) == (1, True), said
    assert files() == before


WRONG = [None, [], {}, "x", -1, 1e300, True, [[1]], {"a": 1}, 10**30]


@pytest.mark.parametrize("value", WRONG, ids=map(repr, WRONG))
@pytest.mark.parametrize("file", [PLAN, RECORD], ids=["plan", "record"])
def test_fields_of_another_type_are_refused(parts, ninja, value, file):
    whole = file.read_text()
    for name, right in json.loads(whole).items():
        if isinstance(value, type(right)) and value != -1 and not isinstance(value, bool):
            continue
        changed(file, lambda facts, name=name: facts.update({name: value}))
        code, _, said = ninja("gather", "out.ark")
        assert code in (1, 2), (name, said)
        assert "internal error" not in said
        assert not Path("out.ark").exists()
    file.write_text(whole)
    assert ninja("gather", "out.ark")[0] == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"a":' * 100_000])
def test_files_that_are_no_json_are_refused(parts, ninja, content):
    for file in (RECORD, PLAN):
        file.write_bytes(content)
        code, _, said = ninja("gather", "out.ark")
        assert (code, "internal error" in said) == (1, False), said


def test_a_record_of_any_size_takes_no_memory(parts, ninja, monkeypatch):
    monkeypatch.setattr("ninja.io.resume.LARGEST", 100)
    code, _, said = ninja("gather", "out.ark")
    assert code == 1
    assert "plan.json: is damaged" in said


@pytest.mark.parametrize("row", [b"a", b"a :", b"a x:" + b"9" * 5000, b"a x:-1", b"a x:1 y"])
def test_rows_of_a_script_file_are_checked(parts, ninja, row):
    part = Path("out.ark.shards/00001-of-00002.out.scp")
    part.write_bytes(row + b"\n")

    def change(facts):
        size, checksum = len(row) + 1, hashlib.sha256(row + b"\n").hexdigest()
        facts["parts"][part.name] |= {"size": size, "sha256": checksum}

    changed(RECORD, change)
    code, _, said = ninja("gather", "out.ark")
    assert code == 1
    assert "internal error" not in said
    assert "out.scp" in said
    assert not Path("out.ark").exists()


def test_outputs_of_a_run_in_shards_lie_in_one_folder(parts, ninja):
    os.mkdir("lang")
    line = ["prune", "in.ark", "--words", "words.txt", "-o", "new.ark", "--words-out", "lang/table.txt"]
    code, _, message = ninja(*line, "--shard", "1/2")
    assert code == 2
    assert "with --shard, new.ark and lang/table.txt must be in the same folder" in message
