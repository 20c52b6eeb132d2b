"""`EndpointPieces`, a language model over a server's tokens, and `ServerTokenizer`, the server's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.endpoint.scores import ScoreCache
from ninja.lm.endpoint.servers import Server, Tokens
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.lexical import Ids
from ninja.lm.protocol import LanguageModel


class EndpointPieces(LanguageModel):
    """A language model over a server's tokens; the server computes the scores.

    A slot stores the tokens of a history, so advancing a history needs no request. `score_trie` sends the fewest tokens
    to the server. The rescoring algorithms ``nbest``, ``cover`` and ``trie`` call it; all other algorithms send a whole
    history again for each word that is added to it.
    """

    scores_tries = True

    def __init__(self, server: Server, cache: ScoreCache) -> None:
        """Wrap a server's model; `cache` contains scores from earlier runs."""
        self.vocabulary = SymbolTable([])
        self.bos: int | None = server.bos
        self.eos = server.eos
        self.unk: int | None = None
        self.longest = server.longest
        self._server = server
        self._cache = cache
        self._history: dict[int, Tokens] = {}  # by slot
        self._references: dict[int, int] = {}
        self._last = -1

    @property
    def normalized(self) -> bool:
        """Whether scores are normalised: always True, because servers return probabilities."""
        return True

    @property
    def num_slots(self) -> int:
        """Number of slots in use."""
        return len(self._history)

    def at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        """Return whether each history consists only of ``<s>``, bool [n]."""
        return np.array([len(self._history[slot]) == 1 for slot in slots.tolist()], np.bool_)

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return self._new([(self._server.bos,)] * count)

    def read(self, pieces: npt.NDArray[np.integer]) -> int:
        """Return the slot of the history that consists of ``<s>`` and the tokens `pieces`."""
        return int(self._new([(self._server.bos, *pieces.tolist())])[0])

    def share(self, slot: int) -> Ids:
        """Return another reference to a slot, int64 [1]; the slot must be released once per reference."""
        self._references[slot] += 1
        return np.array([slot])

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        pairs = zip(slots.tolist(), words.tolist(), strict=True)
        return self._new([(*self._history[slot], word) for slot, word in pairs])

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        for slot in slots.tolist():
            self._references[slot] -= 1
            if not self._references[slot]:
                del self._references[slot], self._history[slot]

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        pairs = zip(slots.tolist(), words.tolist(), strict=True)
        return self._scores([(*self._history[slot], word) for slot, word in pairs])

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`."""
        return self._below((self._server.bos,), parent, word)

    def score_below(
        self, slot: int, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32]:
        """Score the tokens of a trie after a history; see `LanguageModel.score_trie`."""
        return self._below(self._history[slot], parent, word)

    def _below(
        self, history: Tokens, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32]:
        texts: list[Tokens] = []
        for above, token in zip(parent.tolist(), word.tolist(), strict=True):
            texts.append((*(texts[above] if above >= 0 else history), token))
        return self._scores(texts)

    def _scores(self, texts: Sequence[Tokens]) -> npt.NDArray[np.float32]:
        """Return the natural-log probability of each text's last token, from the cache or the server."""
        distinct = list(dict.fromkeys(texts))
        if (longest := max(map(len, distinct), default=0)) > self.longest:
            raise ModelError(
                f"a sentence with its prompt has {longest} tokens, but the server's model accepts at most "
                f"{self.longest}; shorten the prompt, or split the recording"
            )
        score = self._cache.scores(distinct)
        if missing := [text for text in distinct if text not in score]:
            new = self._server.scores(missing)
            self._cache.put_scores(new)
            score |= new
        return np.array([score[text] for text in texts], np.float32)

    def _new(self, histories: Sequence[Tokens]) -> np.ndarray:
        slots = np.arange(self._last + 1, self._last + 1 + len(histories))
        self._last += len(histories)
        self._history.update(zip(slots.tolist(), histories, strict=True))
        self._references.update(dict.fromkeys(slots.tolist(), 1))
        return slots


class ServerTokenizer:
    """A server's tokenizer, with the part of the transformers tokenizer interface that `Spelling` uses."""

    unk_token_id = None  # servers do not report this token, but tokenizers of large models can spell any word

    def __init__(self, server: Server, cache: ScoreCache) -> None:
        """Wrap a server's tokenizer; `cache` contains tokenized texts from earlier runs."""
        self._server = server
        self._cache = cache

    def __call__(self, texts: Sequence[str], *, add_special_tokens: bool) -> dict[str, list[list[int]]]:
        """Tokenize texts without special tokens; return a dict with their token ids under ``input_ids``."""
        assert not add_special_tokens
        tokens = self._cache.tokens(texts)
        if missing := [text for text in dict.fromkeys(texts) if text not in tokens]:
            new = dict(zip(missing, self._server.tokenize(missing), strict=True))
            self._cache.put_tokens(new)
            tokens |= new
        return {"input_ids": [tokens[text] for text in texts]}


class ServedSpelling(Spelling):
    """Spelling of words by a server's tokenizer; the model is assumed to score text with capitals and punctuation."""

    has_written_pieces = True
