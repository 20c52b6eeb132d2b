"""Features of decoded words, used to compute calibrated confidences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.consensus.decode import Consensus, Words, mbr_decode
from ninja.graph.kinds import to_compact
from ninja.graph.lexical import lexical_lattice
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import EPSILON, LARGEST_ID
from ninja.lattice.text import LexicalForms
from ninja.lattice.times import depth_per_frame, is_timed

Doubles = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

DAMPER = 1e-3  # added to probabilities before their logarithm is taken
LARGEST_LOGIT = 30.0
LEAST_ALTERNATIVE = 1e-3  # posterior above which another word of a bin counts as an alternative
# Name of a posterior → factors applied to the acoustic scale and the LM scale. The posteriors of a word differ if the
# acoustic model and the language model disagree.
POSTERIORS = {
    "posterior": (1.0, 1.0),
    "half_lm": (1.0, 0.5),
    "half_acoustic": (0.5, 1.0),
    "half": (0.5, 0.5),
    "quarter": (0.25, 0.25),
}
BIN_POSTERIORS = ("half", "quarter")  # posteriors from whose networks the features `OF_BINS` are computed
OF_BINS = ("competitor", "no_word", "entropy", "alternatives", "insertion")
OF_NEIGHBOURS = ("previous_half", "next_half", "previous_quarter", "next_quarter", "first", "last")
OF_UTTERANCE = ("mean_half", "mean_quarter", "mean_entropy_half", "mean_entropy_quarter")
OF_TIMES = ("depth", "duration", "duration_per_letter", "squared_duration_per_letter")
OF_LM = ("surprise", "previous_surprise", "next_surprise", "unknown")
OF_BOOSTS = ("unboosted", "unboosted_half")
ALWAYS = (
    *POSTERIORS,
    *(f"{name}_{posterior}" for posterior in BIN_POSTERIORS for name in OF_BINS),
    "letters",
    *OF_NEIGHBOURS,
    *OF_UTTERANCE,
)
NAMES = (*ALWAYS, *OF_TIMES, *OF_LM, *OF_BOOSTS)


@dataclass(frozen=True, slots=True)
class Surprise:
    """The scores that a language model assigns to a sentence."""

    logprob: Doubles  # [num_words + 1], natural-log probability of each word and of the end of the sentence
    is_unknown: npt.NDArray[np.bool_]  # [num_words], whether the language model does not know the word


@dataclass(frozen=True, slots=True, eq=False)
class LexicalWords:
    """The lexical words in a decoded word sequence."""

    words: tuple[str, ...]  # words, or decimal ids if the lattice has no symbol table
    written: Int64s  # [num_words], index of the decoded word that each lexical word is part of


@dataclass(frozen=True, slots=True, eq=False)
class WordFeatures:
    """Features of the lexical words in a decoded word sequence."""

    key: str
    lexical: LexicalWords
    posterior: Doubles  # [num_words], posterior of each word
    values: Mapping[str, Doubles]  # name of a feature in `NAMES` → values, [num_words]

    def table(self, names: Sequence[str]) -> Doubles:
        """Return the named features, float64 [num_words, num_names]."""
        columns = [self.values[name] for name in names]
        return np.array(columns, np.float64).reshape(len(names), len(self.lexical.words)).T

    def with_values(self, values: Mapping[str, Doubles]) -> WordFeatures:
        """Return a copy with additional features."""
        return WordFeatures(self.key, self.lexical, self.posterior, {**self.values, **values})


def lexical_words(lattice: Lattice, words: Words, forms: LexicalForms | None = None) -> LexicalWords:
    """Convert the ids of a decoded word sequence to lexical words, and skip ids of 0 (no word).

    Raises:
        SymbolError: An id is not in the lattice's symbol table.
    """
    places = [place for place, number in enumerate(words) if number != EPSILON]
    ids = [int(words[place]) for place in places]
    spelled = list(map(str, ids)) if lattice.words is None else lattice.words.spell(ids)
    table = None if forms is None else forms.table(lattice)
    if table is None:
        return LexicalWords(tuple(spelled), np.array(places, np.int64))
    parts = [table.form(number) for number in ids]
    written = np.repeat(np.array(places, np.int64), [len(part) for part in parts])
    return LexicalWords(tuple(table.lexical.spell(part for form in parts for part in form)), written)


def word_features(
    lattices: Batch,
    words: Sequence[LexicalWords],
    scales: Scales = Scales(),
    *,
    forms: LexicalForms | None = None,
    only_posteriors: bool = False,
) -> list[WordFeatures]:
    """Compute features of word sequences from lattices.

    Posteriors are computed with ``mbr_decode`` at `scales` and at smaller scales, with the words as hypothesis.
    Other features describe the confusion network bins, lengths, times and neighbours of the words. Each word also has
    the utterance-level means of some posteriors and bin entropies. Probabilities are given as logits or
    logarithms.

    Args:
        lattices: The lattices.
        words: Lexical words for each lattice, such as the words decoded from the lattice.
        scales: Scales that define the total cost.
        forms: Lexical forms for comparing words.
        only_posteriors: Compute only the posteriors at `scales`; `values` in the result is empty.

    Returns:
        The features of each word sequence. Features that depend on word times are missing if the lattice has no times.

    Raises:
        LatticeError: No path leads from the start to a final state, or state times are inconsistent.
        SymbolError: With `forms`, a word id is not in a symbol table.

    Source: Kaldi, egs/wsj/s5/steps/conf/prepare_calibration_data.py, for the posterior, lengths, depth and durations;
        Wessel, Schlüter, Macherey and Ney, 2001, "Confidence measures for large vocabulary continuous speech
        recognition", for posteriors at smaller scales.
    """
    compact = list(to_compact(lattices))
    if forms is not None:
        tables = [forms.table(lattice) for lattice in compact]
        compact = [
            lattice if table is None else lexical_lattice(lattice, table).lattice
            for lattice, table in zip(compact, tables, strict=True)
        ]
    ids = [_ids(sequence.words, lattice) for sequence, lattice in zip(words, compact, strict=True)]
    batch = Batch.of(compact)
    if only_posteriors:
        return [
            WordFeatures(lattice.key, sequence, _Bins.of(network, numbers).posteriors(), {})
            for lattice, sequence, numbers, network in zip(
                compact, words, ids, mbr_decode(batch, scales, decode_mbr=False, hypothesis=ids), strict=True
            )
        ]
    networks: dict[str, list[Consensus]] = {}
    for name, (acoustic, lm) in POSTERIORS.items():
        smaller = Scales(scales.acoustic * acoustic, scales.lm * lm, scales.word_penalty * lm)
        networks[name] = mbr_decode(batch, smaller, decode_mbr=False, hypothesis=ids)
    return [
        _features(lattice, words[index], ids[index], {name: column[index] for name, column in networks.items()})
        for index, lattice in enumerate(compact)
    ]


def _ids(words: Sequence[str], lattice: Lattice) -> npt.NDArray[np.int32]:
    """Return the ids of words in a lattice; words missing from its symbol table get an id that no arc has."""
    ids = list(map(int, words)) if lattice.words is None else lattice.words.ids(words)
    return np.array([LARGEST_ID if number < 0 else number for number in ids], np.int32)


def surprise_features(surprise: Surprise) -> dict[str, Doubles]:
    """Return the features of the words in a scored sentence, by name."""
    cost = -surprise.logprob
    return {
        "surprise": cost[:-1],
        "previous_surprise": np.concatenate(([0.0], cost[:-2])) if len(cost) > 1 else cost[:-1],
        "next_surprise": cost[1:],
        "unknown": surprise.is_unknown.astype(np.float64),
    }


def unboosted_features(unboosted: WordFeatures) -> dict[str, Doubles]:
    """Return the features in `OF_BOOSTS` by name: the words' posteriors in the lattice without boosts."""
    return {"unboosted": unboosted.values["posterior"], "unboosted_half": unboosted.values["half"]}


def logit(probability: Doubles) -> Doubles:
    """Convert probabilities to log-odds, smoothed so that the log-odds of 0 and 1 are finite."""
    odds: Doubles = np.log(probability + DAMPER) - np.log(1.0 - probability + DAMPER)
    return odds


def sigmoid(logits: Doubles) -> Doubles:
    """Convert log-odds to probabilities; log-odds are clipped so that probabilities are neither 0 nor 1."""
    probability: Doubles = 1.0 / (1.0 + np.exp(-np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)))
    return probability


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """The bins of a confusion network: one for each word, and one before, between and after the words."""

    network: Consensus
    ids: npt.NDArray[np.int32]
    bin: Int64s  # [num_entries]
    posterior: Doubles  # [num_entries]

    @classmethod
    def of(cls, network: Consensus, ids: npt.NDArray[np.int32]) -> _Bins:
        sizes = np.diff(network.bin_begin)
        assert len(sizes) == 2 * len(ids) + 1, "the network has a bin for each word, and bins between them"
        posterior = np.clip(network.posterior.astype(np.float64), 0.0, 1.0)
        return cls(network, ids, np.repeat(np.arange(len(sizes)), sizes), posterior)

    def sums(self, selected: npt.NDArray[np.bool_]) -> Doubles:
        """Return the sum of the posteriors of the selected entries in each bin, at most 1; float64 [num_bins]."""
        sums = np.bincount(self.bin[selected], self.posterior[selected], 2 * len(self.ids) + 1)
        return np.minimum(sums, 1.0)

    @property
    def is_decoded(self) -> npt.NDArray[np.bool_]:
        """Whether each entry of the confusion network is the decoded word of its bin, bool [num_entries]."""
        decoded = np.full(2 * len(self.ids) + 1, -1, np.int32)
        decoded[1::2] = self.ids
        mask: npt.NDArray[np.bool_] = self.network.word == decoded[self.bin]
        return mask

    def posteriors(self) -> Doubles:
        """Return the posterior of each decoded word."""
        return self.sums(self.is_decoded)[1::2]

    def descriptions(self) -> dict[str, Doubles]:
        """Return the features in `OF_BINS` by name, each float64 [num_words]; they describe the bins of the words."""
        is_word = self.network.word != EPSILON
        is_other = is_word & ~self.is_decoded
        competitor = np.zeros(2 * len(self.ids) + 1)
        np.maximum.at(competitor, self.bin[is_other], self.posterior[is_other])
        terms = np.where(self.posterior > 0.0, self.posterior, 1.0)
        entropy = np.bincount(self.bin, -terms * np.log(terms), 2 * len(self.ids) + 1)
        is_alternative = is_other & (self.posterior > LEAST_ALTERNATIVE)
        alternatives = np.bincount(self.bin[is_alternative], minlength=2 * len(self.ids) + 1)
        words = self.sums(is_word)
        return {
            "competitor": np.log(competitor[1::2] + DAMPER),
            "no_word": np.log(self.sums(~is_word)[1::2] + DAMPER),
            "entropy": entropy[1::2],
            "alternatives": np.log1p(alternatives[1::2]),
            "insertion": np.log(words[:-1:2] + words[2::2] + DAMPER),
        }


def _features(
    lattice: Lattice, words: LexicalWords, ids: npt.NDArray[np.int32], networks: Mapping[str, Consensus]
) -> WordFeatures:
    bins = {name: _Bins.of(network, ids) for name, network in networks.items()}
    posterior = bins["posterior"].posteriors()
    values = {name: logit(part.posteriors()) for name, part in bins.items()}
    for name in BIN_POSTERIORS:
        values |= {f"{feature}_{name}": column for feature, column in bins[name].descriptions().items()}
    letters = np.array([max(len(word), 1) for word in words.words], np.float64)
    values["letters"] = np.log(letters)
    for name in BIN_POSTERIORS:  # at the ends, a missing neighbour is replaced by the word itself
        padded = np.pad(values[name], 1, mode="edge") if len(ids) else np.zeros(2)
        values |= {f"previous_{name}": padded[:-2], f"next_{name}": padded[2:]}
    place = np.arange(len(ids))
    values |= {"first": (place == 0).astype(np.float64), "last": (place == len(ids) - 1).astype(np.float64)}
    for name in OF_UTTERANCE:
        of_words = values[name.removeprefix("mean_")]
        values[name] = np.full(len(ids), of_words.mean() if len(ids) else 0.0)
    if is_timed(lattice):
        values |= _times(lattice, networks["posterior"], letters)
    return WordFeatures(lattice.key, words, posterior, values)


def _times(lattice: Lattice, network: Consensus, letters: Doubles) -> dict[str, Doubles]:
    """Return the features in `OF_TIMES` by name, each float64 [num_words].

    Args:
        lattice: Lattice whose depth is averaged over the frames of each word.
        network: Network with the times of the words' bins.
        letters: Number of letters of each word, at least 1.
    """
    begin, end = (column[1::2].astype(np.float64) for column in network.bin_times.T)
    depth = depth_per_frame(lattice).astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(depth)))
    first = np.clip(np.rint(begin).astype(np.int64), 0, max(len(depth) - 1, 0))
    last = np.clip(np.rint(end).astype(np.int64), first + 1, max(len(depth), 1))
    crossings = total[np.minimum(last, len(depth))] - total[first]
    duration = np.log(np.maximum(end - begin, 1.0))
    per_letter = duration - np.log(letters)
    return {
        "depth": np.log(np.maximum(crossings / (last - first), 1.0)),
        "duration": duration,
        "duration_per_letter": per_letter,
        "squared_duration_per_letter": per_letter**2,
    }
