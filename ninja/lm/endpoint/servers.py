"""Requests to and responses from completions endpoints: vLLM, servers with the same interface, and llama.cpp.

    POST /v1/completions   scores all tokens of the prompts ("prompt_logprobs", or "echo" with "logprobs")
    POST /completion       llama.cpp; scores every token of the vocabulary after one prompt ("n_probs")
    POST /tokenize         splits a text into tokens

Source: vLLM, vllm/entrypoints/openai/completion/protocol.py and serving.py, serve/tokenize/protocol.py; llama.cpp,
tools/server/README.md. llama.cpp's /v1/completions scores only generated tokens (llama.cpp issue 27174).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ninja.errors import OptionError
from ninja.lm.endpoint.client import Client
from ninja.lm.endpoint.options import EndpointOptions

Tokens = tuple[int, ...]

COMPLETIONS, LLAMA = "/v1/completions", "/completion"
ZERO = -9999.0  # servers send this or less for probability zero, because JSON has no infinity
SUM_TOLERANCE = 0.01  # maximum difference of ln Σ P over the vocabulary from 0
CARRIER = "a"  # a text to which the server adds special tokens
UNLIMITED = 2**31


class Server(ABC):
    """A server with a completions endpoint, and the language model that it runs."""

    path: ClassVar[str]  # end of the path of the URL
    model: str  # name of the model
    longest = UNLIMITED  # maximum number of tokens per text, including the beginning-of-text token
    num_pieces = UNLIMITED  # size of the vocabulary
    bos: int  # id of the beginning-of-text token
    eos: int  # id of the end-of-text token

    def __init__(self, client: Client, options: EndpointOptions) -> None:
        """Request the model and the special tokens from the server.

        Raises:
            EndpointError: The server does not answer as expected.
            OptionError: The model or a special token is unknown to the server, or must be specified but is not.
        """
        self._client = client
        self._options = options
        self._root = client.path.removesuffix(self.path)
        names = self._describe()
        eos = options.eos or names.get("eos_token")
        if not eos:
            raise OptionError(
                "the server does not report the end-of-text token; set endpoint_eos, for example to </s>",
                client.url,
            )
        self.eos = self._special(eos, "endpoint_eos")
        plain, marked = self._tokenize(CARRIER), self._tokenize(CARRIER, special=True)
        if options.bos:
            self.bos = self._special(options.bos, "endpoint_bos")
        elif len(marked) > len(plain) and marked[: len(plain)] != plain:
            self.bos = marked[0]
        else:
            self.bos = self._special(names["bos_token"], "endpoint_bos") if names.get("bos_token") else self.eos

    @abstractmethod
    def _describe(self) -> dict[str, Any]:
        """Set the model's properties; return a dict with ``bos_token`` and ``eos_token`` if the server reports them."""

    @abstractmethod
    def scores(self, sequences: Sequence[Tokens]) -> dict[Tokens, float]:
        """Compute the log-probability of the last token of each sequence, given the preceding tokens.

        Args:
            sequences: Distinct token sequences that begin with `bos` and have at least two tokens.

        Returns:
            Natural-log probabilities of `sequences`, and possibly of their prefixes; −inf for probability zero.

        Raises:
            EndpointError: The server does not return the probabilities, or a limit is reached.
        """

    @abstractmethod
    def _tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Return the token ids of a text; if `special` is true, the server adds special tokens."""

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without special tokens."""
        return self._client.map([partial(self._tokenize, text) for text in texts])

    def _special(self, text: str, option: str) -> int:
        """Return the id of a special token."""
        tokens = self._tokenize(text)
        if len(tokens) != 1:
            raise OptionError(f"{option} is {text!r}, which consists of {len(tokens)} tokens, but must be one token")
        return tokens[0]

    def _models(self) -> dict[str, Any]:
        """Select the model that the options specify, and return the server's description of it."""
        models = self._client.send(f"{self._root}/v1/models", None, lambda answer: _by_id(answer["data"]))
        name = self._options.model
        if name is None and len(models) == 1:
            (name,) = models
        if name is None or name not in models:
            problem = "the server has several models" if name is None else f"the server has no model {name!r}"
            raise OptionError(f"{problem}; set endpoint_model to one of {', '.join(models)}", self._client.url)
        self.model = name
        return models[name]


class Vllm(Server):
    """A server that scores the tokens of prompts, such as vLLM."""

    path = COMPLETIONS

    def _describe(self) -> dict[str, Any]:
        self.longest = _length(self._models().get("max_model_len")) - 1  # the server always generates one token
        return {}

    def _tokenize(self, text: str, *, special: bool = False) -> list[int]:
        body = {"model": self.model, "prompt": text, "add_special_tokens": special}
        return self._client.send(f"{self._root}/tokenize", body, _tokens)

    def scores(self, sequences: Sequence[Tokens]) -> dict[Tokens, float]:
        """See `Server.scores`; a sequence that is a prefix of another needs no separate request."""
        ordered = sorted(sequences)
        following: list[Tokens] = [*ordered[1:], ()]
        whole = [text for text, after in zip(ordered, following, strict=True) if after[: len(text)] != text]
        size = self._options.batch
        batches = [whole[first : first + size] for first in range(0, len(whole), size)]
        score: dict[Tokens, float] = {}
        for batch, answers in zip(batches, self._client.map([partial(self._batch, b) for b in batches]), strict=True):
            for text, values in zip(batch, answers, strict=True):
                for end in range(len(text), 1, -1):
                    score.setdefault(text[:end], values[end - 2])
        return score

    def _batch(self, texts: list[Tokens]) -> list[list[float]]:
        body = {
            "model": self.model,
            "prompt": texts,
            "max_tokens": 1,
            "temperature": 0,
            "prompt_logprobs": 0,  # only the tokens of the prompt, without alternatives
            "echo": True,  # for servers without prompt_logprobs
            "logprobs": 0,
        }
        return self._client.send(self._client.path, body, partial(_scores_of, texts), sum(map(len, texts)))


class LlamaCpp(Server):
    """A llama.cpp server, which scores the whole vocabulary after a prompt."""

    path = LLAMA

    def _describe(self) -> dict[str, Any]:
        meta = self._models().get("meta")
        size = meta.get("n_vocab") if isinstance(meta, dict) else None
        if type(size) is not int or size < 1:
            raise self._client.error(
                "the response does not contain the vocabulary size (meta.n_vocab); load the model, or update llama.cpp",
                f"{self._root}/v1/models",
            )
        self.num_pieces = size
        properties = self._client.send(f"{self._root}/props", None, dict)
        settings = properties.get("default_generation_settings")
        self.longest = _length(settings.get("n_ctx") if isinstance(settings, dict) else None) - 1
        return properties

    def _tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return self._client.send(f"{self._root}/tokenize", {"content": text, "add_special": special}, _tokens)

    def scores(self, sequences: Sequence[Tokens]) -> dict[Tokens, float]:
        """See `Server.scores`; sends one request per history."""
        following: dict[Tokens, list[int]] = defaultdict(list)
        for text in sequences:
            following[text[:-1]].append(text[-1])
        answers = self._client.map([partial(self._after, *item) for item in following.items()])
        return {
            (*history, token): value
            for (history, tokens), values in zip(following.items(), answers, strict=True)
            for token, value in zip(tokens, values, strict=True)
        }

    def _after(self, history: Tokens, tokens: list[int]) -> list[float]:
        body = {
            "prompt": history,
            "n_predict": 1,
            "n_probs": self.num_pieces,
            "temperature": -1,  # return probabilities of the model, not of the sampler
            "post_sampling_probs": False,
            "cache_prompt": True,
        }
        read = partial(_next_scores, history, tokens, self.num_pieces)
        return self._client.send(self._client.path, body, read, len(history))


def open_server(client: Client, options: EndpointOptions) -> Server:
    """Return a `Vllm` or a `LlamaCpp` server, depending on the path of the URL."""
    for kind in (Vllm, LlamaCpp):
        if client.path.endswith(kind.path):
            return kind(client, options)
    raise OptionError(
        f"the path of the URL must end in {COMPLETIONS} (vLLM and other servers that score prompts) or {LLAMA} "
        "(llama.cpp)",
        client.url,
    )


def _by_id(models: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(model["id"]): model for model in models}


def _length(value: Any) -> int:
    return value if type(value) is int and value > 0 else UNLIMITED


def _tokens(answer: Any) -> list[int]:
    tokens = answer["tokens"]
    if not all(type(token) is int and 0 <= token < 2**31 for token in tokens):
        raise ValueError("the field 'tokens' contains values that are not token ids")
    if answer.get("count", len(tokens)) != len(tokens):
        raise ValueError(f"the response contains {len(tokens)} tokens, but its field 'count' is {answer['count']}")
    return list(tokens)


def _scores_of(texts: list[Tokens], answer: Any) -> list[list[float]]:
    """Return the scores of each text's tokens, except the first, from a /v1/completions response."""
    choices = sorted(answer["choices"], key=lambda choice: choice["index"])
    if [choice["index"] for choice in choices] != list(range(len(texts))):
        raise ValueError(f"the server returned {len(choices)} choices for {len(texts)} texts")
    used, sent = (answer.get("usage") or {}).get("prompt_tokens"), sum(map(len, texts))
    if used is not None and used != sent:
        raise ValueError(f"the request has {sent} tokens, but the server read {used}")
    return [_prompt_scores(text, choice) for text, choice in zip(texts, choices, strict=True)]


def _prompt_scores(text: Tokens, choice: dict[str, Any]) -> list[float]:
    if (scores := choice.get("prompt_logprobs")) is not None:
        if len(scores) != len(text):
            raise ValueError(f"the server returned {len(scores)} prompt_logprobs for {len(text)} tokens")
        return [_logprob(score[str(token)]["logprob"]) for token, score in zip(text[1:], scores[1:], strict=True)]
    scores = (choice.get("logprobs") or {}).get("token_logprobs", ())
    # A server that generates a token also returns its score.
    if len(scores) not in (len(text), len(text) + 1) or scores[0] is not None:
        raise ValueError(
            f"the server returned {len(scores)} log-probabilities for {len(text)} tokens; it does not score prompts "
            f"(with llama.cpp, use a URL that ends in {LLAMA})"
        )
    return [_logprob(score) for score in scores[1 : len(text)]]


def _next_scores(history: Tokens, tokens: list[int], num_pieces: int, answer: Any) -> list[float]:
    """Return the scores of tokens from a llama.cpp /completion response."""
    if answer.get("truncated"):
        raise ValueError("the server truncated the prompt")
    if answer.get("tokens_evaluated", len(history)) != len(history):
        raise ValueError(f"the request has {len(history)} tokens, but the server read {answer['tokens_evaluated']}")
    candidates = answer["completion_probabilities"][0]["top_logprobs"]
    score = {candidate["id"]: _logprob(candidate["logprob"]) for candidate in candidates}
    if len(score) != num_pieces:
        raise ValueError(f"the server returned {len(score)} log-probabilities for a vocabulary of {num_pieces} tokens")
    total = float(np.logaddexp.reduce(np.array([*score.values()])))
    if abs(total) > SUM_TOLERANCE:
        raise ValueError(f"the probabilities of the vocabulary sum to {math.exp(min(total, 700)):.4g}, not 1")
    return [score[token] for token in tokens]


def _logprob(value: Any) -> float:
    """Check that a value is a log-probability and return it; −inf for probability zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= SUM_TOLERANCE:
        raise ValueError(f"{value!r} is not a log-probability")
    return -math.inf if value <= ZERO else float(value)
