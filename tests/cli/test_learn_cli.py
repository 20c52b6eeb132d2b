"""``ninja learn``: files of edits, written lists, undo, the check on a development set, and rejected arguments."""

import json

import pytest

NAMES = b"# contacts\nKathy Clendenin"
BEFORE = {
    "u-1": "call cathy clendening now",
    "u-2": "ask cathy clendening",
    "u-3": "the calico king",
    "u-4": "a calico",
}
AFTER = {
    "u-1": "Call Kathy Clendenin now", "u-2": "Ask Kathy Clendenin", "u-3": "the Kaliko king", "u-4": "a Kaliko",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.txt").write_bytes(NAMES)
    (tmp_path / "edits.tsv").write_text("".join(f"{key}\t{BEFORE[key]}\t{AFTER[key]}\n" for key in BEFORE))
    return tmp_path


def learn(ninja, *arguments):
    return ninja("learn", *arguments, "--letters-only")


def test_names_are_learned_applied_and_undone(ninja, folder):
    code, _, errors = learn(ninja, "edits.tsv", "--lists", "names.txt", "-o", "learned.txt")
    assert (code, "4 edits, 1 phrase added ('Kaliko'), 1 changed" in errors) == (0, True), errors
    (folder / "text").write_text("v-1 we met calico and cathy clendening\n")
    _, printed, _ = ninja("correct", "text", "--entities", "learned.txt", "--letters-only")
    assert printed == "v-1 we met Kaliko and Kathy Clendenin\n"
    code, _, errors = learn(ninja, "edits.tsv", "--lists", "learned.txt", "-o", "twice.txt")
    assert (code, "0 edits, 4 known before" in errors) == (0, True), errors
    assert (folder / "twice.txt").read_bytes() == (folder / "learned.txt").read_bytes()
    assert ninja("learn", "--undo", "--lists", "learned.txt", "-o", "names.txt")[0] == 0
    assert (folder / "names.txt").read_bytes() == NAMES


def test_two_files_of_hypotheses_are_compared_as_edits(ninja, folder):
    record = {key: {"key": key, "nbest": [{"text": text, "score": -1.0}]} for key, text in BEFORE.items()}
    (folder / "before.jsonl").write_text("".join(json.dumps(line) + "\n" for line in record.values()))
    (folder / "after").write_text("".join(f"{key} {text}\n" for key, text in [*AFTER.items(), ("u-5", "more")]))
    code, printed, errors = learn(ninja, "before.jsonl", "after", "--min-count", 1)
    assert (code, "4 edits, " in errors) == (0, True), errors
    assert "1 utterance occurs in only one file" in errors
    assert '"phrase": "Kaliko"' in printed


def test_rejected_corrections_of_a_report_are_learned(ninja, folder):
    change = {"utt": "u", "begin": 1, "before": "kathy", "phrase": "Kathy Clendenin", "class": "", "left": "x"}
    changes = [change | {"utt": name} for name in "ab"]
    (folder / "corrections.json").write_text(json.dumps({"accepted": [], "rejected": changes, "undecided": []}))
    code, printed, _ = learn(ninja, "corrections.json", "--lists", "names.txt")
    assert (code, '"rejected": 2' in printed, printed.startswith("# contacts\n")) == (0, True, True)


def test_nothing_is_written_if_the_development_set_has_more_errors(ninja, folder):
    check = ("--lists", "names.txt", "-o", "learned.txt", "--dev", "dev", "--ref", "ref")
    (folder / "dev").write_text("d-1 a calico cat\nd-2 one calico\n")
    (folder / "ref").write_text("d-1 a calico cat\nd-2 one calico\n")
    code, _, errors = learn(ninja, "edits.tsv", *check)
    assert (code, (folder / "learned.txt").exists()) == (1, False)
    assert "development set: WER 0.00 before, 40.00 after; 2 of 2 utterances differ" in errors
    assert "more errors with the learned phrases, so nothing is written" in errors
    (folder / "ref").write_text("d-1 a kaliko cat\nd-2 one kaliko\n")
    code, _, errors = learn(ninja, "edits.tsv", *check)
    assert (code, (folder / "learned.txt").exists()) == (0, True), errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there are no edits to learn from; specify a file of edits, or --undo"),
        (("edits.tsv", "edits.tsv", "edits.tsv"), "3 sources are given"),
        (("edits.tsv", "--dev", "edits.tsv"), "--dev and --ref"),
        (("--undo",), "--undo requires --lists"),
        (("edits.tsv", "--lists", "names.txt", "-o", "names.txt"), "is an input and would be overwritten"),
        (
            ("--undo", "--lists", "names.txt", "edits.tsv"),
            "--undo can be used only with --lists and -o; omit edits.tsv",
        ),
    ],
)
def test_learn_refuses_invalid_arguments(ninja, folder, arguments, message):
    code, _, errors = ninja("learn", *arguments)
    assert (code, message in errors) == (2, True), errors


def test_learn_refuses_lattices(ninja, folder):
    (folder / "lat").write_text("u-1 \n0 1 a 1,2,\n1\n\n")
    code, _, errors = learn(ninja, "lat", "lat")
    assert (code != 0, "contains lattices, not text" in errors) == (True, True), errors
