"""The JSON document for a rescored lattice: hypotheses, word times, confidences and alternative words."""

from __future__ import annotations

import math
from typing import Any

from ninja.consensus.decode import Consensus, mbr_decode
from ninja.formats.format import WriteSettings, by_name
from ninja.formats.nbest.writing import ListOptions
from ninja.io.losses import ASSUMED_SHIFT, converted
from ninja.lattice import Lattice, Scales
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import EPSILON

MAX_ALTERNATIVES = 10  # maximum number of alternatives of a word
LEAST = 1e-4  # alternatives with smaller posteriors are omitted


def answer(lattice: Lattice, scales: Scales, n: int, *, complete: bool) -> dict[str, Any]:
    """Return the JSON document for a rescored lattice.

    The schema ``Answer`` in ``ninja.serve.openapi`` describes the fields.

    Args:
        lattice: A rescored lattice with a symbol table.
        scales: Scales that define the total cost.
        n: Maximum number of hypotheses.
        complete: Whether the search was complete.

    Raises:
        LatticeError: The lattice has no path.
    """
    settings = WriteSettings(ListOptions(n, scales.acoustic, scales.lm, scales.word_penalty), None)
    nbest, _ = converted(lattice, by_name("json", "write"), settings, with_names=True)
    consensus = mbr_decode(lattice, scales, decode_mbr=False)
    return {
        "key": lattice.key,
        "complete": complete,
        "nbest": [
            _hypothesis(hypothesis, nbest, scales, consensus if number == 0 else None)
            for number, hypothesis in enumerate(nbest.hypotheses)
        ],
        "alternatives": _alternatives(consensus, lattice) if nbest.hypotheses[0].words else [],
    }


def _hypothesis(hypothesis: Hypothesis, nbest: NBest, scales: Scales, consensus: Consensus | None) -> dict[str, Any]:
    words: list[dict[str, Any]] = [{"word": str(word)} for word in hypothesis.words]
    if hypothesis.begin is not None and hypothesis.end is not None:
        shift = nbest.frame_shift or ASSUMED_SHIFT
        for word, begin, end in zip(words, hypothesis.begin, hypothesis.end, strict=True):
            word |= {"start": round(begin * shift, 6), "end": round(end * shift, 6)}
    if consensus is not None and len(consensus.confidences) == len(words):
        for word, confidence in zip(words, consensus.confidences.tolist(), strict=True):
            word["confidence"] = round(confidence, 6)
    graph, acoustic = hypothesis.graph_cost, hypothesis.acoustic_cost
    total = scales.acoustic * acoustic + scales.lm * graph + scales.word_penalty * len(words)
    return {
        "text": " ".join(word["word"] for word in words),
        "score": _score(total),
        "am_score": _score(acoustic),
        "lm_score": _score(graph),
        "words": words,
    }


def _score(cost: float) -> float:
    """Convert a cost to a log-probability; if it is infinite, return ±1e300, because JSON has no infinity."""
    return 0.0 - cost if math.isfinite(cost) else math.copysign(1e300, -cost)


def _alternatives(consensus: Consensus, lattice: Lattice) -> list[list[dict[str, Any]]]:
    """Return the most probable words at the position of each word in the best hypothesis; "" means no word."""
    table = consensus.symbols or lattice.words
    assert table is not None
    places = []
    for number in range(len(consensus.words)):
        begin, end = consensus.bin_begin[2 * number + 1 : 2 * number + 3].tolist()
        entries = zip(consensus.word[begin:end].tolist(), consensus.posterior[begin:end].tolist(), strict=True)
        places.append(
            [
                {"word": "" if word == EPSILON else table.word(word), "confidence": round(posterior, 6)}
                for word, posterior in sorted(entries, key=lambda entry: -entry[1])
                if posterior >= LEAST
            ][:MAX_ALTERNATIVES]
        )
    return places
