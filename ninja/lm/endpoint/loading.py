"""Open the model behind a completions endpoint as a language model."""

from __future__ import annotations

from ninja.lm.endpoint.client import Client
from ninja.lm.endpoint.options import EndpointOptions
from ninja.lm.endpoint.pieces import EndpointPieces, ServedSpelling, ServerTokenizer
from ninja.lm.endpoint.scores import ScoreCache
from ninja.lm.endpoint.servers import open_server
from ninja.lm.huggingface.causal import CausalLM
from ninja.lm.protocol import LanguageModel, LoadOptions


def open_endpoint(url: str, options: LoadOptions) -> LanguageModel:
    """Open a server's model as a language model.

    Args:
        url: URL that ends in ``/v1/completions`` (vLLM, and servers that score prompts) or ``/completion`` (llama.cpp).
        options: Load options; limits and the name of the model are in ``options.endpoint``.

    Raises:
        EndpointError: The server does not answer as expected.
        OptionError: The URL or an option is invalid.
        ModelError: The cache cannot be used.
    """
    endpoint = options.endpoint or EndpointOptions()
    server = open_server(Client(url, endpoint), endpoint)
    cache = ScoreCache(endpoint.cache, f"{url} {server.model} {server.bos} {server.eos}")
    tokenizer = ServerTokenizer(server, cache)
    spelling = ServedSpelling(
        tokenizer, server.bos, server.eos, server.num_pieces, options.text_transform, options.multi_char, url
    )
    return CausalLM(EndpointPieces(server, cache), spelling)
