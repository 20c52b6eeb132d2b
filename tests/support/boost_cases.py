"""Utterances with names, for the choice of boosts."""

from __future__ import annotations

import numpy as np

import ninja as package
from ninja.context.entities.lists import Entities
from ninja.graph import from_arcs
from ninja.tune.boosts import DevSet

VOCABULARY = ["call", "tom", "chen", "time", "chin", "tell", "gin", "mary", "now", "in"]
TABLE = package.SymbolTable.from_words(["<eps>", *VOCABULARY])
NAMES = Entities.from_dict({"@name": ["tom chen", "mary chen"]})
CLASS_LM = """\\data\\
ngram 1=14

\\1-grams:
-99	<s>
-1	</s>
-2	<unk>
-1	@name
{words}

\\end\\
""".format(words="\n".join(f"-{1 + number % 3 / 2}\t{word}" for number, word in enumerate(VOCABULARY)))


def lattice(key: str, *sentences: tuple[str, float]):
    """Return a lattice of sentences, each with its graph cost."""
    src, dst, word, graph = [], [], [], []
    states = 1
    for sentence, cost in sentences:
        ids = TABLE.ids(sentence.split())
        src += [0, *range(states, states + len(ids) - 1)]
        dst += list(range(states, states + len(ids)))
        word += ids
        graph += [cost] + [0.0] * (len(ids) - 1)
        states += len(ids)
    ends = np.cumsum([len(sentence.split()) for sentence, _ in sentences])
    return from_arcs(key, src, dst, word, graph, finals={int(end): 0.0 for end in ends}, words=TABLE)


def dev_set(entities, **utterances):
    """Return a development set of utterances by key: the reference, then the sentences of the lattice."""
    lattices = [(key, lattice(key, *sentences)) for key, (_, *sentences) in utterances.items()]
    return DevSet(lattices, {key: reference.split() for key, (reference, *_) in utterances.items()}, entities)


# A boost above 2.5 per word recognises the first name, above 8 the second; above 5.5 it inserts a name that was not
# spoken.
SMALL_BOOST = ("call tom chen", ("call time chin", 0.0), ("call tom chen", 5.0))
LARGE_BOOST = ("tell mary chen", ("tell mary gin", 0.0), ("tell mary chen", 16.0))
FALSE_ALARM = ("in time gin", ("in time gin", 0.0), ("in tom chen", 11.0))
NAMELESS = ("tell time now", ("tell time now", 0.0), ("tell time chin", 3.0))
