"""Tiny random models and tokenizers of Hugging Face's libraries, created here without downloads."""

import functools
import json
import shutil
import socket
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ninja.lattice.symbols import SymbolTable
from ninja.lm import load

TEXT = [
    "the cat sat on the mat",
    "the dog saw the cat",
    "a catalogue of dogs and mats",
    "he said that the theatre was saturated",
] * 3
# "zebra" has many pieces, and "Zoë" has a letter that only bytes can spell.
WORDS = "the cat sat on mat dog saw a catalogue of dogs and mats he said that theatre was saturated zebra Zoë it's"
TABLE = SymbolTable.from_words(["<eps>", "<s>", "</s>", "<unk>", *WORDS.split()])


def byte_level_bpe():
    """Create pieces like those of GPT-2: a space belongs to the next word, and the first word has none."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    end = "<|endoftext|>"
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[end], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end, unk_token=end)


def metaspace_unigram():
    """Create pieces like those of sentencepiece: every word begins with ▁; unknown letters have a piece."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def word_piece():
    """Create pieces like those of BERT: continuations within a word begin with ##."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"]
    trainer = trainers.WordPieceTrainer(vocab_size=80, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", mask_token="[MASK]",
        pad_token="[PAD]",
    )  # fmt: skip


GPT = {"bos_token_id": 0, "eos_token_id": 0}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
LLAMA = {**SIZES, "intermediate_size": 32, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
KINDS = {
    "gpt2": (byte_level_bpe, "GPT2LMHeadModel", {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, **GPT}),
    "opt": (byte_level_bpe, "OPTForCausalLM", {**SIZES, "ffn_dim": 32, "word_embed_proj_dim": 8, **GPT}),
    "llama": (metaspace_unigram, "LlamaForCausalLM", LLAMA),
    "mistral": (metaspace_unigram, "MistralForCausalLM", {**LLAMA, "sliding_window": 4}),
    "bloom": (byte_level_bpe, "BloomForCausalLM", {"hidden_size": 16, "n_layer": 2, "n_head": 2, **GPT}),
    "mamba": (byte_level_bpe, "MambaForCausalLM", {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, **GPT}),
    "gemma2": (metaspace_unigram, "Gemma2ForCausalLM", {**LLAMA, "head_dim": 4}),
    "bert": (word_piece, "BertForMaskedLM", {**SIZES, "intermediate_size": 32}),
    "t5": (metaspace_unigram, "T5ForConditionalGeneration", {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1}),
}


FOLDERS = tempfile.TemporaryDirectory()  # deleted when the tests end


@functools.cache
def folder(kind):
    """Create a random model, with weights so large that all parts of it affect the scores, once for all tests."""
    path = Path(FOLDERS.name) / kind
    tokenizer_of, name, options = KINDS[kind]
    tokenizer = tokenizer_of()
    family = getattr(transformers, name)
    torch.manual_seed(0)
    model = family(family.config_class(vocab_size=len(tokenizer), **options)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.3)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def copy_model(target, kind="gpt2"):
    """Copy a model to a directory, so that a test can change its files; return the directory."""
    return shutil.copytree(folder(kind), target, dirs_exist_ok=True)


def change_settings(path, **entries):
    """Change entries of a JSON file, which may be missing."""
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(settings | entries))


def load_model(kind, **options):
    """Load a model, and look up the words of `TABLE`, so that their ids are the same in all models."""
    lm = load(folder(kind), **options)
    lm.vocabulary.ids(word for word, _ in TABLE)
    return lm


def make_trie(lm, size=40, seed=0, reach=6):
    """Draw a trie of words that a tokenizer can spell, with </s> at some leaves."""
    random = np.random.default_rng(seed)
    words = [number for word, number in lm.vocabulary if word not in ("<s>", "</s>", "<unk>")]
    parent = np.array([int(random.integers(max(-1, node - reach), node)) for node in range(size)], np.int32)
    word = random.choice(words, size).astype(np.int32)
    leaf = ~np.isin(np.arange(size), parent)
    word[leaf & (random.random(size) < 0.5)] = lm.eos
    return parent, word


def word_pieces(lm, word, *, first=False):
    """Return a word's pieces as the tokenizer writes them."""
    (begin,), (count,) = lm._spelling.places(np.array([lm.vocabulary.id(word)]), np.array([first]))
    return lm._spelling.piece[begin : begin + count].tolist()


@pytest.fixture(autouse=True)
def one_quiet_thread():
    before, level = torch.get_num_threads(), transformers.logging.get_verbosity()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    yield
    torch.set_num_threads(before)
    transformers.logging.set_verbosity(level)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection was requested")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
