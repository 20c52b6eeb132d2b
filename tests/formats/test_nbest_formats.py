"""N-best lists of Kaldi, SRILM, NeMo, ESPnet, JSON and CTM: reading, writing and rejected files."""

import gzip
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_files import LETTERS
from lattice_files import write_all
from reference_graph import SHARED
from whole_files import DSTC10, read_objects, tables_nbest, valid_entries

from ninja.errors import FormatError, InputError, LatticeError, OptionError, OutputError, SymbolError
from ninja.evaluate import read_text
from ninja.formats.nbest.ctm import CtmOptions, read_ctm
from ninja.formats.nbest.espnet import EspnetOptions, read_espnet, read_espnet_folder, write_espnet
from ninja.formats.nbest.json_hypotheses import ObjectFields
from ninja.formats.nbest.json_lists import write_objects
from ninja.formats.nbest.kaldi import read_kaldi_names
from ninja.formats.nbest.lattices import nbest_lattice, nbest_lattices
from ninja.formats.nbest.nemo import read_manifest, read_nemo, write_nemo
from ninja.formats.nbest.srilm import SrilmOptions, SrilmWriteOptions, read_srilm, write_srilm
from ninja.graph.nbest import lattice_nbest
from ninja.lattice import Scales
from ninja.lattice.nbest import NBest, sentence

FORMATS = SHARED / "data/formats"
# The data are not part of the project; in CI, conftest.py turns this skip into a failure.
needs_files = pytest.mark.skipif(not FORMATS.is_dir(), reason="the real files are absent")
BYTELOG = 1024 * math.log(1.0001)

KALDI = b"""utt-1 
0 1 <eps> 0.5,,
1 2 the 1.5,-2,1_2
2 3 cat 0.25,4,3
3 ,1,4

utt-2 
0 1 a
1 

"""
SRILM_1 = b"NBestList1.0\n(-1234) the cat\n(-1300) a cat\n(-1400)\n"
SRILM_2 = (
    b"NBestList2.0\n"
    b"(-30) the ( st: 0.10 et: 0.29 g: -3 a: -10 ) th ( st: 0.10 et: 0.19 g: 0 a: -6 ) "
    b"th-1 ( st: 0.10 et: 0.12 g: 0 a: -6 ) cat ( st: 0.30 et: 0.49 g: -2 a: -15 )\n"
    b"(-31) a ( st: 0.15 et: 0.29 g: -3 a: -10 ) cat ( st: 0.30 et: 0.49 g: -2 a: -15 )\n"
)
SRILM_3 = b"-1234.5 -6.25 2 the cat\n-1230 -7.5 1 a cat\n"
NEMO = b"the cat\t-1.5\na cat\t-2.25\n\t-9.5\nmat\t-0.125\n"
MANIFEST = b'{"audio_filepath": "/data/one.wav", "text": "x"}\n{"audio_filepath": "two.wav", "duration": 1.5}\n'
JSONL = (
    b'{"key": "u1", "nbest": [{"text": "the cat", "score": -1.5}, {"text": "a cat", "score": -2}]}\n'
    b'{"key": "u2", "nbest": [{"words": [{"word": "hi", "start": 0.1, "end": 0.3}], "am_score": -3, "lm_score": -4}]}\n'
)
CTM = b";; made by hand\nrec1 1 0.10 0.20 the 0.9\nrec1 1 0.35 0.25 cat NA\nrec2 A 0.00 0.5 mat\n"


def word_costs(nbest):
    return [(hypothesis.words, hypothesis.graph_cost, hypothesis.acoustic_cost) for hypothesis in nbest.hypotheses]


def assert_costs_close(nbest, expected):
    assert [hypothesis.words for hypothesis in nbest.hypotheses] == [words for words, _, _ in expected]
    for hypothesis, (_, graph, acoustic) in zip(nbest.hypotheses, expected, strict=True):
        assert (hypothesis.graph_cost, hypothesis.acoustic_cost) == pytest.approx((graph, acoustic), rel=1e-9)


def test_kaldi_text_with_names_keeps_costs_and_labels_with_their_words():
    [nbest] = list(read_kaldi_names(KALDI))
    first, second = nbest.hypotheses
    assert (first.words, first.graph, first.acoustic) == (("the", "cat"), (2.0, 0.25, 0.0), (-2.0, 4.0, 1.0))
    assert first.labels == ((1, 2), (3,), (4,))
    assert (second.words, second.graph_cost, second.labels) == (("a",), 0.0, None)
    [hypothesis] = next(iter(read_kaldi_names(b"utt-1\n0 1 a 1,2,5\n1 2 <eps> 0.5,0.25,6\n2 1,1,7\n"))).hypotheses
    assert (hypothesis.graph, hypothesis.acoustic, hypothesis.labels) == ((1.0, 1.5), (2.0, 1.25), ((5,), (6, 7)))


@needs_files
def test_lists_of_kaldi_agree_with_a_slow_reader():
    folder = FORMATS / "nbest_kaldi_librispeech"
    text = gzip.decompress((folder / "nbest.txt.gz").read_bytes()).decode()
    expected = {}
    for block in re.split(r"\n[ ]*\n", text.strip()):
        key, *lines = block.split("\n")
        words, graph, acoustic = [], 0.0, 0.0
        for fields in (line.split() for line in lines):
            if len(fields) == 4:
                words.append(fields[2])
                graph += float(fields[3].split(",")[0])
                acoustic += float(fields[3].split(",")[1])
        expected[key.strip()] = tuple(words), graph, acoustic
    lists = list(read_kaldi_names(text.encode()))
    assert len(lists) == 15
    assert sum(len(nbest.hypotheses) for nbest in lists) == len(expected)
    best, first = read_text(folder / "hyp.txt"), 0
    for nbest, lattice in zip(lists, nbest_lattices(lists), strict=True):
        assert_costs_close(nbest, [expected[f"{nbest.key}-{rank}"] for rank, _ in enumerate(nbest.hypotheses, start=1)])
        distinct = {}
        for words, graph, acoustic in word_costs(nbest):
            distinct.setdefault(words, []).append((graph, acoustic))
        back = lattice_nbest(lattice, len(nbest.hypotheses) + 1)
        assert {hypothesis.words for hypothesis in back.hypotheses} == set(distinct)
        for words, graph, acoustic in word_costs(back):
            expected_costs = min(distinct[words], key=sum)
            assert (graph, acoustic) == pytest.approx(expected_costs, rel=1e-4)
        first += list(lattice_nbest(lattice, 1, Scales(1 / 14)).hypotheses[0].words) == best[nbest.key]
    assert first == 13  # of 15: one sentence of hyp.txt is in no list, one was selected with a penalty


@needs_files
def test_lists_of_dstc10_equal_their_json():
    content = gzip.decompress((FORMATS / "nbest_dstc10/logs.json.gz").read_bytes())
    lists = read_objects(content, fields=DSTC10)
    slow = {}
    for number, dialogue in enumerate(json.loads(content), start=1):
        for turn, entry in enumerate(dialogue, start=1):
            if "nbest" in entry:
                slow[f"{number}-{turn}"] = [(tuple(e["hyp"].split()), 0.0, -e["score"]) for e in entry["nbest"]]
    assert {nbest.key: word_costs(nbest) for nbest in lists} == slow
    assert len(lists) == 1376
    for nbest, lattice in zip(lists[:40], nbest_lattices(lists[:40]), strict=True):
        back = lattice_nbest(lattice, 20)
        assert [hypothesis.words for hypothesis in back.hypotheses] == [
            hypothesis.words for hypothesis in nbest.hypotheses
        ]
    again = read_objects(b"".join(map(write_objects, lists)), fields=ObjectFields(text="hyp"))
    assert {nbest.key: word_costs(nbest) for nbest in again} == slow
    assert again[0].record is not None
    assert again[0].record.utterance["speaker"] == "U"


def test_srilm_scores_are_converted_from_their_bases():
    assert_costs_close(
        read_srilm(SRILM_1, "u"),
        [(("the", "cat"), 0, 1234 * BYTELOG), (("a", "cat"), 0, 1300 * BYTELOG), ((), 0, 1400 * BYTELOG)],
    )
    third = read_srilm(SRILM_3, "u")
    log10 = math.log(10)
    assert_costs_close(
        third, [(("the", "cat"), 6.25 * log10, 1234.5 * log10), (("a", "cat"), 7.5 * log10, 1230 * log10)]
    )


def test_srilm_lists_can_lack_a_header_and_have_comments_and_empty_lines():
    plain = SRILM_1.partition(b"\n")[2]
    assert read_srilm(b"## made by hand\n\n" + plain + b"\n", "u") == read_srilm(SRILM_1, "u")
    assert read_srilm(b"\n## x\nNBestList1.0\n" + plain, "u") == read_srilm(SRILM_1, "u")
    nbest = read_srilm(SRILM_3 + b"-1234 -inf 2 a cat\n-Infinity -1 0\n", "u")
    assert nbest.hypotheses == read_srilm(SRILM_3, "u").hypotheses


@pytest.mark.parametrize("header", ["NBestList1.0", "NBestList2.0"])
def test_an_srilm_list_with_only_a_header_is_an_empty_hypothesis(header):
    nbest = read_srilm(f"{header}\n\n".encode(), "u")
    assert word_costs(nbest) == [((), 0.0, 0.0)]
    assert lattice_nbest(nbest_lattice(nbest), 2).hypotheses[0].words == ()


def test_srilm_states_are_dropped_and_similar_words_kept():
    content = SRILM_2.replace(b"th-1 ( st: 0.10 et: 0.12", b"th-1 ( st: 0.30 et: 0.30")
    assert read_srilm(content, "u").hypotheses == read_srilm(SRILM_2, "u").hypotheses
    assert read_srilm(SRILM_2.replace(b"cat (", b"u-2 ("), "u").hypotheses[1].words == ("a", "u-2")


def test_srilm_phones_and_states_are_dropped_and_words_keep_times():
    nbest = read_srilm(SRILM_2, "u")
    first, second = nbest.hypotheses
    assert (first.words, first.begin, first.end) == (("the", "cat"), (10, 30), (30, 50))
    assert first.graph == pytest.approx((3 * BYTELOG, 2 * BYTELOG, 0))
    assert first.acoustic == pytest.approx((10 * BYTELOG, 15 * BYTELOG, 0))
    assert second.acoustic[-1] == pytest.approx(1 * BYTELOG)  # the score of the line minus the scores of its words
    assert nbest_lattice(nbest).frame_shift == 0.01
    assert write_srilm(nbest, None, SrilmWriteOptions(variant="NBestList2.0")) == (
        b"NBestList2.0\n"
        b"(-30) the ( st: 0.10 et: 0.29 g: -3 a: -10 ) cat ( st: 0.30 et: 0.49 g: -2 a: -15 )\n"
        b"(-31) a ( st: 0.15 et: 0.29 g: -3 a: -10 ) cat ( st: 0.30 et: 0.49 g: -2 a: -15 )\n"
    )


def test_nbest_files_are_unchanged_after_read_and_write():
    assert write_srilm(read_srilm(SRILM_1, "u"), None, SrilmWriteOptions(variant="NBestList1.0")) == SRILM_1
    assert write_srilm(read_srilm(SRILM_3, "u")) == SRILM_3.replace(b"1 a cat", b"2 a cat")
    assert b"".join(map(write_nemo, read_nemo(NEMO, ["one", "two"]))) == NEMO
    lists = read_objects(JSONL)
    assert read_objects(b"".join(map(write_objects, lists))) == lists


@given(
    st.lists(
        st.builds(
            sentence,
            st.lists(st.text(LETTERS, min_size=1), max_size=5),
            st.floats(-1e6, 1e6),
            st.floats(-1e6, 1e6),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_lists_are_unchanged_after_write_and_read_in_every_format(hypotheses):
    nbest = NBest("utt", tuple(hypotheses))
    expected_costs = word_costs(nbest)
    total_costs = [(words, 0.0, graph + acoustic) for words, graph, acoustic in expected_costs]
    for back, expected in [
        (read_srilm(write_srilm(nbest), "utt"), expected_costs),
        (read_objects(write_objects(nbest))[0], expected_costs),
        (next(iter(read_nemo(write_nemo(nbest), ["utt"]))), total_costs),
    ]:
        assert [hypothesis.words for hypothesis in back.hypotheses] == [words for words, _, _ in expected]
        for hypothesis, (_, graph, acoustic) in zip(back.hypotheses, expected, strict=True):
            assert (hypothesis.graph_cost, hypothesis.acoustic_cost) == pytest.approx(
                (graph, acoustic), rel=1e-8, abs=1e-6
            )
    files = write_espnet(nbest)
    ranks = {n: (files[f"{n}best_recog/text"], files[f"{n}best_recog/score"]) for n in range(1, len(hypotheses) + 1)}
    assert [hypothesis.words for hypothesis in read_espnet(ranks)[0].hypotheses] == [
        words for words, _, _ in expected_costs
    ]


def test_nemo_beams_are_assigned_to_the_utterances_of_the_manifest():
    keys = list(read_manifest(MANIFEST))
    assert keys == ["one", "two"]
    first, second = list(read_nemo(NEMO, keys))
    assert word_costs(first) == [(("the", "cat"), 0.0, 1.5), (("a", "cat"), 0.0, 2.25)]
    assert word_costs(second) == [((), 0.0, 9.5), (("mat",), 0.0, 0.125)]
    assert [nbest.key for nbest in list(read_nemo(NEMO, beam=1))] == ["1", "2", "3", "4"]
    assert word_costs(list(read_nemo(NEMO, keys, score_as="graph"))[1])[1] == (("mat",), 0.125, 0.0)


def test_espnet_folders_are_read_in_the_order_of_their_ranks(tmp_path):
    for rank, text, token, score in [
        (1, "u1 the cat\nu2 x\n", "u1 ▁the ▁c at\nu2 ▁x\n", "u1 tensor(-1.5)\nu2 -2\n"),
        (
            2,
            "u1 a cat\nu2\n",
            "u1 ▁a ▁c at\nu2\n",
            "u1 tensor(-2.5, device='cuda:0')\nu2 tensor(-3., dtype=torch.float64)\n",
        ),
    ]:
        folder = tmp_path / f"{rank}best_recog"
        folder.mkdir()
        for name, content in (("text", text), ("token", token), ("score", score)):
            (folder / name).write_text(content)
    first, second = read_espnet_folder(tmp_path)
    assert (first.key, word_costs(first)) == ("u1", [(("the", "cat"), 0.0, 1.5), (("a", "cat"), 0.0, 2.5)])
    assert (second.key, word_costs(second)) == ("u2", [(("x",), 0.0, 2.0), ((), 0.0, 3.0)])
    assert read_espnet_folder(tmp_path, EspnetOptions("token"))[0].hypotheses[0].words == ("▁the", "▁c", "at")
    (tmp_path / "1best_recog/score").unlink()
    with pytest.raises(InputError, match="1best_recog/score: cannot be read: No such file"):
        read_espnet_folder(tmp_path)
    (tmp_path / "2best_recog").rename(tmp_path / "3best_recog")
    with pytest.raises(FormatError, match=r"expected folders 1best_recog, 2best_recog, …, found numbers \[1, 3\]"):
        read_espnet_folder(tmp_path)


def test_objects_are_read_from_lines_lists_and_dictionaries():
    lists = read_objects(JSONL)
    assert [nbest.key for nbest in lists] == ["u1", "u2"]
    assert word_costs(lists[0])[1] == (("a", "cat"), 0.0, 2.0)
    timed = lists[1].hypotheses[0]
    assert (timed.graph_cost, timed.acoustic_cost, timed.begin, timed.end) == (4.0, 3.0, (10,), (30,))
    rows = [json.loads(row) for row in JSONL.splitlines()]
    assert read_objects(json.dumps(rows).encode()) == lists
    by_key = read_objects(json.dumps({row["key"]: row["nbest"] for row in rows}).encode())
    assert [(nbest.key, word_costs(nbest)) for nbest in by_key] == [(nbest.key, word_costs(nbest)) for nbest in lists]
    hypotheses = read_objects(
        b'[{"id": 3, "hyp": "a b", "nll": 1.5}]', fields=ObjectFields("id", None, "hyp", "nll", meaning="cost")
    )
    assert (hypotheses[0].key, word_costs(hypotheses[0])) == ("3", [(("a", "b"), 0.0, 1.5)])
    plain = read_objects(b'{"u": ["a b", "c"]}', fields=ObjectFields(missing_score=0.0))
    assert word_costs(plain[0]) == [(("a", "b"), 0.0, 0.0), (("c",), 0.0, 0.0)]
    tens = ObjectFields(base=10.0, score_as="graph")
    assert word_costs(read_objects(b'{"u": [{"text": "a", "score": -2}]}', fields=tens)[0])[0][1] == pytest.approx(
        2 * math.log(10)
    )


def test_a_ctm_becomes_a_lattice_of_one_path_with_times():
    first, second = valid_entries(read_ctm(CTM))
    assert first.key == "rec1"
    lattice = nbest_lattice(first)
    assert lattice.time.tolist() == [0, 10, 30, 35, 60]
    assert [lattice.words.word(word) for word in lattice.word] == ["<eps>", "the", "<eps>", "cat"]
    assert (second.hypotheses[0].begin, second.hypotheses[0].end) == ((0,), (50,))
    assert valid_entries(read_ctm(CTM, options=CtmOptions(keys="file-channel")))[1].key == "rec2-A"
    silence = valid_entries(read_ctm(CTM.replace(b"rec1 1 0.35", b"rec1 1 0.30 0.05 <eps>\nrec1 1 0.35")))
    assert silence[0] == first
    [empty] = valid_entries(read_ctm(b"rec1 1 0.0 0.5 <eps> 1.0\n"))
    assert nbest_lattice(empty).num_arcs == 0


def test_tables_of_kaldi_become_lists():
    words = [("u-1", np.array([3, 4], np.int32)), ("u-2", np.array([3], np.int32)), ("v-1", np.array([], np.int32))]
    graph = {"u-1": 1.0, "u-2": 2.0, "v-1": 3.0}
    labels = {key: np.array([7, 8, 9], np.int32) for key in graph}
    u, v = tables_nbest(words, graph, None, labels)
    assert word_costs(u) == [((3, 4), 1.0, 0.0), ((3,), 2.0, 0.0)]
    assert [hypothesis.labels for hypothesis in u.hypotheses] == [((7,), (8, 9), ()), ((7, 8, 9), ())]
    assert v.hypotheses[0].labels == ((7, 8, 9),)
    with pytest.raises(LatticeError, match="key 'u-1': the table of acoustic costs lacks it"):
        list(tables_nbest(words, graph, {}))
    with pytest.raises(LatticeError, match="key 'u-1': the table of alignments lacks it"):
        list(tables_nbest(words, alignments={}))


READERS = {
    "kaldi": (KALDI, lambda content, path=None: list(read_kaldi_names(content, path))),
    "srilm 1": (SRILM_1, lambda content, path=None: [read_srilm(content, "u", path)]),
    "srilm 2": (SRILM_2, lambda content, path=None: [read_srilm(content, "u", path)]),
    "srilm 3": (SRILM_3, lambda content, path=None: [read_srilm(content, "u", path)]),
    "nemo": (NEMO, lambda content, path=None: list(read_nemo(content, ["a", "b"], path=path))),
    "manifest": (MANIFEST, lambda content, path=None: read_manifest(content, path=path) and []),
    "espnet": (b"u1 the cat\nu2 x\n", lambda content, path=None: read_espnet({1: (content, b"u1 -1\nu2 -2\n")}, path)),
    "scores": (
        b"u1 -1\nu2 tensor(-2)\n",
        lambda content, path=None: read_espnet({1: (b"u1 a\nu2 b\n", content)}, path),
    ),
    "objects": (JSONL, read_objects),
    "ctm": (CTM, lambda content, path=None: valid_entries(read_ctm(content, path))),
}
REFUSED = [
    ("kaldi", b"utt\n", "f:1: expected only a key, such as utt-1, found 'utt'"),
    ("kaldi", b"utt-1\n0 1 a ,,\n", "f, key 'utt': the file ends within a lattice"),
    ("kaldi", b"utt-1\n0 1 a ,,\n\n", "f:3, key 'utt': the lattice has no final state"),
    ("kaldi", b"utt-1\n0 2 a ,,\n", "f:2, key 'utt': expected an arc to state 1, found '2'"),
    ("kaldi", b"utt-1\n0 1 a ,,\n0 1 b ,,\n", "f:3, key 'utt': expected a single arc from state 1"),
    ("kaldi", b"utt-1\n0 1 a 1,2\n", "f:2, key 'utt': expected graph,acoustic,labels, found '1,2'"),
    ("kaldi", b"utt-1\n0 1 a 1,x,\n", "f:2, key 'utt': expected a cost, found 'x'"),
    ("kaldi", b"utt-1\n0 1 a 1,2,3-4\n", "f:2, key 'utt': expected labels such as 1_2_3, found '3-4'"),
    ("srilm 1", b"", "f, key 'u': there are no hypotheses"),
    ("srilm 1", b"NBestList1.0\n-3 a\n", "f:2, key 'u': expected a score in parentheses, found '-3'"),
    ("srilm 3", b"-1 -inf 1 a\n", "f, key 'u': there are no hypotheses"),
    ("srilm 3", b"-1 inf 1 a\n", "f:1, key 'u': expected a language model score, found 'inf'"),
    ("srilm 1", b"NBestList1.0\n(-3) \xff\n", r"f:2, key 'u': not UTF-8 \(invalid start byte\); specify the encoding"),
    ("srilm 2", b"NBestList2.0\n(-3) a ( st: 1 )\n", "f:2, key 'u': expected 11 fields for each word"),
    ("srilm 2", SRILM_2.replace(b"g:", b"x:"), r"f:2, key 'u': expected \( st: … et: … g: … a: … \) after 'the'"),
    (
        "srilm 2",
        SRILM_2.replace(b"0.10 et: 0.29", b"0.50 et: 0.29"),
        "the times of 'the' are out of order or range: it begins at 0.5 s and ends at 0.29 s",
    ),
    ("srilm 3", b"-1 -2\n", "f:1, key 'u': expected two scores and the number of words"),
    ("srilm 3", b"-1 nan 0\n", "f:1, key 'u': expected a language model score, found 'nan'"),
    ("srilm 3", b"-1 -2 x\n", "f:1, key 'u': expected the number of words, found 'x'"),
    ("nemo", b"a b\n", "f:1: expected a sentence, a tab and a score, found 'a b'"),
    ("nemo", b"a b\t-1\t-2\n", "f:1: expected a sentence, a tab and a score, found"),
    (
        "nemo",
        b"a\t-1\nb\t-2\nc\t-3\n",
        "f: there are 3 lines, but 2 utterances with 1 line each; check the manifest and the beam",
    ),
    ("manifest", b"{\n", "f:1: not JSON"),
    ("manifest", b'{"text": "x"}\n', "f:1: expected an object with the field 'audio_filepath'"),
    ("manifest", b'{"audio_filepath": "a/x.wav"}\n' * 2, "f:2: 'x' is also the key of the utterance on line 1"),
    ("espnet", b"u1 a\nu1 b\n", "f/1best_recog/text:2: utterance 'u1' occurs twice"),
    ("espnet", b"u1 a\nu3 b\n", "f/1best_recog/score, key 'u3': the utterance has a sentence, but no score"),
    ("espnet", b"u1 a\n", "f/1best_recog/text, key 'u2': the utterance has a score, but no sentence"),
    ("espnet", b"\n", "f/1best_recog/text:1: the line is empty; an utterance id is needed"),
    ("scores", b"u1 -1\nu1 -2\n", "f/1best_recog/score:2: utterance 'u1' occurs twice"),
    ("scores", b"u1 tensor(x)\n", "f/1best_recog/score:1: expected an utterance id and its score, found 'x'"),
    ("objects", b"[", "f: not JSON"),
    ("objects", b"[]", "f: there are no hypotheses"),
    ("objects", b"3", "f: expected objects with hypotheses, found 3"),
    ("objects", b"[" * 100_000, "f: not JSON: lists are nested too deeply"),
    ("objects", b'{"key": "u", "key": "v"}', "f: not JSON: an object contains the same field twice"),
    ("objects", b'{"key": "u", "nbest": [NaN]}', "f: not JSON: NaN is not a number"),
    ("objects", JSONL + b"{x\n", "f:3: not JSON"),
    ("objects", JSONL + JSONL, "f:3, key 'u1': the utterance occurs twice"),
    ("objects", b'[{"nbest": []}]', "f, key '1': the field 'key' is missing or null"),
    ("objects", b'[{"key": "u"}]', "f, key 'u': expected a list of hypotheses at 'nbest', found None"),
    ("objects", b"[[1]]", "f, key '1-1': expected an object, found 1"),
    ("objects", b'{"u": [1]}', "f, key 'u': expected a hypothesis, found 1"),
    ("objects", b'{"u": ["a"]}', "key 'u': a hypothesis has neither 'score' nor 'am_score' and 'lm_score'"),
    (
        "objects",
        b'{"u": [{"text": "a", "am_score": 1}]}',
        "a hypothesis has the score of one model, but no field 'lm_score'",
    ),
    ("objects", b'{"u": [{"text": "a", "score": "1"}]}', "expected a number at 'score', found '1'"),
    ("objects", b'{"u": [{"text": "a", "score": 1e999}]}', "expected a number at 'score', found inf"),
    ("objects", b'{"u": [{"text": "\\ud800", "score": 1}]}', "expected text at 'text', found '.ud800'"),
    ("objects", b'{"u": [{"score": 1, "words": {}}]}', "expected a list at 'words', found an object with"),
    ("objects", b'{"u": [{"score": 1, "words": [1]}]}', "expected a word, found 1"),
    (
        "objects",
        b'{"u": [{"score": 1, "words": [{"word": "a", "start": 2, "end": 1}]}]}',
        "times run backwards: word 1, 'a', ends at 1 s, before it begins at 2 s",
    ),
    ("ctm", b"a 1 0.1 0.2\n", "f:1: expected file, channel, start, duration and word, found"),
    ("ctm", b"a 1 0.1 0.2 <ALT_BEGIN>\n", r"f:1: there are alternatives \(<ALT>\)"),
    ("ctm", b"a 1 -1 0.2 b\n", "f:1, key 'a': a word begins at -1.0 s and lasts 0.2 s, which is out of range"),
    ("ctm", b"a 1 0 1 x\nb 1 0 1 x\na 1 1 1 x\n", "f:3, key 'a': the lines of the utterance are not consecutive"),
    ("ctm", b"a 1 0 1 x\na 2 1 1 x\n", "f:2, key 'a': the file has the channels '1' and '2'"),
    ("ctm", b"a 1 3 1 x\na 1 1 1 x\n", "f:2, key 'a': a word begins at 1.0 s, before the word on the line above"),
    ("ctm", b"", "f: there are no words"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_invalid_files_are_refused(name, content, message):
    with pytest.raises(FormatError, match=message):
        READERS[name][1](content, path="f")


def test_invalid_options_are_refused():
    with pytest.raises(OptionError, match="score_as is 'both', but must be acoustic or graph"):
        list(read_nemo(NEMO, ["a"], score_as="both"))
    with pytest.raises(OptionError, match="the utterances of these beams are unknown"):
        list(read_nemo(NEMO))
    with pytest.raises(OptionError, match="beam is 0, but must be 1 or more"):
        list(read_nemo(NEMO, beam=0))
    with pytest.raises(OptionError, match="base is 1, but must be finite and greater than 1"):
        ObjectFields(base=1)
    with pytest.raises(OptionError, match="meaning is 'odds', but must be logprob or cost"):
        ObjectFields(meaning="odds")
    with pytest.raises(OptionError, match="frame_shift is 0, but must be from 1e-6 to 1e6 seconds"):
        SrilmOptions(frame_shift=0)
    with pytest.raises(OptionError, match="keys is 'channel', but must be file or file-channel"):
        CtmOptions(keys="channel")
    with pytest.raises(OptionError, match=r"variant is 'NBestList3.0', but must be"):
        write_srilm(read_srilm(SRILM_1, "u"), None, SrilmWriteOptions(variant="NBestList3.0"))


def test_lists_that_a_format_cannot_represent_are_refused():
    nbest = NBest("utt", (sentence(["new york"]),))
    with pytest.raises(SymbolError, match="'new york' cannot be written, because words are separated by whitespace"):
        write_srilm(nbest)
    with pytest.raises(LatticeError, match=r"key 'u': the words have no times, which NBestList2.0 requires"):
        write_srilm(read_srilm(SRILM_1, "u"), None, SrilmWriteOptions(variant="NBestList2.0"))
    with pytest.raises(SymbolError, match="the words have no names; specify their symbol table"):
        write_nemo(NBest("utt", (sentence([7]),)))


def test_espnet_refuses_a_folder_with_lists_of_an_earlier_run(tmp_path):
    def write_folder():
        write_all(tmp_path / "out", (NBest(key, (sentence(["a"], 1.0),)) for key in "ab"), to="espnet")

    write_folder()
    assert [nbest.key for nbest in read_espnet_folder(tmp_path / "out")] == ["a", "b"]
    with pytest.raises(OutputError, match="out: already contains n-best lists; move them"):
        write_folder()
