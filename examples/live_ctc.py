"""Matrices of a CTC model as they come, and the words of each, corrected by a language model while others come.

The matrices are made here, of letters that sound alike; in their place stands the output of a network. Three callers
hold a conversation each. Run from anywhere.
"""

import asyncio

import numpy as np
from synthetic_commands import ALIKE, LETTERS, general_sentence

import ninja

UNITS = ["<blank>", *LETTERS]
OPTIONS = ninja.RescoreOptions(lm_weight=0.7, acoustic_scale=1.0, output="best")
CALLERS, SENTENCES = 3, 5


def ctc_matrix(text, random):
    """Return what a CTC model of letters hears: logits [frames, units], where letters that sound alike compete."""
    logits = random.normal(0, 1, (2 * len(text), len(UNITS)))
    logits[1::2, 0] += 9  # a blank after each letter
    for at, letter in enumerate(text):
        logits[2 * at, UNITS.index(letter)] += 9
        for one, other in ALIKE:
            if letter in one + other:
                logits[2 * at, UNITS.index(other if letter == one else one)] += random.normal(6.5, 2)
    return logits


def model_words(lm, units):
    """Return the lexicon of the words that the language model knows, so that the search finds no others."""
    known = [word for word, _ in lm.vocabulary if word.isalpha()]
    return ninja.decoding.ctc_lexicon(ninja.decoding.spelled_by_letters(known), units)


async def conversation(caller, rescorer, units, lexicon, words):
    """Say sentences; return each with what was heard at first and what the language model makes of it."""
    random = np.random.default_rng(caller)
    found = []
    for number in range(SENTENCES):
        said = general_sentence(random)
        matrix = ctc_matrix(said, random)
        await asyncio.sleep(random.uniform(0, 0.02))  # it comes when it comes
        key = f"caller{caller}-{number}"
        lattice = ninja.from_ctc(key, matrix, units, scale="logit", lexicon=lexicon, words=words)
        rescored = await rescorer.rescore(lattice)
        heard, better = (words.spell(ninja.graph.best_path(each, OPTIONS.scales).words) for each in (lattice, rescored))
        found.append((key, said.split(), heard, better))
        if heard != better:
            print(f"{key}\n  said    {said}\n  heard   {' '.join(heard)}\n  better  {' '.join(better)}\n")
    return found


async def main():
    """Print what was corrected, and word error rates before and after."""
    lm = ninja.lm.load()
    units = ninja.decoding.ctc_units(UNITS, "<blank>", boundary=" ")
    shared = units, model_words(lm, units), ninja.SymbolTable.growing()
    with ninja.Rescorer(lm, OPTIONS) as rescorer:
        conversations = await asyncio.gather(*(conversation(caller, rescorer, *shared) for caller in range(CALLERS)))
    every = [each for found in conversations for each in found]
    references = {key: said for key, said, _, _ in every}
    for name, at in ("before", 2), ("after", 3):
        rate = ninja.evaluate.score(references, {each[0]: each[at] for each in every}).wer
        print(f"word error rate {name:<7} {rate:5.2f} %")


if __name__ == "__main__":
    asyncio.run(main())
