"""Damaged recogniser files are rejected; their valid utterances are read."""

import json
import random

import pytest
from hypothesis_files import FILES, correct, replacement
from lattice_files import write_all

import ninja
from ninja.errors import NinjaError

IDS = [path.name for path in FILES]
WHISPER = next(path for path in FILES if path.name == "whisper.json")


def read(path, form):
    """Return the keys and the errors of a file."""
    errors = []
    try:
        keys = [key for key, _ in ninja.read(path, format=form, on_error=errors.append, read_ahead=False)]
    except NinjaError as error:
        return [], [*errors, error]
    return keys, errors


def keys_and_errors(tmp_path, document, form="whisper"):
    path = tmp_path / "x.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    keys, errors = read(path, form)
    return keys, [str(error).removeprefix(str(path)) for error in errors]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_damaged_files_raise_ninja_error_or_are_written_back(path, tmp_path):
    content = path.read_bytes()
    rng = random.Random(path.name)
    target = tmp_path / f"x{path.suffix}"
    for _ in range(40):
        at = rng.randrange(len(content))
        piece = rng.choice(
            [b"", b"\xff", b'"', b"[", b"}", b"null", b"-1", b"1e999", b"NaN", b"9" * 400, b"{}", b"\\ud800"]
        )
        damaged = content[:at] + piece + content[at + len(piece) :] if rng.random() < 0.7 else content[:at]
        target.write_bytes(damaged)
        keys, errors = read(target, FILES[path])
        assert keys or errors
        if keys:  # readable files can be written
            lattices = ninja.read(target, format=FILES[path], on_error=lambda _: None, read_ahead=False)
            write_all(tmp_path / f"y{path.suffix}", (lattice for _, lattice in lattices), to=FILES[path])
            assert (tmp_path / f"y{path.suffix}").read_bytes() == damaged


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"segments": [{"text": "a"', ": not JSON: Expecting ',' delimiter"),
        ('{"segments": 3}', ": expected a list at 'segments', found 3"),
        ('{"segments": [3]}', "key 'x': expected an object at 'segments[0]', found 3"),
        ('{"segments": [{"text": 3}]}', "key 'x': expected text at 'segments[0].text', found 3"),
        ('{"segments": [{"id": 3}]}', "key 'x': 'segments[0]' has neither 'text' nor words"),
        ('{"segments": [{"text": "\\ud800"}]}', "key 'x': expected text at 'segments[0].text', found '\\ud800'"),
        ('{"segments": [{"text": "a", "words": 3}]}', "expected a list at 'segments[0].words', found 3"),
        ('{"segments": [{"text": "a", "words": [3]}]}', "expected a word at 'segments[0].words[0]', found 3"),
        ('{"segments": [{"text": "a", "start": NaN}]}', "expected a number at 'segments[0].start', found nan"),
        ('{"segments": [{"text": "a", "start": "x"}]}', "expected a time at 'segments[0].start', found 'x'"),
        ('{"segments": [{"text": "a", "start": 1e300}]}', "expected a time at 'segments[0].start', found 1e+300"),
        ('{"segments": [{"text": "a", "text": "b"}]}', "key 'x': not JSON: an object contains the same field twice"),
        (
            '{"segments": [{"text": "a", "start": 2, "end": 1}]}',
            "times run backwards: 'segments[0]' ends at 1 s, before",
        ),
        ("[" * 100_000, ": not JSON: lists are nested too deeply"),
    ],
)
def test_errors_contain_the_utterance_and_the_json_path(document, message, tmp_path):
    keys, errors = keys_and_errors(tmp_path, document)
    assert keys == []
    assert len(errors) == 1
    assert message in errors[0]


def test_a_large_number_as_time_is_refused(tmp_path):
    keys, errors = keys_and_errors(tmp_path, f'{{"segments": [{{"text": "a", "start": {"9" * 4000}}}]}}')
    assert keys == []
    assert "expected a number at 'segments[0].start', found a large number" in errors[0]


def test_a_segment_out_of_order_is_an_error(tmp_path):
    segments = [
        {"text": "a", "start": 5, "end": 6},
        {"text": "b", "start": 2, "end": 3},
        {"text": "c", "start": 7, "end": 8},
    ]
    keys, errors = keys_and_errors(tmp_path, {"segments": segments})
    assert keys == ["x-1", "x-3"]
    assert errors == [
        ", key 'x-2': times run backwards: 'segments[1]' begins at 2 s, before the previous utterance (5 s)"
    ]


def test_an_invalid_utterance_does_not_affect_the_others(tmp_path):
    document = json.loads(WHISPER.read_text())
    document["segments"].insert(1, {"text": 5})
    keys, errors = keys_and_errors(tmp_path, document)
    assert keys == ["x-1", "x-3"]
    assert errors == [", key 'x-2': expected text at 'segments[1].text', found 5"]


def test_alternatives_without_scores_are_refused(tmp_path):
    document = {"results": [{"alternatives": [{"transcript": "a", "confidence": 0.5}, {"transcript": "b"}]}]}
    keys, errors = keys_and_errors(tmp_path, document, "google")
    assert keys == []
    assert "is one of 2 alternatives, but has no confidence; specify the logarithm of its probability" in errors[0]
    assert "--from google:missing_score=" in errors[0]
    assert keys_and_errors(tmp_path, document, "google:missing_score=-3") == (["x"], [])


def test_a_silent_file_is_an_empty_sentence(tmp_path):
    assert keys_and_errors(tmp_path, {"text": "", "segments": [], "language": "en"}) == (["x"], [])
    assert keys_and_errors(tmp_path, {"RecognitionStatus": "NoMatch", "Offset": 1, "Duration": 2}, "azure") == (
        ["x"],
        [],
    )


def test_invalid_lines_do_not_affect_the_others(tmp_path):
    good = '{"audio_filepath": "/a/%s.wav", "pred_text": "A b."}'
    keys, errors = keys_and_errors(
        tmp_path, "\n".join([good % "u", "{bad", "", good % "v", "3", good % "u"]), "nemo-manifest"
    )
    assert keys == ["u", "v"]
    assert [error.partition(" (")[0] for error in errors] == [
        ":2, key 'x-2': not JSON: Expecting property name enclosed in double quotes: line 1 column 2",
        ":5, key 'x-4': expected an object, found 3",
        ":6, key 'u': the utterance occurs twice; choose another key field",
    ]


def test_letters_split_between_tokens_are_read_and_kept(tmp_path):
    tokens = [" est\udcc3", "\udca1", " aqu", "\udcc3\udcad."]
    items = [
        {"text": text, "offsets": {"from": 10 * place, "to": 10 * place + 10}} for place, text in enumerate(tokens)
    ]
    segment = {"text": " está aquí.", "offsets": {"from": 0, "to": 40}, "tokens": items}
    content = json.dumps({"transcription": [segment]}, ensure_ascii=False, indent=1).encode(errors="surrogateescape")
    path, target = tmp_path / "x.json", tmp_path / "y.json"
    path.write_bytes(content)
    [(_, lattice)] = ninja.read(path)
    assert (lattice.record.origin.words, lattice.time.tolist()) == (("está", "aquí."), [0, 2, 4])
    correct(path, target, "whisper.cpp", lambda _, words: words)
    assert target.read_bytes() == path.read_bytes()
    correct(path, target, "whisper.cpp", replacement("aquí.", "allí."))
    [(_, lattice)] = ninja.read(target)
    assert lattice.record.origin.words == ("está", "allí.")
    assert b'"text": " est\xc3"' in target.read_bytes()


def test_text_that_is_not_utf_8_fails_only_its_utterance(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'{"segments": [{"text": "caf\xe9", "start": 0, "end": 1}, {"text": "b", "start": 1, "end": 2}]}')
    keys, errors = read(path, "whisper")
    assert keys == ["x-2"]
    assert "key 'x-1': 'segments[0].text' is not UTF-8; specify the encoding" in str(errors[0])
    [(_, first), _] = ninja.read(path, encoding="latin-1")
    assert first.record.origin.words == ("café",)
    correct(path, tmp_path / "y.json", "whisper:encoding=latin-1", replacement("b", "ü"))
    assert (tmp_path / "y.json").read_bytes() == path.read_bytes().replace(b'"b"', b'"\xfc"')
