"""Variants of the files of one recogniser."""

import json

import pytest
from hypothesis_files import FOLDER, correct, replacing

import ninja
from ninja.formats.format import HEAD, by_mark


def sample(name):
    """Return the first document of a file."""
    text = (FOLDER / name).read_text()
    return json.loads(text.splitlines()[0] if name.endswith("l") else text)


def nanoseconds(time):
    """Return a time as protocol buffers have it."""
    whole, rest = divmod(round(float(time.removesuffix("s")) * 1e9), 10**9)
    return {"seconds": str(whole), "nanos": rest}


WHISPER, GOOGLE, DEEPGRAM, LHOTSE = map(sample, ("whisper.json", "google.json", "deepgram.json", "lhotse.jsonl"))
VERBOSE = {"task": "transcribe", "language": "english", "duration": 9.98, "text": WHISPER["text"]}
WORDS = [
    {"word": word["word"].strip(), "start": word["start"], "end": word["end"]}
    for segment in WHISPER["segments"]
    for word in segment["words"]
]
SEGMENTS = [{name: segment[name] for name in ("id", "start", "end", "text")} for segment in WHISPER["segments"]]
[BEST] = DEEPGRAM["results"]["channels"][0]["alternatives"]
SPOKEN = {"start": 12.07, "end": 12.87, "channel": 0, "transcript": BEST["transcript"], "words": BEST["words"]}
BUFFERS = [
    {**word, "startTime": nanoseconds(word["startTime"]), "endTime": nanoseconds(word["endTime"])}
    for word in GOOGLE["results"][0]["alternatives"][0]["words"]
]
PIECES = [(" That", 0.16, 0.31), ("'s", 0.38, 0.49), (" one", 0.5, 0.6), (" step", 0.7, 0.8), (".", 0.8, 0.9)]
SERVER = {
    "text": " That's one step.\n",
    "segments": [
        {
            "text": " That's one step.",
            "start": 0,
            "end": 5,
            "words": [{"word": word, "start": start, "end": end, "probability": 0.5} for word, start, end in PIECES],
        }
    ],
}
# A document, its format, one of its words, the number of utterances and whether words have times.
VARIANTS = {
    "faster-whisper's segments": (WHISPER["segments"], "whisper", "apple", 2, True),
    "verbose_json of words": ({**VERBOSE, "words": WORDS}, "whisper", "apple", 1, True),
    "verbose_json of segments": ({**VERBOSE, "segments": SEGMENTS}, "whisper", "apple", 2, False),
    "verbose_json of both": ({**VERBOSE, "segments": SEGMENTS, "words": WORDS}, "whisper", "apple", 2, True),
    "the server of whisper.cpp": (SERVER, "whisper", "That's", 1, True),
    "several results of a pipeline": ([sample("huggingface.json")] * 2, "huggingface", "fellow", 4, False),
    "an operation of Google": ({"name": "1", "done": True, "response": GOOGLE}, "google", "doing", 1, True),
    "protocol buffers of Google": (
        {"results": [{"alternatives": [{"transcript": "okay so what am I doing here", "words": BUFFERS}]}]},
        "google",
        "doing",
        1,
        True,
    ),
    "utterances of Deepgram": (
        {"results": {**DEEPGRAM["results"], "utterances": [SPOKEN]}},
        "deepgram",
        "stop",
        1,
        True,
    ),
    "several results of Azure": ([sample("azure.json")] * 2, "azure", "weather", 2, False),
    "supervisions in a list": ([LHOTSE], "lhotse", "ABIGAIL", 1, True),
    "a cut": ({"id": "c", "supervisions": [LHOTSE]}, "lhotse", "ABIGAIL", 1, True),
    "cuts": ([{"id": "c", "supervisions": [LHOTSE]}], "lhotse", "ABIGAIL", 1, True),
    "several results of Vosk": ([sample("vosk.json")] * 2, "vosk", "one", 2, True),
    "several results of sherpa": ([sample("sherpa-onnx.json")] * 2, "sherpa-onnx", "radio", 2, True),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_recognised_read_and_written_back(name, tmp_path):
    document, form, word, count, is_timed = VARIANTS[name]
    path, target = tmp_path / "x.json", tmp_path / "y.json"
    path.write_text(json.dumps(document, indent=1))
    assert by_mark(path.read_bytes()[:HEAD]).name == form
    lattices = [lattice for _, lattice in ninja.read(path)]
    assert [lattice.time is not None for lattice in lattices] == [is_timed] * count
    correct(path, target, form, lambda _, words: words)
    assert target.read_bytes() == path.read_bytes()
    for new in ("xyzzy", "xyzzy and", ""):
        correct(path, target, form, replacing(word, new))
        assert word.lower() not in target.read_text().lower()
        origins = [lattice.record.origin.words for _, lattice in ninja.read(target)]
        assert origins == [tuple(replacing(word, new)("", list(one.record.origin.words))) for one in lattices]
