"""A tiny Transformer with random weights."""

import pytest

from ninja.lattice.symbols import SymbolTable
from ninja.lm import text
from ninja.lm.protocol import LoadOptions

torch = pytest.importorskip("torch")

from ninja.lm.attention.transformer import TransformerLM  # noqa: E402
from ninja.models.transformer import Config, TransformerLanguageModel  # noqa: E402

WORDS = [*text.SPECIAL, *(f"w{number}" for number in range(37))]


def make_module(seed=0, **sizes):
    torch.manual_seed(seed)
    config = Config(len(WORDS), **{"embedding": 16, "hidden": 24, "layers": 2, "heads": 2, **sizes})
    module = TransformerLanguageModel(config)
    module.initialise()
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(2).add_(torch.randn_like(weight) * 0.1)  # so that each weight affects the scores
    return module.eval()


def make_lm(module=None, **options):
    return TransformerLM(
        module or make_module(), SymbolTable(zip(WORDS, range(len(WORDS)), strict=True)), LoadOptions(**options)
    )
