"""Learning from edits: evidence, its effect on phrases, and its lines in the entity file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.context.correction.corrector import apply_changes
from ninja.context.correction.edits import Edit, identities, paired, read_edits
from ninja.context.correction.learning import learn, learn_edits, undo
from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.stage import Correcting, make_corrector
from ninja.context.entities.edit_evidence import MARK, EditEvidence, PhraseEvidence, Run, appended, without_last_run
from ninja.context.entities.lists import Entities
from ninja.errors import FormatError, Log, OptionError
from ninja.lattice.text import BASIC, NONE

NAMES = b"# contacts\nKathy Clendenin\n"


@pytest.fixture(scope="module")
def corrector():
    options = CorrectOptions(letters_only=True)
    return make_corrector(Correcting(Entities.from_dict({}), options=options), BASIC, Log())


def edit(recognised, corrected, key=""):
    return Edit(tuple(recognised.split()), tuple(corrected.split()), key)


def phrases(result):
    return {item.phrase: dict(item.recognised) for item in result.run.evidence}


def correct_text(corrector, content, text):
    words = text.split()
    lists = Entities.parsed(content, normalizer=BASIC).of("")
    return " ".join(apply_changes(words, corrector.changes(words, lists)))


CALICO = [
    edit("the book of calico king", "The book of Kaliko, king"),
    edit("calico was there", "Yes, Kaliko was there."),
]


def test_name_of_two_edits_is_added_with_its_recognised_words(corrector):
    result = learn_edits(CALICO, NAMES, corrector)
    assert phrases(result) == {"Kaliko": {"calico": 2}}
    assert [item.phrase for item in result.phrases] == ["Kaliko"]
    assert correct_text(corrector, NAMES, "we saw calico today") == "we saw calico today"
    assert correct_text(corrector, result.content, "we saw calico today") == "we saw Kaliko today"


def test_name_of_one_edit_is_added_after_a_second_run(corrector):
    first = learn_edits(CALICO[:1], NAMES, corrector)
    assert not first.phrases
    assert correct_text(corrector, first.content, "we saw calico today") == "we saw calico today"
    second = learn_edits(CALICO[1:], first.content, corrector)
    assert correct_text(corrector, second.content, "we saw calico today") == "we saw Kaliko today"
    assert learn_edits(CALICO[:1], NAMES, corrector, min_count=1).phrases


def test_repeated_edits_count_once(corrector):
    first = learn_edits(CALICO[:1], NAMES, corrector)
    repeated = learn_edits(CALICO[:1], first.content, corrector)
    assert (repeated.content, repeated.num_known) == (first.content, 1)
    keyed = [edit("a calico b", "a Kaliko b", "u1"), edit("a calico b", "a Kaliko b", "u2")]
    assert len(set(identities([*keyed, CALICO[0], CALICO[0]]))) == 4


def test_edits_of_common_words_or_unrelated_text_add_nothing(corrector):
    edits = [edit("we may go", "we will go"), edit("the cat sat", "a dog sat"), edit("say it", "Say it!")]
    edits += [edit("so we agreed on it", "")] * 2
    assert not learn_edits(edits, NAMES, corrector, min_count=1).run.evidence


@pytest.mark.parametrize("name", ["Kali\x07ko", "K" + "aliko" * 200, "★", "-"])
def test_names_that_are_invalid_in_lists_are_not_added(name):
    options = CorrectOptions(letters_only=True)
    exact = make_corrector(Correcting(Entities.from_dict({}), options=options), NONE, Log())
    edits = [edit("we saw calico there", f"we saw {name} there"), edit("a calico it was", f"a {name} it was")]
    assert not learn_edits(edits, NAMES, exact).run.evidence


def test_capitals_join_the_words_of_a_name(corrector):
    edits = [edit("then sir harry town bowed", "Then Sir Harry Tauwne bowed.")] * 2
    assert phrases(learn_edits(edits, b"", corrector)) == {"Sir Harry Tauwne": {"sir harry town": 2}}
    edits = [edit("i think i'm sir harry town", "I think I'm Sir Harry Tauwne")] * 2
    assert phrases(learn_edits(edits, b"", corrector)) == {"Sir Harry Tauwne": {"sir harry town": 2}}


def test_accepted_phrase_gains_weight_and_recognised_words(corrector):
    edits = [edit(f"call cathy clendening {day}", f"Call Kathy Clendenin {day}") for day in ("now", "today")]
    result = learn_edits(edits, NAMES, corrector)
    (item,) = result.run.evidence
    assert (item.accepted, item.added, dict(item.recognised)) == (2, 0, {"cathy clendening": 2})
    (listed,) = Entities.parsed(result.content, normalizer=BASIC).of("")
    (phrase,) = listed.classes[""]
    assert (phrase.weight, phrase.recognised) == (2.0, ("cathy clendening",))


def test_rejected_phrase_loses_weight(corrector):
    edits = [edit(f"call kathy clendenin {day}", f"Call Cathy Clemens {day}") for day in ("now", "today", "soon")]
    result = learn_edits(edits, NAMES, corrector)
    assert {item.phrase: item.rejected for item in result.run.evidence if item.rejected} == {"Kathy Clendenin": 3}
    (listed,) = Entities.parsed(result.content, normalizer=BASIC).of("")
    assert {phrase.text: phrase.weight for phrase in listed.classes[""]}["Kathy Clendenin"] == 0.25


def test_mostly_correct_words_are_not_a_recognised_form(corrector):
    wrong = [edit(f"the {word} kaligo is here", f"the {word} Kaligho is here") for word in ("red", "blue")]
    right = [edit(f"a kaligo {word}", f"a kaligo {word}") for word in ("ran", "sat", "ate", "slept", "hid")]
    result = learn_edits([*wrong, *right], b"", corrector)
    assert correct_text(corrector, learn_edits(wrong, b"", corrector).content, "the kaligo hid") == "the Kaligho hid"
    assert correct_text(corrector, result.content, "the kaligo hid") == "the kaligo hid"


def test_accepted_and_rejected_changes_are_counted(corrector, tmp_path):
    change = {"utt": "u", "begin": 1, "before": "Cathy Clendening,", "phrase": "Kathy Clendenin", "class": ""}
    rejections = [change | {"utt": name, "before": "sir harry"} for name in ("v", "w", "x")]
    (tmp_path / "r.json").write_text(json.dumps({"accepted": [change], "rejected": rejections, "undecided": []}))
    (item,) = learn_edits(read_edits(tmp_path / "r.json"), NAMES, corrector).run.evidence
    assert (item.accepted, item.rejected, dict(item.recognised)) == (1, 3, {"cathy clendening": 1})


@pytest.mark.parametrize(
    "content",
    [b"", b"Fugazi", b'{"@name": ["Tom Chen"]}', b'{"utt": "u", "@name": ["Tom Chen"]}\n', b"u\t@name\tTom Chen\t2\n"],
)
def test_evidence_can_be_appended_to_every_format(content):
    run = Run(2, ("e1", "e2"), (PhraseEvidence("Tom Chen", "@name", {"tom shen": 2}, accepted=2), NEW))
    entities = Entities.parsed(appended(content, run), normalizer=BASIC)
    texts = {phrase.text: phrase for part in entities.of("u") for group in part.classes.values() for phrase in group}
    assert "Kaliko" in texts
    assert "Kaliko" in {phrase.text for part in entities.of("other") for phrase in part.classes.get("", ())}
    if b"Tom" in content:
        assert texts["Tom Chen"].recognised == ("tom shen",)
        assert texts["Tom Chen"].weight == (4.0 if b"\t2" in content else 2.0)


NEW = PhraseEvidence("Kaliko", "", {"calico": 2, "and": -3}, added=2)


@given(st.binary(max_size=60).filter(lambda content: MARK.encode() not in content), st.integers(1, 3))
def test_undo_restores_every_byte(content, num_runs):
    files = [content]
    for number in range(num_runs):
        files.append(appended(files[-1], Run(2, (f"edit {number}",), (NEW,))))
    for before, after in zip(reversed(files[:-1]), reversed(files), strict=False):
        assert without_last_run(after, "f") == before


def test_undo_keeps_lines_that_were_added_later():
    content = appended(b"Fugazi", Run(2, ("e",), (NEW,))) + b"Tom Chen\n"
    assert without_last_run(content, "f") == b"Fugazi\nTom Chen\n"
    assert {phrase.text for phrase in Entities.parsed(content, normalizer=BASIC).of("")[0].classes[""]} == {
        "Fugazi", "Tom Chen", "Kaliko",
    }  # fmt: skip


def test_evidence_of_runs_is_summed_and_the_weight_is_bounded():
    total = EditEvidence.of([Run(2, ("a",), (NEW,)), Run(3, ("b",), (NEW, PhraseEvidence("Tom", rejected=40)))])
    assert (total.min_count, total.edits) == (3, {"a", "b"})
    assert total.phrases["kaliko"].recognised == {"calico": 4, "and": -6}
    assert total.changes("KALIKO") == (1.0, ("calico",))
    assert total.changes("Tom") == (0.1, ())
    assert total.changes("Other") == (1.0, ())


@pytest.mark.parametrize(
    ("counts", "factor"),
    [
        ({"added": 2}, 1.0),
        ({"added": 3, "rejected": 1}, 1.0),
        ({"added": 1, "rejected": 3}, 0.5),
        ({"added": 2, "accepted": 1}, 2.0),
        ({"accepted": 2, "rejected": 1}, 1.5),
        ({"accepted": 1}, 1.0),
    ],
)
def test_weight_factor_depends_on_evidence_counts(counts, factor):
    assert PhraseEvidence("Kaliko", **counts).factor(2) == factor


RUN = '{"version": 1, "min_count": 2, "edits": []}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("{", "not valid JSON"),
        ('{"version": 2, "edits": []}', "the version is 2, but this release supports only version 1; upgrade Ninja"),
        ('{"phrase": "a"}', "must follow the edits of its run"),
        ('{"version": 1, "edits": [1]}', "'edits' must be a list of strings"),
        ('{"version": 1, "edits": [], "min_count": 0}', "'min_count' must be an integer from 1 to 999999999"),
        (f'{RUN}\n{MARK}{{"phrase": 3}}', '"phrase" must be a non-empty string, not 3'),
        (f'{RUN}\n{MARK}{{"phrase": "a", "class": "b"}}', '"class" must be'),
        (
            f'{RUN}\n{MARK}{{"phrase": "a", "recognised": {{"b": "c"}}}}',
            '"recognised" must map recognised words to numbers of',
        ),
        (f'{RUN}\n{MARK}{{"phrase": "a", "added": -1}}', "'added' must be an integer from 0 to 999999999, not -1"),
    ],
)
def test_damaged_evidence_raises_format_error_with_its_line(lines, message):
    with pytest.raises(FormatError, match=message) as error:
        Entities.parsed(f"Fugazi\n{MARK}{lines}\n".encode(), path="f")
    assert error.value.line == 2 + lines.count("\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n", "expected 2 or 3 columns"),
        ("a\tb\nc\td\te\n", "expected 2 columns as in earlier lines, found 3"),
        ("{", "not valid JSON"),
        ("{}", 'expected "accepted" and "rejected" changes'),
        ('{"accepted": 1, "rejected": []}', "'accepted' must be a list"),
        ('{"accepted": [], "rejected": [3]}', "'rejected', entry 1: expected an object"),
        ('{"accepted": [{"phrase": ""}], "rejected": []}', "'phrase' is '', but must be a string"),
        ('{"accepted": [{"phrase": "a", "class": "", "before": "b", "utt": "u"}], "rejected": []}', '"begin" must be'),
        (
            '{"accepted": [{"phrase": "a", "class": "", "before": "b", "utt": "u", "begin": -1}], "rejected": []}',
            '"begin" must be the index of a word, not -1',
        ),
        (
            '{"accepted": [], "rejected": [{"phrase": "a", "class": "b", "before": "b", "utt": "u", "begin": 0}]}',
            """'rejected', entry 1: "class" must be "", @…, .* not 'b'""",
        ),
    ],
)
def test_damaged_edit_files_raise_format_error(tmp_path, text, message):
    (tmp_path / "edits").write_text(text)
    with pytest.raises(FormatError, match=message):
        read_edits(tmp_path / "edits")


def test_hypotheses_are_paired_by_key_or_in_order():
    assert paired({"a": ["x"], "b": ["y"]}, {"b": ["z"]}) == [edit("y", "z", "b")]
    assert paired({"a-1": ["x"]}, {"b-1": ["z"]}) == [edit("x", "z", "a-1")]
    with pytest.raises(
        OptionError, match=r"no key in common, and their numbers differ .1 and 2., so .*; use the same keys"
    ):
        paired({"a": ["x"]}, {"b": [], "c": []})


def test_learn_reads_files_and_undo_restores_them(tmp_path):
    (tmp_path / "edits.tsv").write_text("a calico b\ta Kaliko b\nthe calico\tthe Kaliko\n")
    (tmp_path / "names.txt").write_bytes(NAMES)
    result = learn(tmp_path / "edits.tsv", tmp_path / "names.txt", letters_only=True)
    (tmp_path / "learned.txt").write_bytes(result.content)
    assert undo(tmp_path / "learned.txt") == NAMES
    with pytest.raises(FormatError, match="nothing to undo"):
        undo(tmp_path / "names.txt")
    (tmp_path / "names.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(OptionError, match="compressed file; decompress it"):
        undo(tmp_path / "names.gz")
