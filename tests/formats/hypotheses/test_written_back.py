"""Hypothesis files are written back in their original form: only corrected words change."""

import json
import re
from pathlib import Path

import pytest
from hypothesis_files import FILES, correct, replacement
from reference_graph import SHARED

import ninja as package
from ninja.errors import FormatError, LatticeError, OutputError
from ninja.formats.format import HEAD, by_mark

REAL = SHARED / "data/real/whisper/files"
WHISPER = next(path for path, form in FILES.items() if path.stem == "whisper")
IDS = [path.name for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_file_is_detected_by_its_content(path):
    assert by_mark(path.read_bytes()[:HEAD]).name == FILES[path]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_file_is_written_back_byte_for_byte(path, tmp_path, ninja):
    for name in (f"{tmp_path}/x{path.suffix}", f"{tmp_path}/folder/"):
        code, _, _ = ninja("convert", str(path), "-o", name)
        assert code == 0
        target = Path(name) / path.name if name.endswith("/") else Path(name)
        assert target.read_bytes() == path.read_bytes()


# A word of each file; its letters occur in the file only in forms of this word.
WORDS = {
    "aws-diarization.json": "hold",
    "azure.json": "weather",
    "azure-batch.json": "Hello",
    "azure-detailed.json": "weather",
    "azure-pronunciation.json": "Good",
    "azure-transcription.json": "Alabama",
    "deepgram-nova.json": "ordain",
    "google.json": "administer",
    "google-operation.json": "administer",
    "google-punctuation.json": "pitiless",
    "huggingface.json": "gossoons",
    "huggingface-word.json": "Bartley",
    "lhotse.jsonl": "Bartley",
    "ninja-words.jsonl": "ended",
    "nemo-manifest.json": "tomb",
    "nemo-manifest-beams.jsonl": "Good",
    "nemo-manifest-nbest.json": "introduiu",
    "nemo-manifest-timestamps.json": "McConnI",
    "seglst.json": "Strategic",
    "sherpa-onnx.json": "radio",
    "vosk.json": "오후",
    "vosk-alternatives.json": "오후",
    "whisper.json": "apple",
    "whisper-faster.json": "introduce",
    "whisper-openai.json": "introduce",
    "whisper-timestamped.json": "spacewalk",
    "whisper.cpp.json": "introduce",
    "whisper.cpp-segments.json": "prolonged",
    "whisperx.json": "Okay,",
    "whisperx-speakers.json": "botanist",
}


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_corrected_word_changes_only_its_letters(path, tmp_path):
    word, target = WORDS[path.name], tmp_path / path.name
    correct(path, target, FILES[path], replacement(word, word[0] + "xyzzy"))
    new = re.sub(f"(?i)({word[0]}){word[1:]}", r"\1xyzzy", path.read_text())
    assert target.read_text() == new
    assert new != path.read_text()


@pytest.mark.parametrize("path", [path for path in FILES if path.stem.startswith("azure")], ids=lambda path: path.name)
@pytest.mark.parametrize("new", ["{} &", "- {}", "&"])
def test_words_of_punctuation_do_not_become_empty_words(path, new, tmp_path):
    word, target = WORDS[path.name], tmp_path / path.name
    correct(path, target, FILES[path], replacement(word, new.format(word)))
    assert new.strip("{} ") in target.read_text()
    assert target.read_text().count('""') == path.read_text().count('""')


UNUSUAL = '"quoted" back\\slash a\u2028b x\xa0y a\x1cb \x01 👩\u200d👩\u200d👧 \u200fשלום! e\u0301 é ▁a <b> &amp;'


@pytest.mark.parametrize("path", FILES, ids=IDS)
@pytest.mark.parametrize("new", ["two words", "", "a\u2028b", UNUSUAL], ids=["two", "none", "separator", "unusual"])
def test_a_word_is_split_or_removed_in_every_form_of_a_text(path, new, tmp_path):
    word, target = WORDS[path.name], tmp_path / path.name
    correct(path, target, FILES[path], replacement(word, new))
    form = FILES[path]
    old = [lattice.record.origin.words for _, lattice in package.read(path, format=form)]
    back = [lattice.record.origin.words for _, lattice in package.read(target, format=form)]
    assert back == [tuple(replacement(word, new)("", list(words))) for words in old]
    documents = [json.loads(text) for text in texts_of(target)]
    assert word.lower() not in json.dumps(documents, ensure_ascii=False).lower()
    again = tmp_path / f"again-{path.name}"
    correct(target, again, form, lambda _, words: words)
    assert again.read_bytes() == target.read_bytes()


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_removing_all_words_keeps_the_utterances(path, tmp_path):
    target, form = tmp_path / path.name, FILES[path]
    correct(path, target, form, lambda _, words: [])
    back = [(key, lattice.record.origin.words) for key, lattice in package.read(target, format=form)]
    assert back == [(key, ()) for key, _ in package.read(path, format=form)]


def texts_of(path):
    """Return the JSON texts of a file."""
    text = path.read_text()
    try:
        json.loads(text)
    except ValueError:
        return text.splitlines()
    return [text]


# The data are not part of the project; in CI, conftest.py turns this skip into a failure.
@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data/real")
def test_files_of_whisper_are_written_back_byte_for_byte(tmp_path, ninja):
    for jobs in ("1", "2"):
        assert ninja("convert", str(REAL), "-o", f"{tmp_path}/{jobs}/", "--jobs", jobs)[0] == 0
        sources = sorted(REAL.glob("*.json"))
        assert sources
        for path in sources:
            assert (tmp_path / jobs / path.name).read_bytes() == path.read_bytes()


def test_a_corrected_word_changes_its_texts_and_its_item(tmp_path):
    target = tmp_path / "x.json"
    assert correct(WHISPER, target, "whisper", replacement("bow,", "bough,")) == []
    assert target.read_bytes() == WHISPER.read_bytes().replace(b"bow,", b"bough,")


def test_a_word_is_split_and_merged_again(tmp_path):
    target = tmp_path / "x.json"
    correct(WHISPER, target, "whisper", replacement("apple", "ap ple"))
    before, after = (json.loads(path.read_text()) for path in (WHISPER, target))
    assert after["text"] == before["text"].replace("apple", "ap ple")
    items = after["segments"][0]["words"]
    place = next(number for number, item in enumerate(items) if item["word"] == " ap")
    old = before["segments"][0]["words"][place]
    assert (items[place]["start"], items[place + 1]["end"]) == (old["start"], old["end"])
    assert items[place]["end"] == items[place + 1]["start"]
    assert items[place + 1]["word"] == " ple"
    assert items[place]["probability"] == items[place + 1]["probability"] == old["probability"]
    assert len(items) == len(before["segments"][0]["words"]) + 1
    back = tmp_path / "y.json"
    correct(target, back, "whisper", lambda _, words: " ".join(words).replace("ap ple", "apple").split())
    assert json.loads(back.read_text()) == before


def test_words_are_removed_and_inserted(tmp_path):
    target = tmp_path / "x.json"
    correct(WHISPER, target, "whisper", lambda _, words: [*words[1:], "wörld"])
    before, after = (json.loads(path.read_text()) for path in (WHISPER, target))
    assert after["segments"][1]["text"] == before["segments"][1]["text"].replace("Lady, ", "") + " wörld"
    assert r"w\u00f6rld" in target.read_text()  # the file is pure ASCII
    last = after["segments"][1]["words"][-1]
    assert (last["word"], last["start"], last["end"]) == (" wörld", 9.98, 9.98)
    assert {name: value for name, value in after["segments"][0].items() if name not in ("text", "words")} == {
        name: value for name, value in before["segments"][0].items() if name not in ("text", "words")
    }


def test_letters_beyond_ascii_are_written_unescaped_as_in_the_file(tmp_path):
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    document = json.loads(WHISPER.read_text())
    document["note"] = "Prüfung"
    source.write_text(json.dumps(document, ensure_ascii=False, indent=1))
    correct(source, target, "whisper", replacement("bow,", "bóugh,"))
    assert target.read_text() == source.read_text().replace("bow,", "bóugh,")


def test_unwritten_utterances_keep_their_words_and_are_counted(tmp_path):
    target = tmp_path / "x.json"
    with package.write(target, to="whisper") as output:
        (_, first), _ = package.read(WHISPER)
        output.write(first)
    assert target.read_bytes() == WHISPER.read_bytes()
    assert output.notes() == ["1 utterance keeps its original words, because no lattice was written to replace them"]


def test_two_recordings_cannot_be_written_to_one_file(tmp_path):
    second_path = tmp_path / "other.json"
    second_path.write_bytes(WHISPER.read_bytes())
    lattices = [lattice for path in (WHISPER, second_path) for _, lattice in package.read(path)]
    with package.write(tmp_path / "x.json", to="whisper") as output:
        for lattice in lattices[:2]:
            output.write(lattice)
        with pytest.raises(OutputError, match=r"whisper files contain one recording, .*specify a folder"):
            output.write(lattices[2].with_key("other"))


def test_lattices_of_other_formats_are_refused(tmp_path):
    lists = tmp_path / "x.jsonl"
    lists.write_text('{"key": "u", "nbest": [{"text": "a", "score": -1}]}\n')
    [(_, lattice)] = package.read(lists)
    output = package.write(tmp_path / "x.json", to="whisper")
    with output, pytest.raises(LatticeError, match=r"not from a whisper file, .*write JSON lines"):
        output.write(lattice)


def test_times_that_run_backwards_are_an_error_of_their_utterance(tmp_path):
    document = json.loads(WHISPER.read_text())
    document["segments"][0]["words"][3]["end"] = 0.1
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(document))
    errors: list[FormatError] = []
    assert [key for key, _ in package.read(path, on_error=errors.append)] == ["talk-2"]
    assert str(errors[0]).startswith(
        f"{path}, key 'talk-1': 'segments[0]': times run backwards: word 4, 'you', ends at"
    )
    document["segments"][1]["start"] = -0.5
    path.write_text(json.dumps(document))
    errors.clear()
    assert [key for key, _ in package.read(path, on_error=errors.append)] == []
    assert "expected a time at 'segments[1].start', found -0.5" in str(errors[1])


def test_words_that_overlap_are_counted(tmp_path):
    document = json.loads(WHISPER.read_text())
    document["segments"][0]["words"][3]["start"] -= 0.05
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(document))
    with pytest.warns(UserWarning, match="1 word overlaps with the preceding word"):
        assert len([*package.read(path)]) == 2
