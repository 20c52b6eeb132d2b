"""Inputs of `ninja score`: filters with --oracle, detection of STM and trn, Unicode normal forms, byte-order marks."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import paths, words_of
from strategies import lattices

import ninja as package
from ninja.errors import FormatError, NinjaWarning, OptionError
from ninja.evaluate import (
    BiasingList,
    Entity,
    Hypotheses,
    WordFilter,
    bootstrap,
    oracle_score,
    read_glm,
    read_text,
    score,
    score_biased,
    score_entities,
    score_grid,
)
from ninja.evaluate.filtered_lattices import relabel
from ninja.formats.nbest.espnet import read_espnet
from ninja.formats.nbest.nemo import read_manifest
from ninja.graph import linear
from ninja.lattice.symbols import SymbolTable
from ninja.show import draw

pytestmark = pytest.mark.usefixtures("folder")

Run = Callable[..., tuple[int, str, str]]
CAFE = "café"
DECOMPOSED = unicodedata.normalize("NFD", CAFE)


def write(name: str, *rows: str) -> str:
    Path(name).write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return name


def write_lists(name: str, **lists: list[str]) -> str:
    """Write n-best lists; the best hypothesis comes first."""
    rows = (
        {"key": key, "nbest": [{"text": text, "score": -rank} for rank, text in enumerate(texts)]}
        for key, texts in lists.items()
    )
    return write(name, *map(json.dumps, rows))


# Filters with --oracle.


def test_oracle_ignores_the_words_that_scoring_ignores(ninja: Run) -> None:
    write("text", "u um the cat", "v yes")
    write_lists("hyp.jsonl", u=["um uh the hat", "um uh the cat"], v=["uh yes"])
    ignored = ("--ignore", "um", "--ignore", "uh")
    assert ninja("score", "text", "hyp.jsonl", *ignored)[1].startswith("%WER 33.33 [ 1 / 3")
    assert ninja("score", "text", "hyp.jsonl", "--oracle", *ignored)[1].startswith("%WER 0.00 [ 0 / 3")


def test_filters_apply_to_transcripts_before_context(ninja: Run) -> None:
    write("text", "u call tom chen")
    write("hyp", "u call tom um chen")
    write("names", "tom chen")
    write("filter", "s/ um / /")
    for filters in (("--ignore", "um"), ("--filter", "filter"), ("--hyp-filter", "filter")):
        call = ("score", "text", "hyp", "--entities", "names", "--before", "hyp", "--report", "report", *filters)
        assert ninja(*call)[0] == 0
        report = json.loads(Path("report").read_text(encoding="utf-8"))
        assert (len(report["kept"]), len(report["recovered"])) == (1, 0)


def test_oracle_applies_the_filters_of_scoring(ninja: Run) -> None:
    write("text", "u i am the cat")
    write_lists("hyp.jsonl", u=["i'm a cat", "i'm the katze"])
    write("filter", "s/ i'm/ i am/", "s/ katze/ cat/")
    assert ninja("score", "text", "hyp.jsonl", "--filter", "filter")[1].startswith("%WER 25.00 [ 1 / 4")
    assert ninja("score", "text", "hyp.jsonl", "--oracle", "--filter", "filter")[1].startswith("%WER 0.00 [ 0 / 4")
    assert ninja("score", "text", "hyp.jsonl", "--oracle", "--hyp-filter", "filter")[1].startswith("%WER 0.00")
    write("glm", "i'm => i am", "katze => cat")
    assert ninja("score", "text", "hyp.jsonl", "--oracle", "--glm", "glm")[1].startswith("%WER 0.00 [ 0 / 4")


def test_context_dependent_filters_conflict_with_oracle(ninja: Run) -> None:
    write("text", "u new york")
    write_lists("hyp.jsonl", u=["newyork"])
    write("filter", "s/new york/newyork/")
    code, _, errors = ninja("score", "text", "hyp.jsonl", "--oracle", "--filter", "filter")
    assert (code, "depends on the context of words, so it cannot be applied" in errors) == (2, True)
    write("glm", "new york => newyork")
    code, _, errors = ninja("score", "text", "hyp.jsonl", "--oracle", "--glm", "glm")
    assert (code, "has rules for several words" in errors) == (2, True)
    with pytest.raises(OptionError, match="has rules for several words"):
        oracle_score([], {"u": []}, SymbolTable.growing(), word_filter=WordFilter(mapping=read_glm("glm")))


@given(lattices(), st.dictionaries(st.integers(1, 8), st.lists(st.integers(1, 9), max_size=3).map(tuple)))
def test_relabelled_lattice_has_the_mapped_word_sequences(lattice, words) -> None:
    labels = {word for word in lattice.word.tolist() if word}
    mapping = {word: words.get(word, (word,)) for word in labels}
    relabelled = relabel(lattice, mapping)
    package.lattice.check(relabelled)
    expected = {tuple(label for word in words_of(lattice, path) for label in mapping[word]) for path in paths(lattice)}
    assert {words_of(relabelled, path) for path in paths(relabelled)} == expected


# Transcripts in other formats.

SEGMENTS = ("u1 talk 0.00 1.50", "u2 talk 1.50 3.00")
STM = ("talk 1 spk 0.00 1.50 <o,f0,male> hello there", "talk 1 spk 1.50 3.00 good bye")
TRN = ("hello there (u1)", "good bye (u2)")
TEXT = ("u1 hello there", "u2 good buy")


@pytest.mark.parametrize("name", ["ref", "ref.stm"])
def test_stm_is_detected_by_content(ninja: Run, name: str) -> None:
    write(name, *STM)
    write("segments", *SEGMENTS)
    write("hyp", *TEXT)
    expected = "%WER 25.00 [ 1 / 4, 0 ins, 0 del, 1 sub ]"
    assert ninja("score", name, "hyp", "--segments", "segments")[1].startswith(expected)
    assert ninja("score", "hyp", name, "--segments", "segments")[1].startswith(expected)
    code, _, errors = ninja("score", name, "hyp")
    assert (code, "STM" in errors, "--segments" in errors) == (2, True, True)
    code, _, errors = ninja("score", "hyp", name)
    assert (code, "--segments" in errors) == (2, True)
    with pytest.raises(FormatError, match="the file is in STM format, which has no utterance ids"):
        read_text(name)


@pytest.mark.parametrize("text", ['{"text": "a b"}', '[{"text": "a b"}]', "{", "["])
def test_json_references_raise_format_error(text: str) -> None:
    write("ref", text, text)
    with pytest.raises(FormatError, match="ref: the file is JSON, but each line must consist of an utterance id and"):
        read_text("ref")


def test_trn_is_detected_by_content(ninja: Run) -> None:
    write("ref", ";; a comment", *TRN)
    write("hyp", *TEXT)
    assert ninja("score", "ref", "hyp")[1].startswith("%WER 25.00 [ 1 / 4, 0 ins, 0 del, 1 sub ]")
    assert ninja("score", "hyp", "ref")[1].startswith("%WER 25.00 [ 1 / 4, 0 ins, 0 del, 1 sub ]")
    assert read_text(write("one.trn", "(u1)")) == {"u1": []}
    with pytest.raises(FormatError, match=r"two\.trn:2: utterance 'u1' occurs twice"):
        read_text(write("two.trn", "a (u1)", "b (u1)"))
    with pytest.raises(FormatError, match=r"bad\.trn:2: expected words and an utterance id in parentheses"):
        read_text(write("bad.trn", "a (u1)", "b"))
    with pytest.raises(FormatError, match="alternatives"):
        read_text(write("alternatives.trn", "{ a / b } (u1)"))


@pytest.mark.parametrize(
    "rows",
    [
        ("u1 hello (noise)", "u2 bye (laughter)"),  # Kaldi text with tags at the ends of lines
        ("u1 hello (u-2)",),
        ("u1 1 2 3 4 5", "u2 1 2 3 4 5"),  # digits are words
        ("u1 a b 1.5 2.5", "u2 one"),
        ("u1", "u2"),
    ],
)
def test_kaldi_text_similar_to_stm_or_trn_is_read_as_kaldi_text(rows: tuple[str, ...]) -> None:
    assert read_text(write("text", *rows)) == {row.split()[0]: row.split()[1:] for row in rows}


# Normal forms and byte-order marks.


def test_composed_and_decomposed_letters_are_equal_words(ninja: Run) -> None:
    write("ref", f"u {CAFE} noir", "v thé")
    write("hyp", f"u {DECOMPOSED} noir", "v thé")
    message = "1 word is not in Unicode's composed form (NFC); words are compared in that form"
    for reference, hypothesis in (("ref", "hyp"), ("hyp", "ref")):
        code, printed, errors = ninja("score", reference, hypothesis)
        assert (code, printed.split(" [")[0], message in errors) == (0, "%WER 0.00", True)
    assert "NFC" not in ninja("score", "ref", "ref")[2]
    write_lists("hyp.jsonl", u=[f"{DECOMPOSED} noir"], v=["thé"])
    for options in ((), ("--oracle",), ("--ignore", DECOMPOSED), ("--lmwt", "1:2")):
        assert "%WER 0.00" in ninja("score", "ref", "hyp.jsonl", *options)[1]
    with pytest.warns(NinjaWarning, match="composed form"):
        assert score({"u": [CAFE]}, {"u": [DECOMPOSED]}).errors == 0


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("oracle hyp.jsonl", "Overall %WER 0 ["),
        ("report hyp.jsonl hyp.jsonl -o out", "WER 0.00% before and 0.00% after, oracle 0.00% and 0.00%"),
        ("tune hyp.jsonl --rnnlm none -o out", "WER 0.00 with the initial scales"),
        ("tune hyp.jsonl --confidence -o out", "[ 2 correct of 2 words ]"),
    ],
)
def test_lattice_commands_compare_composed_letters(ninja: Run, command: str, result: str) -> None:
    for reference, hypothesis in ((CAFE, DECOMPOSED), (DECOMPOSED, CAFE)):
        write_lists("hyp.jsonl", u=[f"{hypothesis} noir", "noir"])
        code, _, errors = ninja(*command.split(), "--ref", write("ref", f"u {reference} noir"))
        assert (code, result in errors) == (0, True), errors


def test_drawings_compare_composed_letters() -> None:
    table = SymbolTable.from_words(["<eps>", DECOMPOSED, "noir"])
    drawing = draw(linear("u", [1, 2], [1, 2]).with_words(table), [CAFE, "noir"])
    assert drawing.oracle is not None
    assert drawing.oracle.edits == 0
    pairs = [(CAFE, CAFE), ("noir", "noir")]
    assert drawing.as_dict()["pairs"] == {"best": pairs, "oracle": pairs}


@pytest.mark.filterwarnings("ignore:.*composed form")
def test_all_scores_compare_composed_letters() -> None:
    entity = Entity("", f"{DECOMPOSED} noir")
    for first, second in ((CAFE, DECOMPOSED), (DECOMPOSED, CAFE)):
        references, hypotheses = {"u": [first, "noir"]}, {"u": [second, "noir"]}
        assert bootstrap(references, hypotheses).first.mean == 0.0
        grid = score_grid(references, {"u": Hypotheses((hypotheses["u"],), (0,))}, [package.Scales()])
        assert grid.rates[0].errors == 0
        for rare in (CAFE, DECOMPOSED):
            biased = score_biased(references, hypotheses, {"u": BiasingList(frozenset({rare}))}).biased
            assert (biased.words, biased.errors) == (1, 0)
        report = score_entities(references, hypotheses, {}, truth={"u": [entity]}, before=hypotheses)
        assert (report.entities.correct, report.overall.errors) == (1, 0)
        assert report.mentions[0].found_before


def test_compute_wer_statistics_agree_with_its_rate(ninja: Run) -> None:
    _, printed, _ = ninja("compute-wer", write("ref", f"u {CAFE}"), write("hyp", f"u {DECOMPOSED}"), "-")
    assert printed.splitlines()[0].startswith("%WER 0.00")
    assert printed.splitlines()[-1] == f"correct {CAFE}"


def test_byte_order_mark_is_not_part_of_the_first_key(ninja: Run) -> None:
    write("ref", "u hello")
    write("marked", "\ufeffu hello")
    for reference, hypothesis in (("ref", "marked"), ("marked", "ref")):
        code, printed, errors = ninja("score", reference, hypothesis)
        assert (code, printed.split(" [")[0]) == (0, "%WER 0.00")
        assert "marked: ignoring the byte-order mark at the start" in errors


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("text", "u hello\n", lambda: read_text("text")),
        ("words.txt", "<eps> 0\na 1\n", lambda: dict(SymbolTable.read("words.txt"))),
        ("trn.trn", "hello (u)\n", lambda: read_text("trn.trn")),
        ("x.ctm", "u 1 0.00 0.50 hello\n", lambda: [key for key, _ in package.read("x.ctm")]),
        ("x.jsonl", '{"key": "u", "nbest": []}\n', lambda: [key for key, _ in package.read("x.jsonl")]),
        ("m.json", '{"audio_filepath": "u.wav"}\n', lambda: read_manifest(Path("m.json").read_bytes())),
        ("e", "u a\n", lambda: [nbest.key for nbest in read_espnet({1: (Path("e").read_bytes(), b"u -1\n")})]),
        (
            "entities.tsv",
            "u\t@name\thello\n",
            lambda: [phrases.num_phrases for phrases in package.context.Entities.read("entities.tsv").of("u")],
        ),
    ],
)
def test_readers_ignore_the_byte_order_mark(name: str, content: str, read: Callable[[], object]) -> None:
    Path(name).write_text(content, encoding="utf-8")
    expected = read()
    Path(name).write_text("\ufeff" + content, encoding="utf-8")
    with pytest.warns(NinjaWarning, match="ignoring the byte-order mark at the start"):
        assert read() == expected


# Fields of JSON.


def test_message_of_a_missing_score_names_the_option_and_fields(ninja: Run) -> None:
    write("text", "u hello")
    row = {"key": "u", "nbest": [{"text": "hello", "avg_logprob": -1.5, "id": "x"}]}
    write("hyp.jsonl", json.dumps(row))
    code, _, errors = ninja("score", "text", "hyp.jsonl")
    assert code == 1
    assert "none of the" not in errors
    assert (
        "a hypothesis has neither 'score' nor 'am_score' and 'lm_score'; its fields are 'text', 'avg_logprob', 'id'; "
        "specify the field of its score (--from json:score=avg_logprob), or specify a value for missing scores "
        "(--from json:missing_score=0)"
    ) in errors
    row["nbest"] = [{"text": "hello"}]
    write("hyp.jsonl", json.dumps(row))
    assert "(--from json:score=FIELD)" in ninja("score", "text", "hyp.jsonl")[2]
