"""Variants of the files that one recogniser writes."""

import json

import pytest
from hypothesis_files import FOLDER, correct, replacement, save

import ninja
from ninja.formats.format import HEAD, by_mark
from ninja.formats.hypotheses.item_changes import spelled_time
from ninja.formats.hypotheses.values import seconds_of
from ninja.graph import lattice_nbest


def sample(name):
    """Return the first document of a file."""
    text = (FOLDER / name).read_text()
    return json.loads(text.splitlines()[0] if name.endswith("l") else text)


def nanoseconds(time):
    """Return a time in the form of protocol buffers."""
    whole, nanos = divmod(round(float(time.removesuffix("s")) * 1e9), 10**9)
    return {"seconds": str(whole), "nanos": nanos}


WHISPER, GOOGLE, DEEPGRAM, LHOTSE = map(sample, ("whisper.json", "google.json", "deepgram-nova.json", "lhotse.jsonl"))
VERBOSE = {"task": "transcribe", "language": "english", "duration": 9.98, "text": WHISPER["text"]}
WORDS = [
    {"word": word["word"].strip(), "start": word["start"], "end": word["end"]}
    for segment in WHISPER["segments"]
    for word in segment["words"]
]
SEGMENTS = [{name: segment[name] for name in ("id", "start", "end", "text")} for segment in WHISPER["segments"]]
[BEST] = DEEPGRAM["results"]["channels"][0]["alternatives"]
UTTERANCE = {"start": 0.32, "end": 18.6, "channel": 0, "transcript": BEST["transcript"], "words": BEST["words"]}
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
TIMESTAMPED = [
    {
        **segment,
        "words": [
            {"text": w["word"].strip(" ,."), "start": w["start"], "end": w["end"], "confidence": 0.5}
            for w in segment["words"]
        ],
    }
    for segment in WHISPER["segments"]
]
JAPANESE = {
    "text": "雨が降っています傘を持って行く",
    "segments": [
        {
            "text": "雨が降っています",
            "start": 0,
            "end": 2,
            "words": [
                {"word": piece, "start": place / 4, "end": place / 4 + 0.2, "probability": 0.5}
                for place, piece in enumerate(["雨", "が", "降", "っ", "て", "い", "ます"])
            ],
        },
        {
            "text": "傘を持って行く",
            "start": 2,
            "end": 4,
            "words": [
                {"word": piece, "start": 2 + place / 4, "end": 2.2 + place / 4, "probability": 0.5}
                for place, piece in enumerate(["傘", "を", "持", "って", "行く"])
            ],
        },
    ],
    "language": "ja",
}
NEMO = {
    "audio_filepath": "/data/a.wav",
    "text": "no comment",
    "age": float("nan"),
    "pred_text": "Good morning. Hello.",
    "word": [
        {
            "word": word,
            "start_offset": 10 * place,
            "end_offset": 10 * place + 8,
            "start": place / 2,
            "end": place / 2 + 0.4,
        }
        for place, word in enumerate(["Good", "morning.", "Hello."])
    ],
    "segment": [
        {"segment": "Good morning.", "start": 0.0, "end": 0.9},
        {"segment": "Hello.", "start": 1.0, "end": 1.4},
    ],
}
SHERPA = sample("sherpa-onnx.json")
SPELLED = {**SHERPA, "timestamps": "[" + ", ".join(f"{time:.2f}" for time in SHERPA["timestamps"]) + "]"}
CONTINUED = {
    "text": " the yellow lamps",
    "timestamps": [0.1, 0.3, 0.5, 0.7, 0.9],
    "tokens": ["the", "yel@@", "low", "la@@", "mps"],
}
PAUSE = [
    ("Yes", 0.0, 0.4),
    ("sir", 0.5, 0.8),
    (".", None, None),
    ("No", 1.0, 1.4),
    ("way", 1.5, 1.8),
    (".", None, None),
]


def aws_item(content, begin, end, *, nested=True):
    """Return an Amazon item, or one of its alternatives."""
    kind = {"type": "punctuation"} if begin is None else {"type": "pronunciation"}
    times = {} if begin is None else {"start_time": str(begin), "end_time": str(end)}
    value = {"confidence": "0.0" if begin is None else "0.9", "content": content}
    return {**times, "alternatives": [value], **kind} if nested else {**times, **value, **kind}


AWS = {
    "jobName": "a",
    "status": "COMPLETED",
    "results": {
        "transcripts": [{"transcript": "Yes sir. No way."}],
        "channel_labels": {
            "channels": [
                {"channel_label": "ch_0", "items": [aws_item(*PAUSE[0]), aws_item(*PAUSE[4]), aws_item(*PAUSE[5])]},
                {"channel_label": "ch_1", "items": [aws_item(*PAUSE[1]), aws_item(*PAUSE[2]), aws_item(*PAUSE[3])]},
            ],
            "number_of_channels": 2,
        },
        "items": [aws_item(*item) for item in PAUSE],
        "segments": [
            {
                "start_time": "0.0",
                "end_time": "0.8",
                "alternatives": [
                    {"transcript": "Yes sir.", "items": [aws_item(*item, nested=False) for item in PAUSE[:3]]},
                    {"transcript": "Guess her.", "items": []},
                ],
            },
            {
                "start_time": "1.0",
                "end_time": "1.8",
                "alternatives": [
                    {"transcript": "No way.", "items": [aws_item(*item, nested=False) for item in PAUSE[3:]]},
                ],
            },
        ],
    },
}
FAST = {
    "durationMilliseconds": 3000,
    "combinedPhrases": [{"channel": 0, "text": "Good morning. How are you?"}, {"channel": 1, "text": "Hello."}],
    "phrases": [
        {
            "channel": channel,
            "offsetMilliseconds": begin,
            "durationMilliseconds": 900,
            "text": text,
            "locale": "en-US",
            "confidence": 0.9,
            "words": [
                {"text": word, "offsetMilliseconds": begin + 200 * place, "durationMilliseconds": 150}
                for place, word in enumerate(text.split())
            ],
        }
        for channel, begin, text in ((0, 0, "Good morning."), (1, 1000, "Hello."), (0, 2000, "How are you?"))
    ],
}
LIVE = {
    "type": "Results",
    "channel_index": [0, 1],
    "duration": 19.1,
    "start": 0.0,
    "is_final": True,
    "channel": {"alternatives": [{**BEST, "transcript": BEST["transcript"]}]},
}
MIXED = {"id": "m", "type": "MixedCut", "tracks": [{"cut": {"id": "c", "supervisions": [LHOTSE]}, "offset": 0}]}
SILENT = {"id": "s", "recording_id": "r", "start": 0, "duration": 1, "channel": 0}
PARTS = sample("huggingface.json")
SPEAKERS = {**PARTS, "speakers": [{"speaker": "SPEAKER_00", **chunk} for chunk in PARTS["chunks"]]}
# (document, format, a word in it, number of utterances, whether words have times)
VARIANTS = {
    "faster-whisper's segments": (WHISPER["segments"], "whisper", "apple", 2, True),
    "verbose_json of words": ({**VERBOSE, "words": WORDS}, "whisper", "apple", 1, True),
    "verbose_json of segments": ({**VERBOSE, "segments": SEGMENTS}, "whisper", "apple", 2, False),
    "verbose_json of both": ({**VERBOSE, "segments": SEGMENTS, "words": WORDS}, "whisper", "apple", 2, True),
    "the server of whisper.cpp": (SERVER, "whisper", "That's", 1, True),
    "several results of a pipeline": ([sample("huggingface.json")] * 2, "huggingface", "gossoons", 4, False),
    "protocol buffers of Google": (
        {"results": [{"alternatives": [{**GOOGLE["results"][0]["alternatives"][0], "words": BUFFERS}]}]},
        "google",
        "administer",
        1,
        True,
    ),
    "utterances of Deepgram": (
        {"results": {**DEEPGRAM["results"], "utterances": [UTTERANCE]}},
        "deepgram",
        "ordain",
        1,
        True,
    ),
    "several results of Azure": ([sample("azure.json")] * 2, "azure", "weather", 2, False),
    "supervisions in a list": ([LHOTSE], "lhotse", "Bartley", 1, True),
    "a cut": ({"id": "c", "supervisions": [LHOTSE]}, "lhotse", "Bartley", 1, True),
    "cuts": ([{"id": "c", "supervisions": [LHOTSE]}], "lhotse", "Bartley", 1, True),
    "several results of Vosk": ([sample("vosk.json")] * 2, "vosk", "오후", 2, True),
    "words of whisper-timestamped": ({**VERBOSE, "segments": TIMESTAMPED}, "whisper", "apple", 2, True),
    "words of parts without blanks": (JAPANESE, "whisper", "雨が降っています", 2, True),
    "words of NeMo": (NEMO, "nemo-manifest", "morning.", 1, True),
    "a prediction of NeMo alone": ({"pred_text": "Good morning."}, "nemo-manifest", "morning.", 1, False),
    "times of sherpa in a string": (SPELLED, "sherpa-onnx", "radio", 1, True),
    "continued pieces of sherpa": (CONTINUED, "sherpa-onnx", "yellow", 1, True),
    "segments and channels of Amazon": (AWS, "aws", "sir.", 1, True),
    "fast transcription of Azure": (FAST, "azure", "morning.", 3, True),
    "live results of Deepgram": (LIVE, "deepgram", "ordain", 1, True),
    "a mixed cut": (MIXED, "lhotse", "Bartley", 1, True),
    "cuts and mixed cuts": (
        [{"id": "c", "supervisions": [{**LHOTSE, "id": "first"}]}, MIXED],
        "lhotse",
        "Bartley",
        2,
        True,
    ),
    "speakers of a pipeline": (SPEAKERS, "huggingface", "gossoons", 2, False),
    "segments without times": (
        [{"session_id": "a", "speaker": "A", "words": "Good morning."}],
        "seglst",
        "morning.",
        1,
        False,
    ),
    "several results of sherpa": ([sample("sherpa-onnx.json")] * 2, "sherpa-onnx", "radio", 2, True),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_recognised_read_and_written_back(name, tmp_path):
    document, form, word, count, is_timed = VARIANTS[name]
    path, target = save(tmp_path, document, indent=1)
    assert by_mark(path.read_bytes()[:HEAD]).name == form
    lattices = [lattice for _, lattice in ninja.read(path)]
    assert [lattice.time is not None for lattice in lattices] == [is_timed] * count
    correct(path, target, form, lambda _, words: words)
    assert target.read_bytes() == path.read_bytes()
    for new in ("xyzzy", "xyzzy and", ""):
        correct(path, target, form, replacement(word, new))
        assert word.lower() not in target.read_text().lower()
        origins = [lattice.record.origin.words for _, lattice in ninja.read(target)]
        assert origins == [
            tuple(replacement(word, new)("", list(original.record.origin.words))) for original in lattices
        ]


def rewrite(document, form, fix, tmp_path):
    """Return the document with corrected words, and the notes of the writer."""
    path, target = save(tmp_path, document)
    notes = correct(path, target, form, fix)
    return json.loads(target.read_text()), notes


def test_a_supervision_without_text_is_silence(tmp_path):
    path, _ = save(tmp_path, [SILENT, LHOTSE])
    assert [len(lattice.record.origin.words) > 0 for _, lattice in ninja.read(path)] == [False, True]
    assert rewrite([SILENT, LHOTSE], "lhotse", replacement("Bartley", "Bartlett"), tmp_path)[0][0] == SILENT


def test_only_the_first_alternative_of_a_segment_of_amazon_changes(tmp_path):
    after, notes = rewrite(AWS, "aws", replacement("sir.", "madam, please."), tmp_path)
    assert notes == []
    first, second = after["results"]["segments"]
    assert [alternative["transcript"] for alternative in first["alternatives"]] == ["Yes madam, please.", "Guess her."]
    assert second == AWS["results"]["segments"][1]
    expected = [item["alternatives"][0]["content"] for item in after["results"]["items"]]
    assert [item["content"] for item in first["alternatives"][0]["items"]] == expected[:3]
    first_channel, second_channel = after["results"]["channel_labels"]["channels"]
    assert first_channel == AWS["results"]["channel_labels"]["channels"][0]
    assert [item["alternatives"][0]["content"] for item in second_channel["items"]] == ["madam,", "please.", "No"]


@pytest.mark.parametrize(
    ("fix", "times"),
    [
        (replacement("sir.", "madam, please."), [("madam,", "0.5", "0.65"), ("please.", "0.65", "0.8")]),
        (lambda _, words: [*words[:2], "Oh", *words[2:]], [("sir", "0.5", "0.8"), ("Oh", "0.8", "1")]),
    ],
)
def test_new_words_of_amazon_have_times_and_type_pronunciation(fix, times, tmp_path):
    after, _ = rewrite(AWS, "aws", fix, tmp_path)
    items = {item["alternatives"][0]["content"]: item for item in after["results"]["items"]}
    for word, begin, end in times:
        assert (items[word]["start_time"], items[word]["end_time"]) == (begin, end)
        assert items[word]["type"] == "pronunciation"
    [(_, lattice)] = ninja.read(tmp_path / "y.json")
    assert lattice.time is not None


def test_a_word_that_replaces_words_of_two_segments_is_put_into_the_first(tmp_path):
    def fix(_, words):
        return ["Yes", "Ronaldo", "way."]

    after, _ = rewrite(AWS, "aws", fix, tmp_path)
    texts = [segment["alternatives"][0]["transcript"] for segment in after["results"]["segments"]]
    assert texts == ["Yes Ronaldo", "way."]
    items = [
        [item["content"] for item in segment["alternatives"][0]["items"]] for segment in after["results"]["segments"]
    ]
    assert items == [["Yes", "Ronaldo"], ["way", "."]]
    channels = after["results"]["channel_labels"]["channels"]
    contents = [[item["alternatives"][0]["content"] for item in channel["items"]] for channel in channels]
    assert contents == [["Yes", "way", "."], ["Ronaldo"]]


def test_a_changed_word_of_several_parts_changes_only_differing_parts(tmp_path):
    after, notes = rewrite(JAPANESE, "whisper", replacement("雨が降っています", "雪が降っています"), tmp_path)
    assert notes == []
    assert after["text"] == "雪が降っています傘を持って行く"
    assert [word["word"] for word in after["segments"][0]["words"]][:3] == ["雪", "が", "降"]


@pytest.mark.parametrize(
    ("old", "new", "pieces"),
    [
        ("McConnell,", "McConnell, Sir", [" McConnell", ",", " Sir", " let"]),
        ("Bartley", "Bart Lee", [".", " Bart", " Lee", " Alexander"]),
    ],
)
def test_new_words_of_pieces_have_the_leading_spaces_of_the_old_words(old, new, pieces, tmp_path):
    after, _ = rewrite(sample("whisper.cpp.json"), "whisper.cpp", replacement(old, new), tmp_path)
    tokens = [token["text"] for token in after["transcription"][0]["tokens"]]
    begin = tokens.index(pieces[0])
    assert tokens[begin : begin + len(pieces)] == pieces


def test_a_word_is_inserted_between_two_words_of_one_item(tmp_path):
    word = {"word": "Good morning.", "start": 0.0, "end": 0.8}
    document = {**NEMO, "word": [word, NEMO["word"][2]]}
    after, _ = rewrite(document, "nemo-manifest", replacement("morning.", "old morning."), tmp_path)
    assert after["pred_text"] == "Good old morning. Hello."
    assert after["word"] == [{**word, "word": "Good old morning."}, NEMO["word"][2]]


def test_items_without_punctuation_are_corrected_without_punctuation(tmp_path):
    document = {**VERBOSE, "segments": TIMESTAMPED}
    before = [word["text"] for segment in TIMESTAMPED for word in segment["words"]]
    after, _ = rewrite(document, "whisper", replacement("bow,", "bough,"), tmp_path)
    words = [word["text"] for segment in after["segments"] for word in segment["words"]]
    assert words == ["bough" if word == "bow" else word for word in before]


def test_a_word_missing_in_the_list_is_removed_from_the_text(tmp_path):
    document = json.loads(json.dumps(NEMO))
    del document["word"][1]
    after, notes = rewrite(document, "nemo-manifest", replacement("morning.", ""), tmp_path)
    assert notes == []
    assert (after["pred_text"], after["word"]) == ("Good Hello.", document["word"])


def test_an_invalid_second_form_of_a_time_is_kept(tmp_path):
    document = sample("whisper.cpp.json")
    times = {"from": "", "to": []}
    document["transcription"][0]["tokens"][1]["timestamps"] = times
    after, _ = rewrite(document, "whisper.cpp", replacement("McConnell,", "Mc Connell,"), tmp_path)
    tokens = after["transcription"][0]["tokens"]
    assert (tokens[1]["timestamps"], tokens[1]["offsets"]["to"] < tokens[2]["offsets"]["to"]) == (times, True)


def test_nan_and_infinity_are_kept_and_ignored_as_confidences(tmp_path):
    document = json.loads(json.dumps({**VERBOSE, "segments": WHISPER["segments"]}))
    document["segments"][0]["words"][0]["probability"] = float("nan")
    document["segments"][0]["avg_logprob"] = float("-inf")
    path, target = save(tmp_path, document)
    assert b"NaN" in path.read_bytes()
    [(_, first), _] = ninja.read(path)
    assert first.record.origin.confidences[:2] == (None, WHISPER["segments"][0]["words"][1]["probability"])
    correct(path, target, "whisper", replacement("apple", "pear"))
    assert target.read_bytes() == path.read_bytes().replace(b"apple", b"pear")


def utterance(channel, begin, text):
    """Return a Deepgram utterance."""
    words = [
        {
            "word": word.lower().strip(".,?"),
            "start": begin + place / 4,
            "end": begin + place / 4 + 0.2,
            "confidence": 0.5,
            "punctuated_word": word,
        }
        for place, word in enumerate(text.split())
    ]
    return {"start": begin, "channel": channel, "transcript": text, "words": words}


def test_utterances_of_two_channels_change_with_their_channel(tmp_path):
    utterances = [
        utterance(0, 0.0, "Hello, this is Anna."),
        utterance(1, 2.0, "Good morning, Anna."),
        utterance(0, 4.0, "How can I help you?"),
        utterance(1, 6.0, "My name is Hello Kitty."),
    ]

    def channel(number):
        parts = [utterance for utterance in utterances if utterance["channel"] == number]
        words = [word for utterance in parts for word in utterance["words"]]
        return {
            "alternatives": [
                {
                    "transcript": " ".join(utterance["transcript"] for utterance in parts),
                    "confidence": 0.9,
                    "words": words,
                }
            ]
        }

    document = {
        "metadata": {"request_id": "1"},
        "results": {"channels": [channel(0), channel(1)], "utterances": utterances},
    }
    path, target = save(tmp_path, document)
    assert correct(path, target, "deepgram", replacement("Anna.", "Hanna.")) == []
    assert target.read_text() == path.read_text().replace("Anna", "Hanna").replace('"anna"', '"hanna"')
    corrections = {"Hello,": "Good day,", "Kitty.": "", "morning,": "evening,"}
    notes = correct(
        path, target, "deepgram", lambda _, words: " ".join(corrections.get(word, word) for word in words).split()
    )
    assert notes == []
    after = json.loads(target.read_text())["results"]
    assert [utterance["transcript"] for utterance in after["utterances"]] == [
        "Good day, this is Anna.",
        "Good evening, Anna.",
        "How can I help you?",
        "My name is Hello",
    ]
    for number in (0, 1):
        words = [w["punctuated_word"] for w in after["channels"][number]["alternatives"][0]["words"]]
        inner = [
            w["punctuated_word"] for part in after["utterances"] if part["channel"] == number for w in part["words"]
        ]
        assert inner == words


def test_times_in_ticks_can_be_strings(tmp_path):
    result = sample("azure-pronunciation.json")
    for word in result["NBest"][0]["Words"]:
        word |= {name: str(word[name]) for name in ("Offset", "Duration")}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(result))
    [(_, lattice)] = ninja.read(path)
    [best] = lattice_nbest(lattice, 1).hypotheses
    assert [time * lattice.frame_shift for time in (*best.begin, *best.end)] == pytest.approx([0.05, 0.53, 0.32, 0.62])


@pytest.mark.parametrize("seconds", [0.0, 1.2, 12.0, 1234.567, 1_234_567.125])
@pytest.mark.parametrize(
    ("old", "unit"), [("0.52", 1.0), ("0.5s", 1.0), ("PT0.5S", 1.0), ("0:00:01.5", 1.0), ("520", 0.001), ("520", 1e-7)]
)
def test_a_time_in_a_string_keeps_its_form_and_precision(old, unit, seconds):
    text = json.loads(spelled_time(old, seconds, unit))
    assert seconds_of(text, unit, ()) == pytest.approx(seconds, abs=1e-9)
    assert (text[:2] == "PT", text[-1:].isalpha(), ":" in text) == (old[:2] == "PT", old[-1:].isalpha(), ":" in old)
