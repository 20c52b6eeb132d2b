"""Decode matrices of a CTC model and rescore each with a language model while other callers continue.

The matrices are synthetic, with confusions of letters that sound alike; replace them by the output of a network. There
are three concurrent callers. Run from any folder.
"""

import asyncio

import numpy as np
from synthetic_commands import ALIKE, LETTERS, general_sentence

import ninja

UNITS = ["<blank>", *LETTERS]
OPTIONS = ninja.RescoreOptions(lm_weight=0.7, acoustic_scale=1.0, output="best")
CALLERS, SENTENCES = 3, 5


def ctc_matrix(text, random):
    """Return the output of a CTC model of letters: logits [frames, units], where letters that sound alike compete."""
    logits = random.normal(0, 1, (2 * len(text), len(UNITS)))
    logits[1::2, 0] += 9  # a blank after each letter
    for position, letter in enumerate(text):
        logits[2 * position, UNITS.index(letter)] += 9
        for first, second in ALIKE:
            if letter in first + second:
                logits[2 * position, UNITS.index(second if letter == first else first)] += random.normal(6.5, 2)
    return logits


def model_words(lm, units):
    """Return a lexicon of the words of the language model, to which the search is limited."""
    vocabulary = [word for word, _ in lm.vocabulary if word.isalpha()]
    return ninja.decoding.ctc_lexicon(ninja.decoding.spelled_by_letters(vocabulary), units)


async def conversation(caller, rescorer, units, lexicon, words):
    """Speak sentences; return the key, reference, first-pass words and rescored words of each."""
    random = np.random.default_rng(caller)
    results = []
    for number in range(SENTENCES):
        sentence = general_sentence(random)
        matrix = ctc_matrix(sentence, random)
        await asyncio.sleep(random.uniform(0, 0.02))  # callers speak at different times
        key = f"caller{caller}-{number}"
        lattice = ninja.from_ctc(key, matrix, units, scale="logit", lexicon=lexicon, words=words)
        rescored = await rescorer.rescore(lattice)
        before, after = (
            words.spell(ninja.graph.best_path(result, OPTIONS.scales).words) for result in (lattice, rescored)
        )
        results.append((key, sentence.split(), before, after))
        if before != after:
            print(f"{key}\n  spoken  {sentence}\n  before  {' '.join(before)}\n  after   {' '.join(after)}\n")
    return results


async def main():
    """Print corrected sentences, and word error rates before and after."""
    lm = ninja.lm.load()
    units = ninja.decoding.ctc_units(UNITS, "<blank>", boundary=" ")
    shared = units, model_words(lm, units), ninja.SymbolTable.growing()
    with ninja.Rescorer(lm, OPTIONS) as rescorer:
        conversations = await asyncio.gather(*(conversation(caller, rescorer, *shared) for caller in range(CALLERS)))
    keys, references, before, after = zip(*(result for results in conversations for result in results), strict=True)
    for name, texts in ("before", before), ("after", after):
        rate = ninja.evaluate.score(dict(zip(keys, references, strict=True)), dict(zip(keys, texts, strict=True))).wer
        print(f"word error rate {name:<7} {rate:5.2f}%")


if __name__ == "__main__":
    asyncio.run(main())
