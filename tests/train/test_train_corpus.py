"""Word ids of a training text: in memory, and in a file that is written once, mapped, and always checked."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import FormatError
from ninja.lm import text
from ninja.train import corpus
from ninja.train.corpus import Choice, open_corpus
from ninja.train.order import Order

CHOICE = Choice(8, 1, hold_out=False)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Write a text that counts as large into a separate folder."""
    monkeypatch.setattr(corpus, "LARGE", 0)
    monkeypatch.setattr(corpus, "PIECE", 16)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    lines = [" ".join(f"w{min(random.geometric(0.3), 12)}" for _ in range(random.integers(1, 9))) for _ in range(99)]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.txt").write_text("\n".join(lines))
    return str(tmp_path / "texts" / "train.txt")


def ids_files(path):
    return sorted(name for name in os.listdir(os.path.dirname(path)) if name != "train.txt")


def assert_equal_corpora(result, expected):
    assert (result.words, result.held_out, result.sha256) == (expected.words, expected.held_out, expected.sha256)
    assert result.sentences.word.tolist() == expected.sentences.word.tolist()
    assert result.sentences.begin.tolist() == expected.sentences.begin.tolist()
    assert result.sentences.num_unknown == expected.sentences.num_unknown > 0
    assert result.sentences.unk_words == expected.sentences.unk_words > 0


@pytest.mark.parametrize("hold_out", [True, False])
def test_an_ids_file_agrees_with_the_text(path, hold_out):
    choice = Choice(8, 1, hold_out=hold_out)
    expected = corpus._in_memory(path, choice, text.digest(path))
    for _ in range(2):
        result = open_corpus(path, choice)
        assert isinstance(result.sentences.word, np.memmap)
        assert_equal_corpora(result, expected)
    assert len(ids_files(path)) == 1
    assert (result.held_out is None) != hold_out


def test_ids_are_written_once_per_text_and_vocabulary(path, monkeypatch):
    open_corpus(path, CHOICE)
    (ids_file,) = ids_files(path)
    monkeypatch.setattr(corpus, "_write", None)
    assert_equal_corpora(open_corpus(path, CHOICE), corpus._in_memory(path, CHOICE, text.digest(path)))
    monkeypatch.undo()
    monkeypatch.setattr(corpus, "LARGE", 0)
    open_corpus(path, Choice(5, 1, hold_out=False))
    assert len(ids_files(path)) == 2
    with open(path, "a") as stream:
        stream.write("\nw1 w1 w1")
    result = open_corpus(path, CHOICE)
    assert len(result.sentences) == 100
    assert len(ids_files(path)) == 3
    assert ids_file in ids_files(path)


def test_damaged_ids_are_written_again(path):
    expected = corpus._in_memory(path, CHOICE, text.digest(path))
    open_corpus(path, CHOICE)
    ids_path = os.path.join(os.path.dirname(path), ids_files(path)[0])
    with open(ids_path, "rb") as stream:
        image = stream.read()
    for content in (b"", image[:-1], image[:40], bytes([image[0] ^ 1]) + image[1:], image[:100] + image[108:]):
        with open(ids_path, "wb") as stream:
            stream.write(content)
        assert_equal_corpora(open_corpus(path, CHOICE), expected)
        with open(ids_path, "rb") as stream:
            assert stream.read() == image


def test_ids_of_a_read_only_folder_are_cached_or_kept_in_memory(path, tmp_path, monkeypatch):
    os.chmod(os.path.dirname(path), 0o555)
    mapped_corpus = open_corpus(path, CHOICE)
    assert str(mapped_corpus.sentences.word.filename).startswith(str(tmp_path / "cache" / "ninja-asr"))
    assert open_corpus(path, CHOICE, first=False).sentences.word.filename == mapped_corpus.sentences.word.filename
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # a file, in which no folder can be created
    memory_corpus = open_corpus(path, CHOICE)
    assert not isinstance(memory_corpus.sentences.word, np.memmap)
    assert_equal_corpora(memory_corpus, mapped_corpus)
    assert ids_files(path) == []


def test_small_texts_need_no_file(path, monkeypatch):
    monkeypatch.setattr(corpus, "LARGE", 1 << 20)
    open_corpus(path, CHOICE)
    assert ids_files(path) == []


def test_invalid_texts_leave_no_ids_file(path):
    with open(path, "w") as stream:
        stream.write("a b\n<s> c\n")
    with pytest.raises(FormatError, match=r"train\.txt:2: the text contains <s> or </s>"):
        open_corpus(path, CHOICE)
    assert ids_files(path) == []


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 90), st.integers(0, 5), st.integers(0, 3))
def test_order_agrees_with_the_batches_of_the_text(lengths, max_tokens, seed, epoch):
    begin = np.concatenate(([0], np.cumsum(lengths)))
    sentences = text.Sentences(np.zeros(begin[-1], np.int32), begin, 0)
    expected = text.batches(sentences, max_tokens, (seed, epoch))
    order = Order(sentences, max_tokens, seed)
    assert order.epoch_batches == len(expected)
    for place, members in enumerate(expected):
        assert order.batch(epoch * len(expected) + place).tolist() == members.tolist()
