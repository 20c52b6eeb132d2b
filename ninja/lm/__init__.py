"""Language models: the protocol, loading, training.

Importing this package does not import torch; `load` does when the model is a network, and `ninja.lm.train.loop` does.
"""

from typing import TYPE_CHECKING, Any

from ninja.libraries import needed_for
from ninja.lm.load import load
from ninja.lm.mixture import Mixture
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.ngram.kneser_ney import NgramOptions, TrainedNgram, train_ngram
from ninja.lm.protocol import LanguageModel
from ninja.lm.train.recipe import Progress, Trained, TrainOptions
from ninja.lm.trie import sentence_logprobs

if TYPE_CHECKING:
    from ninja.lm.huggingface.loading import wrap
    from ninja.lm.imported.torch_module import from_module

__all__ = [
    "LanguageModel",
    "Mixture",
    "NgramOptions",
    "Progress",
    "TrainOptions",
    "Trained",
    "TrainedNgram",
    "compose_ngram",
    "from_module",
    "load",
    "sentence_logprobs",
    "train_ngram",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Import names that need torch when they are first used."""
    if name == "from_module":
        with needed_for("a network"):
            from ninja.lm.imported.torch_module import from_module

        return from_module
    if name == "wrap":
        with needed_for("a network"):
            from ninja.lm.huggingface.loading import wrap

        return wrap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
