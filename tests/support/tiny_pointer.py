"""A tiny contextual language model: an LSTM with a phrase pointer of random weights."""

import math

import pytest

torch = pytest.importorskip("torch")

from tiny_lstm import MODULE, VOCABULARY  # noqa: E402

from ninja.context import Entities  # noqa: E402
from ninja.context.deep.encoder import PhraseEncoder  # noqa: E402
from ninja.context.deep.pointer import ContextPointer, digest  # noqa: E402
from ninja.context.deep.symbols import Symbols  # noqa: E402
from ninja.lattice.symbols import SymbolTable  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402
from ninja.models import entity_encoder, phrase_pointer  # noqa: E402

UNKNOWN_WORDS = ("unheard-of", "never")  # words that the base model lacks
WORDS = (*(f"w{number}" for number in range(1, 9)), *UNKNOWN_WORDS)
TABLE = SymbolTable.from_words(["<eps>", *WORDS, "<s>", "</s>"])
PENALTY = math.log(len(UNKNOWN_WORDS))


def random_pointer(lm) -> ContextPointer:
    torch.manual_seed(3)
    encoder = entity_encoder.EntityEncoder(entity_encoder.Config(40, 4, "letters", hidden=4, vector=5)).eval()
    network = phrase_pointer.PhrasePointer(phrase_pointer.Config(lm.state_size, 5, width=6, hidden=7)).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_()  # phrases are likely, with very different probabilities
    symbols = Symbols("abcdefghijklmnopqrstuvwxyz'-0123456789", ("a", "b"))
    return ContextPointer(PhraseEncoder(encoder, symbols, {}), network, {"name": "tiny", "digest": digest(lm)}, {})


BASE = LstmLM(MODULE, VOCABULARY)
POINTER = random_pointer(BASE)


def entities(phrases, table=TABLE, key="*") -> Entities:
    return Entities.from_dict({"utterances": {key: {"phrases": [" ".join(phrase) for phrase in phrases]}}}, words=table)
