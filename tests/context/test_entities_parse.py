"""Entity files: three formats with the same content, and rejected files."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.context.entities.lists import MAX_WORDS, Entities, Phrase
from ninja.errors import FormatError, InputError
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable.from_words(["<eps>", "tom", "x"])

# ---- three formats with the same content ----

NAMES = st.text("abcdefgh", min_size=1, max_size=3)
PHRASES = st.lists(st.sampled_from(["tom", "chen", "kathi", "o'brien", "ü", "a"]), min_size=1, max_size=3).map(" ".join)
SPOKEN = st.lists(st.sampled_from(["T AA M", "CH EH N", "K AE"]), max_size=2, unique=True)
VALUES = st.tuples(st.sampled_from([1.0, 2.0, -0.5, 0.25]), SPOKEN)
CLASSES = st.dictionaries(
    st.sampled_from(["@name", "$PLACE", "<song>", ""]),
    st.dictionaries(PHRASES, VALUES, min_size=1, max_size=3),
    max_size=3,
)
NAMED_CLASSES = st.dictionaries(NAMES, CLASSES.filter(bool), max_size=3)


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the content of a file: classes by section, and the lists of each section."""
    lists, groups = draw(NAMED_CLASSES), draw(NAMED_CLASSES)
    utterances = draw(NAMED_CLASSES)
    shared_classes = draw(CLASSES)
    list_names = st.lists(st.sampled_from(sorted(lists)), max_size=2, unique=True) if lists else st.just([])
    sections = [("list", name, classes, [], None) for name, classes in lists.items()]
    sections += [("group", name, classes, draw(list_names), None) for name, classes in groups.items()]
    group_names = st.none() | st.sampled_from(sorted(groups)) if groups else st.none()
    sections += [("utt", name, classes, draw(list_names), draw(group_names)) for name, classes in utterances.items()]
    sections += [("all", "*", shared_classes, draw(list_names), None)] if shared_classes else []
    return {"sections": sections}


def entry(text: str, weight: float, spoken: list[str]) -> Any:
    return {"text": text, "weight": weight, "pronunciations": spoken} if spoken or weight != 1.0 else text


def as_object(classes: dict[str, Any], lists: list[str], group: str | None) -> dict[str, Any]:
    content: dict[str, Any] = {
        name: [entry(text, *value) for text, value in phrases.items()] for name, phrases in classes.items()
    }
    content.update({"lists": lists} if lists else {})
    content.update({"group": group} if group else {})
    return content


def as_json(model: dict[str, Any], indent: int | None = None) -> str:
    content: dict[str, Any] = {}
    section_keys = {"list": "lists", "group": "groups", "utt": "utterances"}
    for kind, name, *fields in model["sections"]:
        if kind == "all":
            content["all"] = as_object(*fields)
        else:
            content.setdefault(section_keys[kind], {})[name] = as_object(*fields)
    return json.dumps(content, indent=indent)


def as_jsonl(model: dict[str, Any]) -> str:
    lines = []
    for kind, name, *fields in model["sections"]:
        lines.append(json.dumps({kind: True if kind == "all" else name, **as_object(*fields)}, ensure_ascii=False))
    return "\n".join(lines)


def as_entities_key(model: dict[str, Any]) -> str:
    """Return JSONL in which each phrase names its class."""
    lines = []
    for kind, name, classes, *fields in model["sections"]:
        content = as_object({}, *fields)
        content["entities"] = [
            {"class": cls, "text": text, "weight": weight, "pronunciations": spoken}
            for cls, phrases in classes.items()
            for text, (weight, spoken) in phrases.items()
        ]
        lines.append(json.dumps({kind: True if kind == "all" else name, **content}))
    return "\n".join(lines)


def as_tsv(model: dict[str, Any], newline: str = "\n") -> str:
    rows = ["# a comment"]
    for kind, name, classes, lists, group in model["sections"]:
        scope = name if kind in ("all", "utt") else f"{kind}:{name}"
        for cls, phrases in classes.items():
            for text, (weight, spoken) in phrases.items():
                rows += ["\t".join([scope, cls or "-", text, str(weight), phones]) for phones in spoken or [""]]
        rows += [f"{scope}\tlists\t{list_name}" for list_name in lists]
        rows += [f"{scope}\tgroup\t{group}"] if group else []
    return newline.join(rows) + newline


def contents(lists: Any) -> list[Any]:
    return [(phrase_list.name, phrase_list.classes) for phrase_list in lists]


def expected_lists(model: dict[str, Any], key: str) -> list[Any]:
    """Return the lists of an utterance, computed from the drawn content."""
    section_of = {(kind, name): fields for kind, name, *fields in model["sections"]}
    group = section_of.get(("utt", key), ({}, [], None))[2]
    scopes = [
        section_of[section] for section in [("all", "*"), ("group", group), ("utt", key)] if section in section_of
    ]
    names = [name for _, lists, _ in scopes for name in lists]
    phrase_lists = [
        (name, section_of["list", name][0]) for position, name in enumerate(names) if name not in names[:position]
    ]
    phrase_lists += [
        (label, section_of[section][0])
        for label, section in [("*", ("all", "*")), (f"group:{group}", ("group", group)), ("", ("utt", key))]
        if section in section_of
    ]
    return [
        (name, {cls: tuple(Phrase(t, w, tuple(s)) for t, (w, s) in ps.items()) for cls, ps in classes.items()})
        for name, classes in phrase_lists
    ]


WRITERS = [
    as_json,
    lambda model: as_json(model, 2),
    as_jsonl,
    as_entities_key,
    as_tsv,
    lambda model: as_tsv(model, "\r\n"),
]


@given(model=models(), compressed=st.booleans(), bom=st.booleans())
def test_all_formats_give_the_same_entities(
    model: dict[str, Any], compressed: bool, bom: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("entities") / "file"  # without a suffix, the content determines the format
    classes = sorted({name for _, _, classes, *_ in model["sections"] for name in classes})
    keys = [name for kind, name, *_ in model["sections"] if kind == "utt"]
    for write in WRITERS:
        content = (("\ufeff" if bom else "") + write(model)).encode()
        path.write_bytes(gzip.compress(content) if compressed else content)
        entities = Entities.read(path)
        assert list(entities.keys) == keys
        assert list(entities.classes) == classes
        assert entities.num_phrases == sum(len(ps) for _, _, c, *_ in model["sections"] for ps in c.values())
        assert set(entities.lists) == {name for kind, name, *_ in model["sections"] if kind == "list"}
        for key in [*keys, "nobody"]:
            assert contents(entities.of(key)) == expected_lists(model, key)
    assert contents(Entities.from_dict(json.loads(as_json(model))).of("nobody")) == expected_lists(model, "nobody")


# ---- lists in separate files ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create two files of phrases in a separate folder."""
    (tmp_path / "pools").mkdir()
    rows = "# class, phrase\n@name\ttom chen\n@place\trome\t2\n\n@name\tkathi\t\tK AE1 TH IY0\n-\thello there\n"
    (tmp_path / "pools" / "p.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    (tmp_path / "pools" / "bad.tsv").write_text("@name\ttom\n@name\n")
    return tmp_path


@pytest.mark.parametrize(
    "content",
    [
        '{"lists": {"p": {"file": "pools/p.tsv.gz", "@name": ["luc"]}}, "all": {"lists": ["p"]}}',
        '{"list": "p", "@name": ["luc"], "file": "pools/p.tsv.gz"}\n{"all": true, "lists": ["p"]}',
        "list:p\tfile\tpools/p.tsv.gz\nlist:p\t@name\tluc\n*\tlists\tp\n",
    ],
)
def test_list_is_read_from_a_separate_file(content: str, folder: Path) -> None:
    (folder / "e").write_text(content)
    entities = Entities.read(folder / "e")
    assert contents(entities.of("u")) == [
        (
            "p",
            {
                "@name": (Phrase("tom chen"), Phrase("kathi", pronunciations=("K AE TH IY",)), Phrase("luc")),
                "@place": (Phrase("rome", 2.0),),
                "": (Phrase("hello there"),),
            },
        )
    ]


@pytest.mark.parametrize(
    "content",
    [
        '{{"lists": {{"p": {{"file": "pools/p.tsv.gz", "first": {0}}}}}, "all": {{"lists": ["p"]}}}}',
        "list:p\tfile\tpools/p.tsv.gz\t{0}\n*\tlists\tp\n",
    ],
)
def test_first_limits_the_phrases_of_a_file(content: str, folder: Path) -> None:
    for first, num_phrases in [(2, 2), (4, 4), (7, 4)]:
        (folder / "e").write_text(content.format(first))
        entities = Entities.read(folder / "e")
        assert entities.num_phrases == num_phrases
        assert [problem.removeprefix(str(folder)) for problem in entities.problems] == (
            ["/pools/p.tsv.gz has only 4 phrases, but list 'p' requests the first 7"] if first > num_phrases else []
        )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"file": "pools/bad.tsv"},
            r"bad\.tsv:2: expected 2 to 4 columns \(class, phrase, weight, pronunciation\), found",
        ),
        ({"file": 3}, "list 'p': \"file\" must be the name of a file, not 3"),
        ({"file": "a\0b"}, "list 'p': \"file\" must be the name of a file"),
        ({"file": "pools/p.tsv.gz", "first": 0}, "the number of phrases must be an integer of at least 1, not 0"),
        ({"file": "pools/p.tsv.gz", "first": True}, "must be an integer of at least 1, not True"),
        ({"first": 3}, "list 'p': \"first\" is the number of phrases to read from a file"),
    ],
)
def test_invalid_list_file_raises_format_error(values: dict[str, Any], message: str, folder: Path) -> None:
    (folder / "e.json").write_text(json.dumps({"lists": {"p": values}}))
    with pytest.raises(FormatError, match=message):
        Entities.read(folder / "e.json")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pools/none", "pools/none: cannot be read: No such file"),
        ("pools", "pools: cannot be read: a file named in another file must be a regular file, not a pipe or device"),
    ],
)
def test_unreadable_list_file_raises_input_error(name: str, message: str, folder: Path) -> None:
    (folder / "e.json").write_text(json.dumps({"lists": {"p": {"file": name}}}))
    with pytest.raises(InputError, match=message):
        Entities.read(folder / "e.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_list_file_that_is_a_pipe_raises_input_error(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(
        InputError,
        match="pipe: cannot be read: a file named in another file must be a regular file, not a pipe or device",
    ):
        Entities.from_dict({"lists": {"p": {"file": str(folder / "pipe")}}})


# ---- invalid content ----

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # JSON
        ("[1]", r'e: the top level is a list; write an object such as \{"@name": \[\.\.\.\]\}, or one object per line'),
        ('{"@name": ["tom"', r"e:1: not valid JSON: .*, column 17"),
        ('{\n"@name": ["tom"],,\n}', r"e:2: not valid JSON: .*, column 18"),
        (
            '{"@name": ["tom"], "@name": ["luc"]}',
            "e:1: the key '@name' occurs twice in an object; merge the occurrences",
        ),
        ('{\n"utterances": {"u": {}, "u": {}}}', "e: the key 'u' occurs twice in an object; merge the occurrences"),
        (
            '{"@name": ' + "[" * 100_000,
            r"e: the JSON is nested too deeply|e:1: the JSON is nested too deeply",
        ),
        (
            '{"@name": [{"text": "tom", "weight": ' + LONG + "}]}",
            "not valid JSON: Exceeds the limit|is not a number or is too large",
        ),
        (
            '{"names": ["tom"]}',
            r"e: unknown key 'names'; allowed keys: classes \(@…, \$…, <…>\), \"phrases\", \"entities\", \"all\"",
        ),
        ('{"@na me": []}', "unknown key '@na me'"),
        ('{"<s>": []}', "unknown key '<s>'"),
        ('{"lists": ["a"]}', "e: 'lists' must be an object with names as keys, not a list"),
        ('{"utterances": {"u": ["tom"]}}', "e: utterance 'u': expected an object with classes as keys, found a list"),
        ('{"utterances": {"": {}}}', "e: the name of an utterance must be a non-empty string, not ''"),
        (
            '{"utterances": {"u": {"name": []}}}',
            "utterance 'u': unknown key 'name'; allowed keys: .*, \"group\", \"lists\"",
        ),
        ('{"lists": {"l": {"lists": []}}}', "list 'l': unknown key 'lists'; allowed keys: .*, \"file\", \"first\""),
        ('{"groups": {"g": {"group": "h"}}}', "group 'g': unknown key 'group'; allowed keys: .*, \"lists\""),
        (
            '{"all": {"@name": ["tom"]}, "@name": ["luc"]}',
            "are both at the top level and under 'all'; move all of them",
        ),
        ('{"@name": "tom"}', "all utterances: '@name' must be a list of phrases, not 'tom'"),
        (
            '{"@name": ["tom", 3]}',
            'all utterances, @name, entry 2: expected a phrase or an object with "text", found 3',
        ),
        (
            '{"@name": [{"txt": "tom"}]}',
            "@name, entry 1: unknown key 'txt'; allowed keys: text, weight, pronunciations",
        ),
        ('{"@name": [{"weight": 1}]}', '@name, entry 1: "text" must be a string, not null'),
        ('{"@name": [{"text": "tom", "weight": "2"}]}', "\"weight\" must be a number, not '2'"),
        ('{"@name": [{"text": "tom", "weight": true}]}', '"weight" must be a number, not True'),
        (
            '{"@name": [{"text": "tom", "weight": NaN}]}',
            "@name, entry 1: 'tom' has the weight nan, but weights must be in",
        ),
        ('{"@name": [{"text": "tom", "weight": -Infinity}]}', "'tom' has the weight -inf, but weights must be in"),
        (
            '{"@name": [{"text": "tom", "weight": 1e7}]}',
            r"has the weight 1e\+07, but weights must be in \[-100, 100\]",
        ),
        (
            '{"@name": [{"text": "tom", "weight": ' + "9" * 400 + "}]}",
            "the weight a number of more than 20 digits is no",
        ),
        (
            '{"@name": [{"text": "tom", "pronunciations": "T"}]}',
            "\"pronunciations\" must be a list of strings .*, not 'T'",
        ),
        ('{"@name": [{"text": "tom", "pronunciations": [" "]}]}', "entry 1: a pronunciation of 'tom' has no phones"),
        (
            '{"@name": [{"text": "tom", "pronunciations": ["' + "T " * 600 + '"]}]}',
            "has 1199 characters; at most 1000 are allowed",
        ),
        (
            '{"entities": ["tom"]}',
            'all utterances, entities, entry 1: expected .* an object with "class" and "text", found',
        ),
        ('{"entities": [{"text": "tom"}]}', '"class" must be "", @…, .*, not null'),
        ('{"@name": ["tom", " "]}', "e: all utterances, @name, entry 2: the phrase is empty; remove it"),
        ('{"@name": ["?!"]}', "@name, entry 1: '\\?!' is only punctuation; remove it"),
        ('{"phrases": [""]}', "all utterances, phrases, entry 1: the phrase is empty"),
        ('{"@name": ["tom\\u0000"]}', "@name, entry 1: 'tom\\\\x00' contains a control character"),
        ('{"@name": ["\\ud800"]}', "contains a control character; remove it"),
        (
            json.dumps({"@name": ["a " * (MAX_WORDS + 1)]}),
            "@name, entry 1: the phrase has 33 words; at most 32 are allowed",
        ),
        (
            json.dumps({"@name": ["a" * 1001]}),
            "@name, entry 1: the phrase has 1001 characters; at most 1000 are allowed",
        ),
        (
            '{"@name": ["tom", {"text": "tom", "weight": 2}]}',
            "@name, entry 2: 'tom' of @name has the weight 2, but 1 at entry 1; remove one of them",
        ),
        (
            '{"utterances": {"u": {"lists": ["l"]}}}',
            "e: utterance 'u': the list 'l' is not defined; define it, or correct the name",
        ),
        ('{"utterances": {"u": {"lists": "l"}}}', "utterance 'u': \"lists\" must be a list of names, not 'l'"),
        (
            '{"utterances": {"u": {"group": "g"}}}',
            "e: utterance 'u': the group 'g' is not defined; define it, or correct the name",
        ),
        ('{"utterances": {"u": {"group": null}}}', "utterance 'u': \"group\" must be a name, not null"),
        # JSONL
        ('{"utt": "u"}\n{"utt": "v",}', "e:2: not valid JSON: .*, column 13"),
        ('{"utt": "u"}\n3', "e:2: expected an object, found 3"),
        ('\n{"utt": "u", "utt": "u"}\n{"utt": "v"}', "e:2: the key 'utt' occurs twice in an object"),
        (
            '{"@name": ["a"]}\n{"@name": ["b"]}',
            'e:1: a line must contain "utt", "group", "list", or "all": true',
        ),
        ('{"all": 1}\n{"utt": "u"}', 'e:1: "all" must be true, not 1'),
        ('{"utt": 3}', "e:1: the name of an utterance must be a non-empty string, not 3"),
        ('{"utt": "u", "names": []}', "e:1: utterance 'u': unknown key 'names'; allowed keys"),
        ('{"utt": "u"}\n{"utt": "u"}', "e:2: utterance 'u': occurs twice, first in line 1; merge the occurrences"),
        ('{"list": "l"}\n\n{"list": "l"}', "e:3: list 'l': occurs twice, first in line 1; merge the occurrences"),
        ('{"utt": "u", "@name": ["a", ""]}', "e:1: utterance 'u', @name, entry 2: the phrase is empty; remove it"),
        # TSV
        (
            "u\t@name\ttom\ntom chen\n",
            r"e:2: expected 3 to 5 columns \(utterance \(or \*, group:NAME, list:NAME\), class, phrase, weight",
        ),
        ("u\t@name\tt\t1\tT\tx\n", "e:1: expected 3 to 5 columns"),
        ("# c\n\t@name\ttom\n", "e:2: the first column must be UTTERANCE, .*, without spaces around names, not ''"),
        (
            "list:\t@name\ttom\n",
            "e:1: the first column must be UTTERANCE, .*, without spaces around names, not 'list:'",
        ),
        ("u\tname\ttom\n", "e:1: unknown class 'name'; allowed classes: @…, .*, '-' for no class, 'group', 'lists'"),
        ("*\tgroup\ttom\n", "e:1: unknown class 'group'; allowed classes: @…, .*, '-' for no class, 'lists'$"),
        ("u\t@name\ttom\tmuch\n", "e:1: the weight 'much' is not a number"),
        ("u\t@name\ttom\tinf\n", "e:1: 'tom' has the weight inf, but weights must be in"),
        ("u\t@name\t\n", "e:1: the phrase is empty; remove it"),
        (
            "u\t@name\ttom\n\nu\t@name\t tom \t2\n",
            "e:3: 'tom' of @name has the weight 2, but 1 at line 1; remove one of them",
        ),
        (
            "u\tgroup\tg\nu\tgroup\th\n",
            "e:2: utterance 'u' is in two groups, 'g' and 'h'; keep only one of these lines",
        ),
        ("u\tlists\tl\t2\n", "e:1: a line with 'lists' must have three columns"),
        ("u\tlists\tl\n", "e:1: utterance 'u': the list 'l' is not defined; define it, or correct the name"),
        ("list:l\tfile\tp\tmany\n", "e:1: the number of phrases must be an integer of at least 1, not 'many'"),
        # encodings
        (b"u\t@name\ttom\nu\t@name\tJos\xe9\n", r"e:2: not UTF-8 \(.*\); convert it with iconv"),
        (b"\xff\xfe{\0", r"e:1: not UTF-8 \(invalid start byte\); convert it with iconv"),
        (gzip.compress(b"u\t@name\ttom\n")[:-6], "e: the gzip stream is truncated"),
    ],
)
def test_invalid_entries_raise_format_error_with_their_position(
    content: str | bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "e").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FormatError, match=message):
        Entities.read(tmp_path / "e")


def test_list_instead_of_an_object_raises_format_error() -> None:
    with pytest.raises(FormatError, match="entities must be an object with classes as keys, not a list"):
        Entities.from_dict(["tom"])  # type: ignore[arg-type]


def test_epsilon_in_a_phrase_raises_format_error() -> None:
    with pytest.raises(FormatError, match="@name, entry 1: '<eps>' in 'tom <eps>' is not a word; remove it"):
        Entities.from_dict({"@name": ["tom <eps>"]}, words=WORDS)


def test_missing_entity_file_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="e: cannot be read: No such file or directory"):
        Entities.read(tmp_path / "e")


@given(content=st.binary(max_size=60) | st.text('{}[]":,\t\n@name utlisgrop1.', max_size=60).map(str.encode))
def test_arbitrary_content_raises_only_format_or_input_errors(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("entities") / "e"
    path.write_bytes(content)
    with suppress(FormatError, InputError):  # the content may name a file that does not exist
        Entities.read(path, words=WORDS)


def test_messages_about_duplicate_entities_name_the_list_file_and_line(folder: Path) -> None:
    (folder / "e").write_text('{"list": "p", "file": "pools/p.tsv.gz", "@place": [{"text": "rome", "weight": 2}]}')
    duplicates = next(problem for problem in Entities.read(folder / "e").problems if "twice in a list" in problem)
    assert f"in list 'p' at {folder}/pools/p.tsv.gz, line 3 and line 1, entry 1" in duplicates
    (folder / "e").write_text('{"list": "p", "file": "pools/p.tsv.gz", "@place": ["rome"]}')
    with pytest.raises(
        FormatError, match=r"e:1: list 'p', @place, entry 1: .* 1, but 2 at .*p\.tsv\.gz, line 3; remove one"
    ):
        Entities.read(folder / "e")
