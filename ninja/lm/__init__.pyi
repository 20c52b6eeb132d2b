"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .endpoint.options import EndpointOptions as EndpointOptions
from .huggingface.loading import wrap as wrap
from .imported.torch_module import from_module as from_module
from .load import load as load
from .mixture import Mixture as Mixture
from .ngram.compose import compose_ngram as compose_ngram
from .ngram.kneser_ney import NgramOptions as NgramOptions, TrainedNgram as TrainedNgram, train_ngram as train_ngram
from .protocol import LanguageModel as LanguageModel
from .trie import sentence_logprobs as sentence_logprobs
from .word_map import Coverage as Coverage, WordMap as WordMap
