"""Commands write recogniser files in their original form, even if single utterances fail."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_files import FILES, FOLDER, correct, replacement, save
from linear_time import assert_linear

import ninja as package
from ninja import pipeline
from ninja.io.inputs import Output
from ninja.lattice import Lattice
from ninja.lattice.lattice import ListLattice

WHISPER = FOLDER / "whisper.json"
LINE = '{"audio_filepath": "/a/%s.wav", "pred_text": "Hello there."}\n'


def backwards(*segments):
    """Return a Whisper file with segments whose times decrease."""
    document = json.loads(WHISPER.read_text())
    for number in segments:
        document["segments"][number]["words"][3]["end"] = 0.1
    return json.dumps(document)


@pytest.mark.parametrize("segments", [(0,), (0, 1)])
def test_utterances_that_fail_keep_their_words(segments, folder, ninja):
    (folder / "a.json").write_text(backwards(*segments))
    code, _, messages = ninja("convert", "a.json", "-o", "b.json")
    assert code == 1
    assert "times run backwards" in messages
    number = {1: "1 utterance keeps its", 2: "2 utterances keep their"}[len(segments)]
    assert f"{number} original words, because no lattice was" in messages
    assert (folder / "b.json").read_text() == (folder / "a.json").read_text()


def test_each_file_of_a_folder_has_an_output(folder, ninja):
    (folder / "in").mkdir()
    (folder / "in" / "bad.json").write_text(backwards(0, 1))
    (folder / "in" / "good.json").write_bytes(WHISPER.read_bytes())
    (folder / "in" / "silent.json").write_text('{"text": "", "segments": [], "language": "en"}')
    assert ninja("prune", "in", "-o", "out/", "--beam", "5", "--acoustic-scale", "1")[0] == 1
    for path in (folder / "in").iterdir():
        assert (folder / "out" / path.name).read_bytes() == path.read_bytes()


def test_lines_of_several_files_follow_each_other(folder, ninja):
    texts = [
        LINE % "a" + "{bad\n" + LINE % "b",
        LINE % "c" + "\n" + LINE % "d",
        "{bad\n" + LINE.replace("Hello there.", "") % "e",
    ]
    for number, text in enumerate(texts):
        (folder / f"{number}.jsonl").write_text(text)
    code, _, messages = ninja("convert", "0.jsonl", "1.jsonl", "2.jsonl", "-o", "all.jsonl", "--jobs", "2")
    assert (code, "2 utterances keep their original words" in messages) == (1, True)
    assert (folder / "all.jsonl").read_text() == "".join(texts)


def test_standard_input_is_written_back(folder):
    command = [sys.executable, "-m", "ninja", "convert", "-"]
    for content, name in ((WHISPER.read_bytes(), "a.json"), ((LINE % "a" + LINE % "b").encode(), "a.jsonl")):
        subprocess.run([*command, "-o", name], input=content, check=True)
        assert (folder / name).read_bytes() == content


def test_gzip_files_and_files_with_a_byte_order_mark_are_written_back(folder, ninja):
    (folder / "a.json.gz").write_bytes(gzip.compress(WHISPER.read_bytes()))
    assert ninja("convert", "a.json.gz", "-o", "b.json.gz")[0] == 0
    assert gzip.decompress((folder / "b.json.gz").read_bytes()) == WHISPER.read_bytes()
    (folder / "mark.json").write_bytes(b"\xef\xbb\xbf" + WHISPER.read_bytes())
    assert ninja("convert", "mark.json", "-o", "c.json")[0] == 0
    assert (folder / "c.json").read_bytes() == (folder / "mark.json").read_bytes()


def test_several_recordings_and_other_formats_are_written_as_json_lists(folder, ninja):
    (folder / "other.json").write_bytes(WHISPER.read_bytes())
    assert ninja("convert", WHISPER, "-o", "a.jsonl")[0] == 0
    row = json.loads((folder / "a.jsonl").read_text().splitlines()[0])
    assert (row["key"], row["start"], row["end"]) == ("whisper-1", 0.0, 5.18)
    assert ninja("convert", WHISPER, "other.json", "-o", "both.json")[0] == 0  # the outputs of two recordings
    assert (folder / "both.json").read_text().startswith('{"key": "whisper-1"')
    assert ninja("convert", WHISPER, "-o", "b.json", "--to", "json")[0] == 0
    assert (folder / "b.json").read_text().startswith('{"key": "whisper-1"')


def test_lattices_that_lost_their_source_record_are_matched_to_utterances(folder):
    stage = pipeline.OnLattices(lambda lattice: Lattice.replace(lattice))
    assert not isinstance(Lattice.replace(next(iter(package.read(WHISPER)))[1]), ListLattice)
    pipeline.run(pipeline.Inputs(str(WHISPER)), stage, Output("out.json"))
    assert (folder / "out.json").read_bytes() == WHISPER.read_bytes()


@pytest.mark.parametrize("name", ["whisper.json", "huggingface.json", "huggingface-word.json"])
def test_a_file_that_begins_with_a_long_text_is_detected(name, folder, ninja):
    document = json.loads((FOLDER / name).read_text())
    document["text"] *= 3000
    (folder / "long.json").write_text(json.dumps(document))
    assert ninja("convert", "long.json", "-o", "back.json")[0] == 0
    assert (folder / "back.json").read_bytes() == (folder / "long.json").read_bytes()
    sentences = [" ".join(lattice.record.origin.words) for _, lattice in package.read("long.json")]
    texts = [part["text"].strip() for part in document.get("segments") or document["chunks"]]
    assert sentences == ([" ".join(document["text"].split())] if "word" in name else texts)


def test_files_that_describe_data_are_skipped_among_results(folder, ninja):
    (folder / "in").mkdir()
    (folder / "in" / "supervisions.jsonl").write_bytes((FOLDER / "lhotse.jsonl").read_bytes())
    assert ninja("convert", "in", "-o", "a.jsonl")[0] == 0
    (folder / "in" / "talk.json").write_bytes(WHISPER.read_bytes())
    code, _, messages = ninja("convert", "in", "-o", "b.jsonl")
    assert code == 0
    assert "skipped 1 file with recogniser results: supervisions.jsonl" in messages
    assert [json.loads(row)["key"] for row in (folder / "b.jsonl").read_text().splitlines()] == ["talk-1", "talk-2"]


def test_correcting_every_utterance_takes_time_in_proportion_to_the_file(folder):
    document = json.loads(WHISPER.read_text())

    def task(size):
        segments = document["segments"] * (1 + size // 3000)
        for number, segment in enumerate(segments):
            segments[number] = {**segment, "start": 10 * number, "end": 10 * number + 9}
        path = folder / f"{size}.json"
        path.write_text(json.dumps({"text": "".join(segment["text"] for segment in segments), "segments": segments}))
        return lambda: correct(path, folder / "out.json", "whisper", replacement("apple", "ap ple"))

    assert_linear(task, 1 << 16, "corrections")


CONFIDENCES = st.sampled_from([0.5, 0.25, 0.125])
SENTENCES = st.lists(st.sampled_from("abc"), max_size=3).map(" ".join)


@given(st.lists(st.tuples(SENTENCES, CONFIDENCES), min_size=1, max_size=5))
def test_alternatives_in_any_order_are_written_back(tmp_path_factory, alternatives):
    entries = [{"transcript": text, "confidence": confidence} for text, confidence in alternatives]
    path, target = save(tmp_path_factory.mktemp("alternatives"), {"results": [{"alternatives": entries}]})
    correct(path, target, "google", lambda _, words: words)
    assert target.read_bytes() == path.read_bytes()


def test_alternatives_are_written_in_their_new_order(folder):
    path = FOLDER / "azure.json"
    with package.write("out.json", to="azure") as output:
        for _, lattice in package.read(path):
            nbest = package.graph.lattice_nbest(lattice, 2)
            first, second = nbest.hypotheses
            output.write(replace(nbest, hypotheses=(replace(second, acoustic=first.acoustic[:1] * 6), first)))
    before, after = json.loads(path.read_text()), json.loads((folder / "out.json").read_text())
    assert after["NBest"] == before["NBest"][::-1]
    assert after["DisplayText"] == "What is the weather like?"


def test_other_forms_of_a_text_get_words_in_their_form(folder):
    correct(FOLDER / "azure-batch.json", folder / "out.json", "azure", replacement("world.", "Wendy Wong!"))
    [phrase] = json.loads((folder / "out.json").read_text())["recognizedPhrases"]
    [best] = phrase["nBest"]
    assert (best["display"], best["lexical"], best["maskedITN"]) == ("Hello Wendy Wong!", *["hello wendy wong"] * 2)
    assert [word["word"] for word in best["words"]] == ["hello", "wendy", "wong"]
    assert [word["offset"] for word in best["words"]] == ["PT0.09S", "PT0.59S", "PT0.67S"]
    assert [word["offsetInTicks"] for word in best["words"]] == [900000.0, 5900000.0, 6700000.0]


def test_confidences_speakers_and_times_are_read():
    origins = {
        path.name: lattice.record.origin
        for path, form in FILES.items()
        for _, lattice in [next(iter(package.read(path, format=form)))]
    }
    assert origins["aws-diarization.json"].confidences == (*(1.0,) * 8, 0.902, 1.0)
    assert origins["aws-diarization.json"].speakers[0::9] == ("spk_0", "spk_1")
    assert origins["azure-batch.json"].confidences == (0.987572, 0.906032)
    assert (origins["azure-batch.json"].speaker, origins["azure-batch.json"].channel) == ("1", "0")
    assert origins["seglst.json"].speaker == "Alice"
    assert (origins["whisper.cpp.json"].begin, origins["whisper.cpp.json"].end) == (0.0, 3.56)
    [(_, lattice)] = package.read(FOLDER / "google.json")
    assert lattice.time.tolist()[:6] == [0, 20, 70, 110, 140, 200]
    assert set(lattice.record.origin.speakers) == {"1", "2", "3"}
