"""``ninja train ngram``: output, messages and errors; ``ninja train`` still trains a neural model."""

import dataclasses
import gzip
import json

import click
import pytest

from ninja.cli.main import group
from ninja.lm import load
from ninja.lm.ngram.kneser_ney import NgramOptions

TEXT = "call tom chen\nplease call ann\ncall ann now\nplease call tom chen now\nplay it\nplay it again\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def entities(tmp_path):
    path = tmp_path / "entities.json"
    path.write_text(json.dumps({"@name": ["tom chen", "ann"], "@place": ["oslo", "ann"]}))
    return path


def unigrams(path):
    return [word for word, _ in load(path).vocabulary]


def test_train_ngram_writes_a_model_and_a_summary(ninja, text, tmp_path):
    (tmp_path / "dev.txt.gz").write_bytes(gzip.compress(b"call tom\nplay that again\n"))
    output = tmp_path / "lm.arpa.gz"
    code, printed, errors = ninja("train", "ngram", text, "--dev", tmp_path / "dev.txt.gz", "-o", output, "--order", 2)
    assert (code, printed) == (0, "")
    assert errors.splitlines() == [
        "ninja: 6 sentences, 19 words, 0 of them unknown; 12 words in the vocabulary",
        "ninja: 1-grams: 12; discounts 0.6364, 1.273, 1.909",
        "ninja: 2-grams: 16; discounts 0.28, 0.56, 0.84",
        "ninja: the numbers of 1-grams that occur 1, 2, 3 and 4 times, 7, 2, 0, 0, do not allow discounts to be "
        "estimated; using 0.6364, 1.273, 1.909 (extrapolated from counts 1 and 2)",
        "ninja: the numbers of 2-grams that occur 1, 2, 3 and 4 times, 7, 9, 0, 0, do not allow discounts to be "
        "estimated; using 0.28, 0.56, 0.84 (extrapolated from counts 1 and 2)",
        f"ninja: {output}: 12 + 16 n-grams, perplexity 6.80 on the held-out text, "
        "4.61 without unknown words (1, 20.00%)",
    ]
    assert load(output).order == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.txt.gz", "lm.arpa.gz", "train.txt"]


def test_train_ngram_reports_the_perplexity_of_lm_score(ninja, text, tmp_path):
    errors = ninja("train", "ngram", text, "--dev", text, "-o", tmp_path / "lm.arpa")[2]
    score_errors = ninja("lm", "score", tmp_path / "lm.arpa", text, "--no-keys")[2]
    perplexity = float(score_errors.splitlines()[1].split("ppl= ")[1].split()[0])
    assert errors.splitlines()[-1].endswith(f"perplexity {perplexity:.2f} on the held-out text")


def test_the_model_goes_to_stdout_on_request(ninja, text):
    code, printed, _ = ninja("train", "ngram", text, "-o", "-", "--order", 1)
    assert code == 0
    assert printed.startswith("\\data\\\nngram 1=12\n\n\\1-grams:\n-99\t<s>\n")
    assert printed.endswith("\n\\end\\\n")


def test_classes_replace_phrases_in_the_text_and_the_held_out_text(ninja, text, entities, tmp_path):
    output = tmp_path / "lm.arpa"
    code, _, errors = ninja("train", "ngram", text, "--classes", entities, "--dev", text, "-o", output)
    assert code == 0
    assert "ninja: @name: 2 phrases in the lists, 3 occurrences in the text" in errors
    assert "ninja: @place: 2 phrases in the lists, 1 occurrence in the text" in errors
    assert "ninja: 1 phrase belongs to several classes: 'ann' (@name, @place); 2 occurrences were" in errors
    assert "11 words in the vocabulary, including 2 classes (@name, @place)" in errors
    assert "unknown words" not in errors.splitlines()[-1]
    assert unigrams(output)[3:] == ["@name", "@place", "again", "call", "it", "now", "play", "please"]


def test_phrases_without_a_class_are_not_replaced(ninja, text, tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text('{"list": "l", "@name": ["ann"]}\n{"utt": "u", "$thing": ["it"], "phrases": ["now"]}\n')
    code, _, errors = ninja("train", "ngram", text, "--classes", path, "-o", tmp_path / "lm.arpa")
    assert code == 0
    assert f"ninja: {path}: 1 phrase has no class and is not replaced" in errors
    assert f"ninja: {path}: 1 list is never used: 'l'" in errors
    assert {"@name", "$thing", "now"} <= set(unigrams(tmp_path / "lm.arpa"))


def test_vocabulary_is_a_list_of_words_or_a_symbol_table(ninja, text, tmp_path):
    (tmp_path / "list").write_text("call\r\n\nann\nnever\n")
    (tmp_path / "words.txt").write_text("<eps> 0\n<unk> 1\ncall 2\nann 3\nnever 4\n#0 5\n<s> 6\n</s> 7\n")
    for name in ("list", "words.txt"):
        errors = ninja("train", "ngram", text, "--vocabulary", tmp_path / name, "-o", tmp_path / "lm.arpa")[2]
        assert errors.splitlines()[0].endswith("19 words, 13 of them unknown; 6 words in the vocabulary")
        assert unigrams(tmp_path / "lm.arpa") == ["<s>", "</s>", "<unk>", "ann", "call", "never"]


def test_only_spaces_and_tabs_separate_words(ninja, tmp_path):
    word = "10\u00a0000\u2028"
    (tmp_path / "train.txt").write_text(f"pay {word}\tnow\n")
    (tmp_path / "list").write_text(f"pay\n{word}\n")
    for vocabulary, expected in (((), ["now", "pay"]), (("--vocabulary", tmp_path / "list"), ["pay"])):
        code, _, errors = ninja("train", "ngram", tmp_path / "train.txt", *vocabulary, "-o", tmp_path / "lm.arpa")
        assert code == 0, errors
        assert unigrams(tmp_path / "lm.arpa") == ["<s>", "</s>", "<unk>", word, *expected]


def test_cutoffs_and_discounts_are_lists_of_numbers(ninja, text, tmp_path):
    arguments = ("--cutoffs", "1,2", "--discounts", "0.5,1,1.5", "-o", tmp_path / "lm.arpa")
    errors = ninja("train", "ngram", text, *arguments)[2]
    assert errors.splitlines()[1:4] == [
        "ninja: 1-grams: 12; discounts 0.5, 1, 1.5",
        "ninja: 2-grams: 16; discounts 0.5, 1, 1.5",
        "ninja: 3-grams: 3 after removing 13; discounts 0.5, 1, 1.5",
    ]


def write_bad_files(tmp_path):
    (tmp_path / "good").write_text(TEXT)
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "marked").write_text("a b\nc <s> d\n")
    (tmp_path / "latin1").write_bytes("a b\n\ncafé\n".encode("latin-1"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT.encode() * 100)[:-20])
    (tmp_path / "three").write_text("call\na b c\n")
    (tmp_path / "classless.json").write_text('{"phrases": ["ann"]}')


BAD = {
    "a missing text": (("nowhere",), 1, "nowhere: cannot be read: No such file or directory"),
    "an empty text": (("empty",), 1, "empty: the text contains no sentences"),
    "marks in the text": (
        ("marked",),
        1,
        "marked:2: the text contains <s> or </s>; remove them, because they are added",
    ),
    "another encoding": (("latin1",), 1, "latin1:3: not UTF-8 (unexpected end of data); convert it with iconv"),
    "damaged gzip": (("cut.gz",), 1, "the gzip stream is truncated"),
    "an empty held-out text": (("good", "--dev", "empty"), 1, "empty: the text contains no sentences"),
    "a vocabulary with three fields": (
        ("good", "--vocabulary", "three"),
        1,
        "three:2: expected a word, or a word and its id, found 'a b c'",
    ),
    "an empty vocabulary": (("good", "--vocabulary", "empty"), 1, "empty: the vocabulary contains no words"),
    "another language": (
        ("good", "--vocabulary", "words"),
        1,
        "good: no word of the text is in the vocabulary; specify",
    ),
    "missing classes": (("good", "--classes", "nowhere"), 1, "nowhere"),
    "classes without phrases": (
        ("good", "--classes", "classless.json"),
        1,
        "classless.json: the classes have no phrases; omit the classes",
    ),
    "order 0": (("good", "--order", "0"), 2, "--order is 0, but must be in [1, 16]"),
    "words as cutoffs": (
        ("good", "--cutoffs", "a"),
        2,
        "--cutoffs is 'a', but must be integers separated by commas",
    ),
    "words as discounts": (
        ("good", "--discounts", "0.5;1"),
        2,
        "--discounts is '0.5;1', but must be numbers separated by com",
    ),
    "two vocabularies": (
        ("good", "--vocabulary", "good2", "--min-count", "2"),
        2,
        "--vocabulary and --min-count both select",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_reported_in_one_line_without_output_files(ninja, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_bad_files(tmp_path)
    (tmp_path / "words").write_text("ich\n")
    (tmp_path / "good2").write_text("call\n")
    arguments, expected, message = BAD[case]
    code, printed, errors = ninja("train", "ngram", *arguments, "-o", "lm.arpa")
    assert (code, printed) == (expected, "")
    assert errors.splitlines()[-1].startswith("ninja: error: ")
    assert message in errors.splitlines()[-1]
    assert not [path for path in tmp_path.iterdir() if "lm.arpa" in path.name]


def test_a_missing_output_folder_is_reported_before_training(ninja, tmp_path):
    code, _, errors = ninja("train", "ngram", tmp_path / "nowhere", "-o", tmp_path / "no" / "lm.arpa")
    assert code == 2
    folder = tmp_path / "no"
    assert errors == f"ninja: error: {folder / 'lm.arpa'}: the folder {folder} does not exist; create it first\n"


def test_train_without_ngram_trains_a_network(ninja, text, tmp_path):
    code, _, errors = ninja("train", text)
    assert (code, errors.splitlines()[-1]) == (2, "Error: Missing option '-o' / '--output-file'.")
    assert errors.startswith("Usage: ninja train [OPTIONS] TEXT\n")
    code, _, errors = ninja("train")
    assert (code, errors.splitlines()[-1]) == (2, "Error: Missing argument 'TEXT'.")
    code, _, errors = ninja("train", text, "more", "--dev", text, "-o", "x")
    assert (code, errors.splitlines()[-1]) == (2, "Error: Got unexpected extra argument (more)")
    code, _, errors = ninja("train", "./ngram", "--dev", text, "-o", tmp_path / "lm.pt")
    assert (code, "./ngram: cannot be read" in errors) == (1, True)


def test_help_of_train_shows_both_kinds_of_training(ninja):
    code, printed, _ = ninja("train", "--help")
    assert code == 0
    assert printed.startswith("Usage: ninja train [OPTIONS] TEXT\n\n  Train a neural language model.\n")
    assert "ninja train train.txt.gz --dev dev.txt -o model.pt" in printed
    assert "ninja train ngram train.txt.gz --dev dev.txt -o model.arpa.gz" in printed
    assert "train ngram  " in ninja("--help")[1]
    code, printed, _ = ninja("train", "ngram", "--help")
    assert code == 0
    assert printed.startswith("Usage: ninja train ngram [OPTIONS] TEXT\n")


def test_options_of_train_ngram_have_field_names_and_help():
    options = {option.name: option for option in group.get_command(click.Context(group), "train ngram").params}
    for field in dataclasses.fields(NgramOptions):
        assert options[field.name].opts == [f"--{field.name.replace('_', '-')}"]
        default = ",".join(map(str, field.default)) if field.name == "cutoffs" else field.default
        assert default is None or options[field.name].default == default
    assert all(option.help for option in options.values() if isinstance(option, click.Option))
