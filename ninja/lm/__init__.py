"""Language models: the protocol, loading, training.

Importing this package does not import torch; `load` does when the model is a network, and `ninja.lm.train` does.
"""

from ninja.lm.load import load
from ninja.lm.protocol import LanguageModel, sentence_logprobs
from ninja.lm.recipe import Progress, Trained, TrainOptions

__all__ = ["LanguageModel", "Progress", "TrainOptions", "Trained", "load", "sentence_logprobs"]
