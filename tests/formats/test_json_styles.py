"""N-best lists in the JSON forms of several recognisers, and the keys of lists that have none."""

import io
import json
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_files import read_entries, read_objects

import ninja
from ninja.errors import FormatError, NinjaError, OptionError
from ninja.files.stream import Stream
from ninja.formats.content import Content
from ninja.formats.format import reader as named
from ninja.formats.nbest.json_hypotheses import ObjectFields
from ninja.formats.nbest.lattices import nbest_lattice
from ninja.graph import lattice_nbest


def texts(nbest):
    return [
        (" ".join(hypothesis.words), hypothesis.graph_cost, hypothesis.acoustic_cost) for hypothesis in nbest.hypotheses
    ]


def lists(content, **fields):
    text = content if isinstance(content, str) else json.dumps(content)
    return read_objects(text.encode(), "f", ObjectFields(**fields))


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def first(content, **fields):
    return texts(lists(content, **fields)[0])


def keys(*names, form, on_error=None):
    return [key for name in names for key, _ in ninja.read(name, format=form, on_error=on_error)]


# Keys of objects without a key field

WHISPER = {
    "text": " Hello world. Bye",
    "segments": [
        {"id": 0, "start": 0.0, "end": 2.0, "text": " Hello world.", "tokens": [1, 2], "avg_logprob": -0.25},
        {"id": 1, "start": 2.0, "end": 3.0, "text": " Bye", "tokens": [3], "avg_logprob": -0.5},
    ],
    "language": "en",
}


@pytest.mark.parametrize(
    "form", ["json:key=none,nbest=segments,score=avg_logprob", "json:nbest=segments,score=avg_logprob"]
)
def test_a_single_object_without_a_key_has_the_name_of_its_file(folder, form):
    for name in ("a.json", "b.x.json"):
        Path(name).write_text(json.dumps(WHISPER))
    Path("line.jsonl").write_text(lines(WHISPER))
    Path("list.json").write_text(json.dumps([WHISPER]))
    assert keys("a.json", "b.x.json", "line.jsonl", "list.json", form=form) == ["a", "b.x", "line", "list"]


def test_lists_without_keys_are_named_by_file_name_and_number(folder):
    rows = [{"nbest": ["a"]}, {"nbest": ["b"]}, {"nbest": []}, {"nbest": ["c"]}]
    Path("f.jsonl").write_text(lines(*rows))
    Path("f.json").write_text(json.dumps([rows[:1], rows[1:]]))
    form = "json:key=none,missing_score=0,skip=true"
    for name, expected in (("f.jsonl", ["f-1", "f-2", "f-4"]), ("f.json", ["f-1-1", "f-2-1", "f-2-3"])):
        assert [key for key, _ in ninja.read(name, format=form)] == expected


@pytest.mark.parametrize(
    ("form", "content", "expected"),
    [
        ("json:key=none,missing_score=0", b'{"nbest": ["a"]}', ["stdin"]),
        ("json:key=none,missing_score=0", b'{"nbest": ["a"]}\n{"nbest": ["b"]}\n', ["1", "2"]),
        ("nemo:beam=2", b"a\t-1\nb\t-2\n", ["stdin"]),
        ("nemo:beam=1", b"a\t-1\nb\t-2\n", ["1", "2"]),
    ],
)
def test_lists_of_standard_input_have_no_file_name_as_key(form, content, expected):
    reader = named(form)
    with Stream(io.BytesIO(content), "-") as stream:
        assert [key for key, _ in reader.entries(Content(stream, "-"), None)] == expected


def test_keys_of_beams_without_a_manifest_are_file_names(folder):
    Path("one.tsv").write_text("a\t-1\nb\t-2\n")
    Path("two.tsv").write_text("a\t-1\nb\t-2\nc\t-1\nd\t-2\n")
    assert keys("one.tsv", "two.tsv", form="nemo:beam=2") == ["one", "two-1", "two-2"]
    Path("odd.tsv").write_text("a\t-1\nb\t-2\nc\t-1\n")
    with pytest.raises(FormatError, match="there are 3 lines, but 2 utterances with 2 lines each"):
        keys("odd.tsv", form="nemo:beam=2")


def test_several_objects_without_the_key_field_raise_format_error(folder):
    Path("f.jsonl").write_text(lines({"nbest": ["a"]}, {"nbest": ["b"]}))
    message = r"f.jsonl:1, key 'f-1': the field 'key' is missing or null; specify the field of the key .* \(key=none\)"
    with pytest.raises(FormatError, match=message):
        keys("f.jsonl", form="json:missing_score=0")
    Path("f.jsonl").write_text(lines({"nbest": ["a"]}, {"key": "u", "nbest": ["b"]}))
    errors = []
    assert keys("f.jsonl", form="json:missing_score=0", on_error=errors.append) == ["u"]
    assert len(errors) == 1


def test_an_invalid_line_counts_in_the_numbers_of_objects(folder):
    Path("f.jsonl").write_text('{"nbest": ["a"]}\n{x\n{"nbest": ["b"]}\n')
    errors = []
    assert keys("f.jsonl", form="json:key=none,missing_score=0", on_error=errors.append) == ["f-1", "f-3"]
    assert [str(error)[:20] for error in errors] == ["f.jsonl:2: not JSON: "[:20]]


def test_lists_before_the_end_of_a_damaged_file_are_read(folder):
    class Broken(Content):
        def blocks(self):
            yield b'{"nbest": ["a"]}\n'
            raise FormatError("the gzip stream is truncated", self.name)

        def first_lines(self):
            return b'{"nbest": ["a"]}\n{"nbest": ["b"]}\n'

    with Stream(io.BytesIO(b""), "f.jsonl") as stream:
        entries = named("json:key=none,missing_score=0").entries(Broken(stream, "f.jsonl"), None)
        assert next(entries)[0] == "f-1"
        with pytest.raises(FormatError, match="is truncated"):
            next(entries)


# Words


def test_a_hypothesis_can_be_a_list_of_words():
    row = {"key": "u", "nbest": [{"text": ["HE", "HOPED"], "score": -1}, {"text": ["", "HE"], "score": -2}]}
    assert first(row) == [("HE HOPED", 0.0, 1.0), ("HE", 0.0, 2.0)]
    bare = {"key": "u", "nbest": [["HE", "HOPED"], [], "HE HOPE"]}
    assert first(bare, missing_score=0.0) == [("HE HOPED", 0.0, 0.0), ("", 0.0, 0.0), ("HE HOPE", 0.0, 0.0)]
    plain = {"key": "u", "nbest": [{"words": ["HE", "HOPED"], "score": -1}]}
    assert first(plain) == [("HE HOPED", 0.0, 1.0)]
    parts = {"key": "u", "nbest": [{"text": ["a", "new york"], "score": -1}]}
    assert first(parts) == [("a new york", 0.0, 1.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (["a", 7], "f, key 'u': expected text at 'text', found a list of 2 items"),
        (["a", "\ud800"], "f, key 'u': expected text at 'text', found '.ud800'"),
    ],
)
def test_a_list_of_words_with_other_items_raises_format_error(text, message):
    with pytest.raises(FormatError, match=message):
        lists({"key": "u", "nbest": [{"text": text, "score": -1}]})


# Scores in separate lists


def test_scores_can_be_in_a_list_parallel_to_the_hypotheses():
    names = {"key": "id", "nbest": "hyps", "score": "scores"}
    rows = [{"id": "u", "hyps": ["a b", "a c"], "scores": [-1, -2.5]}, {"id": "v", "hyps": [["x", "y"]], "scores": [0]}]
    first_list, second_list = lists(rows, **names)
    assert texts(first_list) == [("a b", 0.0, 1.0), ("a c", 0.0, 2.5)]
    assert texts(second_list) == [("x y", 0.0, 0.0)]
    separate = {"key": "u", "nbest": ["a", "b"], "am_score": [-1, -2], "lm_score": [-3, -4]}
    assert first(separate) == [("a", 3.0, 1.0), ("b", 4.0, 2.0)]


def test_lists_of_scores_and_hypotheses_of_different_length_raise_format_error():
    for scores in ([-1], [-1, -2, -3]):
        values = "value" if len(scores) == 1 else "values"
        message = f"f, key 'u': the field 'nbest' has 2 hypotheses, but the field 'score' has {len(scores)} {values}"
        with pytest.raises(FormatError, match=message):
            lists({"key": "u", "nbest": ["a", "b"], "score": scores})
    with pytest.raises(FormatError, match="a hypothesis has neither 'score' nor"):
        lists({"key": "u", "nbest": ["a", "b"], "score": [-1, None]})
    with pytest.raises(FormatError, match="a hypothesis has neither"):
        lists({"key": "u", "nbest": ["a"], "score": -1})


def test_a_list_of_scores_is_ignored_if_hypotheses_have_scores():
    row = {"key": "u", "nbest": [{"text": "a", "score": -3}], "score": [-1, -2]}
    assert first(row) == [("a", 0.0, 3.0)]


# One hypothesis per line

FLAT = {"nbest": None, "group": True}


def flat(*rows):
    return lines(*({"key": key, "text": text, "score": score} for key, text, score in rows))


def test_group_merges_consecutive_objects_with_the_same_key(folder):
    content = flat(("u", "a b", -1), ("u", "a c", -2), ("v", "x", -3))
    first_list, second_list = lists(content, **FLAT)
    assert (first_list.key, texts(first_list)) == ("u", [("a b", 0.0, 1.0), ("a c", 0.0, 2.0)])
    assert (second_list.key, texts(second_list)) == ("v", [("x", 0.0, 3.0)])
    Path("f.jsonl").write_text(content)
    lattices = dict(ninja.read("f.jsonl", format="json:nbest=none,group=true"))
    assert [len(lattice_nbest(lattice, 5).hypotheses) for lattice in lattices.values()] == [2, 1]
    objects = [json.loads(row) for row in content.splitlines()]
    assert [texts(nbest) for nbest in lists(objects, **FLAT)] == [texts(first_list), texts(second_list)]


def test_group_merges_consecutive_lists_with_the_same_key():
    rows = [{"key": "u", "nbest": [{"text": text, "score": -1}]} for text in "ab"]
    assert first(lines(*rows), group=True) == [("a", 0.0, 1.0), ("b", 0.0, 1.0)]


def test_the_error_for_a_duplicate_key_suggests_group():
    message = r"f:2, key 'u': the utterance occurs twice; if consecutive objects .* set group=true"
    with pytest.raises(FormatError, match=message):
        lists(flat(("u", "a", -1), ("u", "b", -2)), nbest=None)
    with pytest.raises(FormatError, match="f:3, key 'u': the utterance occurs twice, with other utterances in between"):
        lists(flat(("u", "a", -1), ("v", "a", -1), ("u", "b", -2)), **FLAT)
    with pytest.raises(OptionError, match="group=true requires the name of the key field; set key=NAME"):
        ObjectFields(key=None, group=True)


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_invalid_hypothesis_invalidates_its_list(bad):
    rows = [{"key": "u", "text": text, "score": -1} for text in "abc"]
    rows[bad]["score"] = "x"
    content = flat(("t", "a", -1)) + lines(*rows) + flat(("v", "a", -1))
    nbests = read_entries(content.encode(), "f", ObjectFields(**FLAT))
    assert [entry.key for entry in nbests] == ["t", "u", "v"]
    assert str(nbests[1]) == f"f:{bad + 2}, key 'u': expected a number at 'score', found 'x'"
    entries = read_entries((content + flat(("u", "a", -1))).encode(), "f", ObjectFields(**FLAT))
    assert "occurs twice" in str(entries[-1])  # because it would be part of the invalid list


def test_an_invalid_line_does_not_split_a_group():
    content = flat(("u", "a", -1)) + "{x\n7\n" + flat(("u", "b", -2))
    *errors, nbest = read_entries(content.encode(), "f", ObjectFields(**FLAT))
    assert [error.line for error in errors] == [2, 3]
    assert texts(nbest) == [("a", 0.0, 1.0), ("b", 0.0, 2.0)]


@given(st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from("ab"), st.integers(-5, 0)), min_size=1))
def test_grouped_lines_are_the_runs_of_one_key(rows):
    expected = {}
    for key, run in groupby(rows, key=lambda row: row[0]):
        expected.setdefault(key, [(text, 0.0, 0.0 - score) for _, text, score in run])
    nbests = read_entries(flat(*rows).encode(), "f", ObjectFields(**FLAT))
    assert {entry.key: texts(entry) for entry in nbests if not isinstance(entry, NinjaError)} == expected
    assert sum(isinstance(entry, NinjaError) for entry in nbests) == len(list(groupby(rows, lambda row: row[0]))) - len(
        expected
    )


# More than two scores

ICEFALL = {
    "id": "u",
    "ref": ["HE", "HOPED"],
    "hyps": [{"hyp": ["HE", "HOPED"], "am_score": -10.5, "ngram_lm_score": -3.0, "attention_score": -8.0}],
}
ICEFALL_NAMES = {"key": "id", "nbest": "hyps", "text": "hyp"}


def test_scores_with_names_joined_by_plus_are_summed():
    assert first(ICEFALL, **ICEFALL_NAMES, lm_score="ngram_lm_score+attention_score") == [("HE HOPED", 11.0, 10.5)]
    hypotheses = first(ICEFALL, **ICEFALL_NAMES, score="am_score+ngram_lm_score", score_as="graph")
    assert hypotheses == [("HE HOPED", 13.5, 0.0)]
    with pytest.raises(FormatError, match="expected a number at 'other', found None"):
        lists(ICEFALL, **ICEFALL_NAMES, lm_score="ngram_lm_score+other")
    parallel = {"key": "u", "nbest": ["a"], "x": [-1], "y": [-2]}
    assert first(parallel, score="x+y") == [("a", 0.0, 3.0)]


def test_the_score_option_takes_precedence_over_default_model_scores():
    [nbest] = lists(ICEFALL, **ICEFALL_NAMES, score="attention_score")
    assert texts(nbest) == [("HE HOPED", 0.0, 8.0)]
    row = {"key": "u", "nbest": [{"text": "a", "am_score": "?", "lm_score": -2, "mine": -7}]}
    assert first(row, score="mine") == [("a", 0.0, 7.0)]
    with pytest.raises(
        FormatError, match=r"has no 'other'; its fields are .*'mine'; specify the field .*json:score=mine"
    ):
        lists(row, score="other")
    assert first(row, score="other", missing_score=-1.0) == [("a", 0.0, 1.0)]


def test_model_score_options_take_precedence_over_the_total_score():
    row = {"key": "u", "nbest": [{"text": "a", "am": -1, "lm_score": -2, "total": -7}]}
    [nbest] = lists(row, score="total", am_score="am")
    assert texts(nbest) == [("a", 2.0, 1.0)]


def test_a_missing_model_score_raises_format_error_with_its_name(folder):
    message = (
        r"the score of one model, but no field 'lm_score'; "
        r"specify the score to use \(score=…\), or set the missing one to none"
    )
    with pytest.raises(FormatError, match=message):
        lists(ICEFALL, **ICEFALL_NAMES)
    assert first(ICEFALL, **ICEFALL_NAMES, lm_score=None) == [("HE HOPED", 0.0, 10.5)]
    Path("f.json").write_text(json.dumps(ICEFALL))
    form = "json:key=id,nbest=hyps,text=hyp,score=attention_score,am_score=none,lm_score=none"
    [(_, lattice)] = ninja.read("f.json", format=form)
    assert lattice_nbest(lattice, 1).hypotheses[0].acoustic_cost == 8.0


# Words with and without times

SHERPA = {"text": "hello world", "tokens": ["hello", " world"], "timestamps": [0.1, 0.5], "words": [], "ys_probs": []}


def timed(*words, **entry):
    return {"key": "u", "nbest": [{"score": -1, "words": list(words), **entry}]}


def test_an_empty_list_of_words_does_not_replace_the_text(folder):
    assert first({"key": "u", "nbest": [{**SHERPA, "score": -1}]}) == [("hello world", 0.0, 1.0)]
    assert first(timed()) == [("", 0.0, 1.0)]
    Path("u.json").write_text(json.dumps(SHERPA))
    [(_, lattice)] = ninja.read("u.json", format="json:nbest=none,missing_score=0")
    assert texts(lattice_nbest(lattice, 2)) == [("hello world", 0.0, 0.0)]


def test_a_joined_segment_without_a_list_of_words_keeps_its_text():
    segments = [{"text": " Hello", "words": []}, {"text": " world.", "words": None}, {"text": "", "words": []}]
    assert first({"segments": segments}, **PIECES) == [("Hello world.", 0.0, 0.0)]


@pytest.mark.parametrize("times", [{}, {"start": 0.3}, {"start": None, "end": None}])
def test_a_hypothesis_with_a_word_without_times_has_no_times(times):
    [nbest] = lists(timed(spoken("in", 0.0, 0.2), {"word": "1984", **times}, spoken("yes", 0.5, 0.7)))
    assert (texts(nbest), nbest.hypotheses[0].begin, nbest.frame_shift) == ([("in 1984 yes", 0.0, 1.0)], None, None)


def test_times_of_a_list_are_dropped_if_a_hypothesis_has_none():
    row = timed(spoken("a", 0.0, 0.2))
    row["nbest"] += [{"text": "", "score": -2}]
    assert lists(row)[0].hypotheses[0].begin == (0,)  # a hypothesis without words lacks no times
    row["nbest"] += [{"text": "b", "score": -3}]
    [nbest] = lists(row)
    assert [hypothesis.begin for hypothesis in nbest.hypotheses] == [None, None, None]
    assert nbest_lattice(nbest).time is None


def test_a_word_with_spaces_is_split_and_its_time_divided():
    [nbest] = lists(timed(spoken(" new york ", 0.1, 0.3), spoken(" ", 0.3, 0.4), spoken("city", 0.4, 0.5)))
    [hypothesis] = nbest.hypotheses
    assert (hypothesis.words, hypothesis.begin, hypothesis.end) == (("new", "york", "city"), (10, 20, 40), (20, 30, 50))


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((0.5, 0.2), "times run backwards: word 1, 'a', ends at 0.2 s, before it begins at 0.5 s"),
        (("0.1", 0.2), "expected a word, its start and end, found an object"),
        ((-1, 2), "expected a word, its start and end, found an object"),
        ((0, 1e12), "times are out of range: word 1, 'a', begins at 0 s and ends at 1e.12 s"),
    ],
)
def test_invalid_times_raise_format_error(times, message):
    with pytest.raises(FormatError, match=f"key 'u': {message}"):
        lists(timed(spoken("a", *times)))


def test_words_out_of_order_raise_format_error():
    with pytest.raises(FormatError, match=r"word 2, 'b', begins at 0\.1 s, before the previous word \(0\.5 s\)"):
        lists(timed(spoken("a", 0.5, 0.6), spoken("b", 0.1, 0.2)))
    pieces = {"segments": [{"text": "a", "words": [spoken("a", 2, 3)]}, {"text": "b", "words": [spoken("b", 1, 4)]}]}
    with pytest.raises(FormatError, match=r"word 2, 'b', begins at 1 s, before the previous word \(2 s\)"):
        lists(pieces, **PIECES)


def test_overlapping_words_are_counted_in_a_warning(tmp_path):
    path = tmp_path / "u.json"
    path.write_text(json.dumps(timed(spoken("a", 0.1, 0.5), spoken("b", 0.4, 0.6), spoken("c", 0.55, 0.9))))
    with pytest.warns(UserWarning, match="2 words overlap with the preceding word"):
        [(_, lattice)] = ninja.read(path)
    assert lattice.time.tolist() == [0, 10, 50, 60, 90]


@pytest.mark.parametrize("content", [{"key": "u", "nbest": []}, {"u": []}, [{"key": "u", "nbest": []}]])
def test_an_empty_list_is_an_empty_hypothesis(content):
    [nbest] = lists(content)
    assert (nbest.key, texts(nbest)) == ("u", [("", 0.0, 0.0)])


def test_an_empty_list_adds_nothing_to_a_group():
    row = {"key": "u", "nbest": [{"text": "a", "score": -1}]}
    text = lines({"key": "u", "nbest": []}, row, {"key": "v", "nbest": []})
    assert [texts(nbest) for nbest in lists(text, group=True)] == [[("a", 0.0, 1.0)], [("", 0.0, 0.0)]]


# Segments of one hypothesis


def spoken(word, start, end):
    return {"word": word, "start": start, "end": end}


WHISPERX = {
    "segments": [
        {"text": " Hello world.", "words": [spoken("Hello", 0.5, 1.0), spoken("world.", 1.1, 2.1)]},
        {"text": " Bye", "words": [spoken("Bye", 2.0, 3.0)]},
    ],
    "word_segments": [],
}
PIECES = {"key": None, "nbest": "segments", "join": True}


def test_join_concatenates_segments_and_keeps_word_times(folder):
    [nbest] = lists(WHISPERX, **PIECES)
    [hypothesis] = nbest.hypotheses
    assert texts(nbest) == [("Hello world. Bye", 0.0, 0.0)]
    assert (hypothesis.begin, hypothesis.end) == (
        (50, 110, 210),
        (100, 210, 300),
    )  # "Bye" begins at the end of "world."
    Path("talk.json").write_text(json.dumps(WHISPERX))
    [(key, lattice)] = ninja.read("talk.json", format="json:nbest=segments,join=true")
    assert (key, lattice.num_arcs, lattice.frame_shift) == ("talk", 5, 0.01)


def test_join_sums_the_scores_of_segments_if_score_is_set():
    assert first(WHISPER, **PIECES) == [("Hello world. Bye", 0.0, 0.0)]
    assert first(WHISPER, **PIECES, score="avg_logprob") == [("Hello world. Bye", 0.0, 0.75)]
    part = {"segments": [{"text": "a", "score": -1}, {"text": "b"}]}
    with pytest.raises(
        FormatError, match="1 of 2 parts of a hypothesis have no score; either all or none must have a score"
    ):
        lists(part, **PIECES)
    assert first(part, **PIECES, missing_score=-2) == [("a b", 0.0, 3.0)]


def test_an_infinite_sum_of_scores_raises_format_error():
    row = {"key": "u", "nbest": [{"text": "a", "x": -1e308, "y": -1e308}]}
    for names in ({"score": "x+y"}, {"lm_score": "x+y"}):
        with pytest.raises(FormatError, match="f, key 'u': the sum of the scores is not finite; correct the scores"):
            lists(row, **names)
    with pytest.raises(FormatError, match="the sum of the scores is not finite; correct the scores"):
        lists({"segments": [{"text": "a", "score": 1e308}] * 2}, **PIECES)


def test_join_drops_times_if_a_segment_has_none():
    segments = {"segments": [*WHISPERX["segments"], {"text": "again"}, {"text": ""}]}
    [nbest] = lists(segments, **PIECES)
    assert texts(nbest) == [("Hello world. Bye again", 0.0, 0.0)]
    assert nbest.hypotheses[0].begin is None
    assert nbest.frame_shift is None
    [silent] = lists({"segments": [*WHISPERX["segments"], {"text": ""}]}, **PIECES)
    assert silent.hypotheses[0].begin == (50, 110, 210)
    assert first({"segments": []}, **PIECES) == [("", 0.0, 0.0)]  # silence
