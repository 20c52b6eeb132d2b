"""Lattices and lists with times are converted to captions."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all
from small_files import small_lattice

import ninja as package
from ninja.errors import LatticeError, OptionError, OutputError
from ninja.formats.nbest.captions import LINE, LINES, LONGEST, PAUSE, SHORTEST, SPEED, captions
from ninja.lattice.lattice import ListRecord, Origin
from ninja.lattice.nbest import NBest, sentence


def spoken(key, text, begin=0.0, duration=0.5, shift=0.01):
    """Return a list of one hypothesis whose words follow each other."""
    words = tuple(text.split())
    frames = tuple(round((begin + duration * place) / shift) for place in range(len(words) + 1))
    return NBest(key, (sentence(words, times=(frames[:-1], frames[1:])),), shift)


def write(path, *items, to=None):
    write_all(path, items, to=to)
    return path.read_text()


words = st.lists(st.text("abc.,?", min_size=1, max_size=12), max_size=40)
durations = st.lists(st.floats(0.01, 9), min_size=40, max_size=40)
pauses = st.lists(st.sampled_from([0.0, 0.2, 1.5]), min_size=40, max_size=40)


@given(words, durations, pauses)
def test_captions_contain_all_words_within_limits_of_length_and_duration(names, lengths, gaps):
    begins, ends, at = [], [], 0.0
    for length, gap in zip(lengths[: len(names)], gaps, strict=False):
        begins.append(at + gap)
        at = begins[-1] + length
        ends.append(at)
    result = captions(names, begins, ends)
    assert " ".join(line for caption in result for line in caption.lines).split() == names
    for caption in result:
        assert 1 <= len(caption.lines) <= LINES
        assert all(len(line) <= LINE for line in caption.lines)
        has_several_words = sum(len(line.split()) for line in caption.lines) > 1
        assert not has_several_words or caption.end - caption.begin <= LONGEST
    assert all(before.end <= after.begin for before, after in pairwise(result))
    for caption, after in pairwise(result):
        seconds = min(max(SHORTEST, sum(map(len, caption.lines)) / SPEED), LONGEST)
        assert caption.end >= min(after.begin, caption.begin + seconds)
    for begin, before, after, stop in zip(begins, ends, begins[1:], names, strict=False):
        first = max(caption.begin for caption in result if caption.begin <= begin)
        if after - before >= PAUSE or (stop.endswith(("?", ".")) and after - first >= SHORTEST):
            assert any(caption.begin == after for caption in result)


def test_captions_break_at_sentence_ends_and_long_sentences_at_commas():
    text = "Mr. Low spoke. He gave thanks for our food and comfort, and prayed for the poor and destitute in cities."
    item = spoken("a", text, duration=0.34)
    best = item.hypotheses[0]
    result = captions(best.words, [0.01 * at for at in best.begin], [0.01 * at for at in best.end])
    assert [caption.lines for caption in result] == [
        ("Mr. Low spoke.",),
        ("He gave thanks for our food and comfort,",),
        ("and prayed for the poor", "and destitute in cities."),
    ]


def test_short_sentences_share_a_caption_and_fast_captions_are_prolonged():
    result = captions(["No.", "Yes.", "Unquestionably.", "Well."], [0.0, 0.4, 2.0, 9.0], [0.3, 0.8, 2.3, 9.2])
    assert [(caption.begin, caption.end, caption.lines) for caption in result] == [
        (0.0, 1.0, ("No. Yes.",)),
        (2.0, 3.0, ("Unquestionably.",)),
        (9.0, 9.2, ("Well.",)),  # not prolonged, because the next utterance can begin directly after it
    ]
    (first, _) = captions(["a" * 40, "b"], [0.0, 5.0], [0.5, 5.5])
    assert first.end == 2.0


def test_captions_have_the_layout_of_whisper(tmp_path):
    items = spoken("a", "Hello there.", 1.0), spoken("b", "2 < 3 & more", 3661.5)
    assert write(tmp_path / "x.srt", *items) == (
        "1\n00:00:01,000 --> 00:00:02,000\nHello there.\n\n2\n01:01:01,500 --> 01:01:04,000\n2 < 3 & more\n\n"
    )
    assert write(tmp_path / "x.vtt", *items) == (
        "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nHello there.\n\n"
        "01:01:01.500 --> 01:01:04.000\n2 &lt; 3 &amp; more\n\n"
    )
    assert write(tmp_path / "x.tsv", *items, to="whisper-tsv") == (
        "start\tend\ttext\n1000\t2000\tHello there.\n3661500\t3664000\t2 < 3 & more\n"
    )


@pytest.mark.parametrize(("name", "to"), [("x.srt", None), ("x.vtt", None), ("x.tsv", "whisper-tsv")])
def test_captions_are_unchanged_after_write_and_read(tmp_path, name, to):
    items = spoken("a", "Hello there. <i> & you?", 1.0), spoken("b", "yes", 9.25)
    if name == "x.srt":
        items = spoken("a", "Hello there. & you?", 1.0), items[1]
    write(tmp_path / name, *items, to=to)
    lattices = [lattice for _, lattice in package.read(tmp_path / name)]
    texts = [" ".join(lattice.record.origin.words) for lattice in lattices]
    assert texts == ["Hello there.", " ".join(items[0].hypotheses[0].words[2:]), "yes"]
    assert lattices[2].record.utterance == {"start": 9.25, "end": 9.75}


def test_alignments_give_times_and_the_frame_shift_is_an_option(tmp_path):
    times = []
    for to in ("srt", "srt:frame_shift=0.03"):
        with package.write(tmp_path / "x.srt", to=to) as output:
            output.write(small_lattice())
        times.append((tmp_path / "x.srt").read_text().splitlines()[1])
    assert times == ["00:00:00,000 --> 00:00:00,030", "00:00:00,000 --> 00:00:00,090"]


def test_an_utterance_without_times_fails_as_caption_or_ctm(tmp_path, ninja):
    (tmp_path / "x.jsonl").write_text('{"key": "u", "nbest": [{"text": "a b", "score": 0}]}\n')
    for name in ("y.srt", "y.vtt", "y.ctm"):
        code, _, err = ninja("convert", tmp_path / "x.jsonl", "-o", tmp_path / name)
        assert code == 1
        assert "key 'u'" in err
        assert "no times" in err
        assert "ninja align-words" in err


def test_an_utterance_without_word_times_becomes_one_cue(tmp_path, ninja):
    (tmp_path / "x.srt").write_text("7\n00:00:01,000 --> 00:00:09,000\n<i>Hello</i>\nyou & me\n")
    assert ninja("convert", tmp_path / "x.srt", "-o", tmp_path / "x.vtt")[0] == 0
    assert (tmp_path / "x.vtt").read_text() == "WEBVTT\n\n00:00:01.000 --> 00:00:09.000\nHello you &amp; me\n\n"


def test_speakers_are_written_as_webvtt_voices(tmp_path):
    record = ListRecord({}, {}, origin=Origin(None, 0, 0, ("Hi!",), speaker="A & B"))
    text = write(tmp_path / "x.vtt", replace(spoken("a", "Hi!"), record=record))
    assert text.splitlines()[3] == "<v A &amp; B>Hi!"
    ((_, lattice),) = package.read(tmp_path / "x.vtt")
    assert lattice.record.origin.speaker == "A & B"


def test_segments_add_the_offset_in_the_recording(tmp_path):
    (tmp_path / "segments").write_text("a rec 10.5 12\nb rec 20 22\nc other 30 31\nd rec 5 4\n")
    to = f"srt:segments={tmp_path}/segments"
    text = write(tmp_path / "x.srt", spoken("a", "one", 0.5), spoken("b", "two", 0.5), to=to)
    assert [row for row in text.splitlines() if "-->" in row] == [
        "00:00:11,000 --> 00:00:11,500",
        "00:00:20,500 --> 00:00:21,000",
    ]
    untimed = NBest("a", (sentence(("one", "two")),))
    assert "00:00:10,500 --> 00:00:12,000\none two" in write(tmp_path / "x.srt", untimed, to=to)
    with package.write(tmp_path / "x.srt", to=to) as output:
        output.write(spoken("a", "one"))
        with pytest.raises(
            LatticeError, match="key 'c': srt files contain one recording, but this utterance belongs to other"
        ):
            output.write(spoken("c", "one"))
        with pytest.raises(
            LatticeError, match=r"key 'd': the segment of this utterance in .*, 5.0 to 4.0 s, is not a valid range"
        ):
            output.write(spoken("d", "one"))
        with pytest.raises(LatticeError, match=r"key 'e': .*segments has no segment for this utterance"):
            output.write(spoken("e", "one"))


def test_utterances_out_of_order_are_refused_with_advice(tmp_path):
    with package.write(tmp_path / "x.srt") as output:
        output.write(spoken("a", "one", 5.0))
        with pytest.raises(
            LatticeError, match=r"key 'b': the utterance begins at 1.0 s, before .* \(--to srt:segments=FILE\)"
        ):
            output.write(spoken("b", "two", 1.0))
        output.write(spoken("c", "three", 6.0))
    assert (tmp_path / "x.srt").read_text().count("-->") == 2


def test_cues_of_a_file_cannot_be_joined_with_other_lists(tmp_path):
    (tmp_path / "x.srt").write_text("1\n00:00:01,000 --> 00:00:09,000\nHello\n")
    ((_, cue),) = package.read(tmp_path / "x.srt")
    with package.write(tmp_path / "y.srt") as output:
        output.write(cue)
        with pytest.raises(OutputError, match="files and other lists cannot be joined"):
            output.write(spoken("b", "two", 10.0))


def test_losses_are_reported(tmp_path):
    with package.write(tmp_path / "y.srt") as output:
        output.write(spoken("b", "two"))
    assert set(output.lost) == {"key", "word times"}
    with pytest.raises(OptionError, match="frame_shift"):
        package.write(tmp_path / "y.srt", to="srt:frame_shift=0")


@pytest.mark.parametrize("words", ["<unk>", "<b c>", "{\\an8}"])
@pytest.mark.parametrize(("name", "is_lost"), [("y.srt", True), ("y.vtt", False)])
def test_words_that_become_tags_are_reported(tmp_path, words, name, is_lost):
    with package.write(tmp_path / name) as output:
        output.write(spoken("b", words))
    assert ("words that players interpret as tags" in output.lost) == is_lost
    shown = [lattice.record.origin.words for _, lattice in package.read(tmp_path / name)]
    assert shown == [() if is_lost else tuple(words.split())]


def test_an_empty_output_is_a_file_without_cues(tmp_path):
    assert write(tmp_path / "x.vtt") == "WEBVTT\n\n"
    assert write(tmp_path / "x.srt", NBest("a", (sentence(()),))) == ""


def test_confidences_of_words_are_copied_from_ctm_to_json(tmp_path, ninja):
    (tmp_path / "x.ctm").write_text("u A 0.10 0.20 Hello 0.9\nu A 0.30 0.25 you. NA\n")
    assert ninja("convert", tmp_path / "x.ctm", "-o", tmp_path / "x.jsonl")[0] == 0
    entry = json.loads((tmp_path / "x.jsonl").read_text())
    assert entry["channel"] == "A"
    assert entry["nbest"][0]["words"] == [
        {"word": "Hello", "start": 0.1, "end": 0.3, "confidence": 0.9},
        {"word": "you.", "start": 0.3, "end": 0.55},
    ]


def test_lost_paths_are_reported_only_for_lattices_with_several(tmp_path):
    single_path = spoken("a", "x y")
    two_paths = NBest("b", (*single_path.hypotheses, spoken("b", "z").hypotheses[0]), 0.01)
    with package.write(tmp_path / "x.ctm") as output:
        for nbest in (single_path, two_paths):
            lattice = package.graph.nbest_lattice(nbest)
            output.write(lattice.replace(graph=np.zeros(lattice.num_arcs, np.float32)))
    assert output.lost == {"paths beyond the 1 best": 1}
