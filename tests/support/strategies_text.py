"""Helpers for tests of text lattices: small files, sentences of lattices, lattices for hypothesis."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace

import numpy as np
import pytest
import reference_slf as slow
from hypothesis import strategies as st
from reference_graph import SHARED, costs_of, paths, words_of

from ninja.formats.slf import read_slf
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

FILES = SHARED / "data" / "formats"
# Skipped on machines without the files; in CI, the skip is a failure (conftest.py).
needs_files = pytest.mark.skipif(not FILES.is_dir(), reason="the real files are not part of the project")
# Skipped on machines without OpenFst's programs (libfst-tools); `make test` installs them if possible, and in CI the
# skip is a failure (conftest.py).
needs_openfst = pytest.mark.skipif(shutil.which("fstprint") is None, reason="OpenFst's programs are not installed")

SMALL = b"""VERSION=1.0
UTTERANCE=utt
lmscale=12 wdpenalty=-1.5
N=4 L=4
I=0 t=0.00
I=1 t=0.10
I=2 t=0.11
I=3 t=0.30
J=0 S=0 E=1 W=one a=-10 l=-1
J=1 S=0 E=2 W=two a=-11 l=-2
J=2 S=1 E=3 W=!NULL a=-5 l=-0.5
J=3 S=2 E=3 W=four a=-6 l=-0.25
"""
SUBLATTICES = b"""VERSION=1.0
base=10
SUBLAT=digit
N=4 L=4
I=0 W=!NULL
I=1 W=one
I=2 W=two
I=3 W=!NULL
J=0 S=0 E=1 l=-0.5
J=1 S=0 E=2 l=-1.5
J=2 S=1 E=3
J=3 S=2 E=3
.

N=4 L=3
I=0 W=<s>
I=1 L=digit
I=2 L=digit
I=3 W=</s>
J=0 S=0 E=1 a=-1
J=1 S=1 E=2 a=-2
J=2 S=2 E=3 a=-3
"""
SPHINX = b"""# getcwd: /somewhere
# -logbase 1.000100e+00
#
Frames 30
#
Nodes 5 (NODEID WORD STARTFRAME FIRST-ENDFRAME LAST-ENDFRAME)
0 </s> 20 29 29 ; 0
1 to(2) 10 19 19 ; 0
2 two 11 19 19 ; 0
3 [NOISE] 5 9 10 ; 0
4 <s> 0 4 4 ; 0
#
Initial 4
Final 0
#
BestSegAscr 0 (NODEID ENDFRAME ASCORE)
#
Edges (FROM-NODEID TO-NODEID ASCORE)
4 3 -10000
3 1 -20000
3 2 -30000
1 0 -40000
2 0 -50000
End
"""
PFSG = b"""name utt1
nodes 5 NULL a b c NULL
initial 0
final 4
transitions 5
0 1 -10000
0 2 -20000
1 3 -30000
2 3 0
3 4 -5000

"""
PLF = b"((('a', -1.5, 1),('b', -0.5, 2),),(('c', -2, 1),),(('d', 0, 1),),)\n"


def read_unpacked(name):
    content = (FILES / name).read_bytes()
    return gzip.decompress(content) if name.endswith(".gz") else content


def sentences(lattice):
    """Return the words and the costs of every path."""
    return sorted(
        (" ".join(lattice.words.spell(words_of(lattice, path))), *costs_of(lattice, path)) for path in paths(lattice)
    )


def with_one_cost(lattice, acoustic_scale=1.0):
    """Return a lattice whose graph costs are the total costs, and whose acoustic costs are 0."""
    return replace(
        lattice,
        graph=lattice.graph + acoustic_scale * lattice.acoustic,
        acoustic=np.zeros_like(lattice.acoustic),
        final_graph=lattice.final_graph + acoustic_scale * lattice.final_acoustic,
        final_acoustic=np.where(lattice.is_final, 0, np.inf).astype(np.float32),
    )


def check_against_reference(content, **options):
    graph = slow.read_slf(content, **options)
    lattice = read_slf(content, "k")
    check(lattice)
    np.testing.assert_allclose(slow.lattice_fingerprint(lattice), slow.fingerprint(graph), rtol=1e-5)
    return graph, lattice


def accepts(lattice, sentence):
    """Return whether a lattice has a path with these words."""
    leaving = [[] for _ in range(lattice.num_states)]
    for src, dst, word in zip(lattice.src.tolist(), lattice.dst.tolist(), lattice.word.tolist(), strict=True):
        leaving[src].append((dst, word))

    def close_epsilons(states):
        waiting = list(states)
        while waiting:
            for dst, word in leaving[waiting.pop()]:
                if word == 0 and dst not in states:
                    states.add(dst)
                    waiting.append(dst)
        return states

    states = close_epsilons({0})
    for word in sentence:
        word_id = lattice.words.id(word)
        states = close_epsilons({dst for state in states for dst, label in leaving[state] if label == word_id})
    return any(lattice.is_final[state] for state in states)


def lattice_of(arcs, finals, names=("<eps>", "a", "b", "c"), times=None):
    """Create a lattice from (source, destination, word, graph, acoustic) arcs and {state: (graph, acoustic)} finals."""
    num_states = 1 + max([0, *finals, *(arc[1] for arc in arcs)])
    begin = np.searchsorted([arc[0] for arc in arcs], range(num_states + 1))
    columns = list(zip(*arcs, strict=True)) or [()] * 5
    final = [[finals.get(state, (np.inf, np.inf))[column] for state in range(num_states)] for column in range(2)]
    return Lattice.from_arrays("k", begin, *columns[1:], *final, time=times, words=SymbolTable.from_words(names))


@st.composite
def any_lattices(draw, unit=1.0):
    num_states = draw(st.integers(1, 6))
    cost = st.integers(-300, 300).map(lambda number: number * unit)
    arcs = [(0, 1, draw(st.integers(0, 3)), 0.0, draw(cost))] if num_states > 1 else []
    for state in range(1, num_states - 1):
        arcs.append((state, state + 1, draw(st.integers(0, 3)), draw(cost), draw(cost)))
        for _ in range(draw(st.integers(0, 2))):
            arcs.append(
                (state, draw(st.integers(state + 1, num_states - 1)), draw(st.integers(0, 3)), draw(cost), draw(cost))
            )
    finals = {state: (draw(cost), draw(cost)) for state in draw(st.sets(st.integers(0, num_states - 1)))}
    finals.setdefault(num_states - 1, (0.0, 0.0))
    return lattice_of(arcs, finals)
