"""Write the seed corpora: small lattices of tests/data in every format, and files by hand where we only read.

python fuzz/seeds.py FOLDER
"""

import gzip
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "english"
OPTIONS = (0, 5, 22, 0x8B, 255)  # the last byte of an input says how it is read
FST_MAGIC, SYMBOL_MAGIC = 2125659606, 2125658996

SLF = """VERSION=1.0
UTTERANCE=utt
base=2.718
lmscale=1 wdpenalty=0
N=4 L=4
I=0 t=0.00 W=!NULL
I=1 t=0.25 W="a b" v=1
I=2 t=0.25 W=\\303\\251
I=3 t=0.5 W=</s>
J=0 S=0 E=1 a=-10.5 l=-2
J=1 S=0 E=2 a=-11 l=-1.5 n=-1,-2
J=2 S=1 E=3 a=-1 l=0
J=3 S=2 E=3 a=-1 l=-inf
"""
SUBLATTICES = """SUBLAT=one
N=2 L=1
I=0 W=x
I=1 W=y
J=0 S=0 E=1
.
N=3 L=2 base=0
I=0 W=!NULL
I=1 L=one
I=2 W=!NULL
J=0 S=0 E=1 l=0.5
J=1 S=1 E=2 l=0.25
.
"""
NODE_COSTS = """VERSION=1.0
base=10
N=4 L=4
I=0 t=0.00 W=!NULL a=0 l=0
I=1 t=0.25 W=one v=1 a=-10 l=-2
I=2 t=0.25 W=two a=-11 l=-1.5
I=3 t=0.5 W=!NULL a=-1 l=0
J=0 S=0 E=1
J=1 S=0 E=2
J=2 S=1 E=3
J=3 S=2 E=3
"""
LINK_WORDS = """N=4 L=5
start=0 end=3
I=0 t=0.00
I=1 t=0.25
I=2 t=0.25
I=3 t=0.5
J=0 S=0 E=1 W=one a=-10 l=-2 n=-1,-2
J=1 S=0 E=2 W=!NULL a=-11
J=2 S=1 E=3 W=!NULL
J=3 S=2 E=3 W=two l=-1
J=4 S=2 E=3
"""
COSTS_OF_SUBLATTICES = """SUBLAT=one
N=2 L=1
I=0 W=x a=-1
I=1 W=y a=-2
J=0 S=0 E=1
.
SUBLAT=two
N=2 L=1
I=0 L=one a=-3
I=1 W=y a=-4
J=0 S=0 E=1
.
N=3 L=2
I=0 W=!NULL
I=1 L=two a=-5
I=2 W=!NULL
J=0 S=0 E=1
J=1 S=1 E=2
.
"""
SPHINX = """# getcwd: /tmp
# -logbase 1.0001
#
Frames 12
#
Nodes 3
0 <s> 0 1 3
1 one(2) 2 5 9
2 </s> 10 11 11
#
Initial 0
Final 2
#
BestSegAscr 0 (NODEID ENDFRAME ASCORE)
#
Edges (FROM-NODEID TO-NODEID ASCORE)
0 1 -200
1 2 -3000
End
"""
PFSG = """name utt
nodes 4 NULL one two NULL
initial 0
final 3
transitions 4
0 1 -6931
0 2 -6931
1 3 0
2 3 -12.5

name other nodes 2 NULL NULL initial 0 final 1 transitions 1 0 1 0
"""
PLF = """((('one',0.5,1),('t\\'wo',0.5,2),),(('three',1.0,1),),)
"""
FST_TEXT = "0 1 1 1 0.5\n0 2 3 4\n1 2 <eps> b 1e-3\n2 Infinity\n2 0.25\n"
ARPA = """\\data\\
ngram 1=4
ngram 2=3
ngram 3=1

\\1-grams:
-99 <s> -0.5
-1.0 </s>
-0.7 a -0.25
-0.7 b -0.25

\\2-grams:
-0.3 <s> a -0.1
-0.4 a b
-0.5 b </s>

\\3-grams:
-0.1 <s> a b

\\end\\
"""


def text(value: str) -> bytes:
    """Return a text as OpenFst writes it."""
    return struct.pack("<i", len(value)) + value.encode()


def fst(kind: str, arc_type: str, flags: int, states: list, version: int = 2) -> bytes:
    """Return an OpenFst image; states are (final, [(input, output, weight, next)])."""
    weight = "d" if arc_type == "log64" else "f"
    arcs = sum(len(leaving) for _, leaving in states)
    made = struct.pack("<i", FST_MAGIC) + text(kind) + text(arc_type)
    made += struct.pack("<iiQqqq", version, flags, 3, 0, len(states), arcs)
    for _ in range((flags & 1) + (flags >> 1 & 1)):
        words = ["<eps>", "<s>", "</s>", "a"]
        made += struct.pack("<i", SYMBOL_MAGIC) + text("words") + struct.pack("<qq", 4, 4)
        for number, word in enumerate(words):
            made += text(word) + struct.pack("<q", number)
    if kind == "vector":
        for final, leaving in states:
            made += struct.pack("<" + weight + "q", final, len(leaving))
            for i, o, cost, to in leaving:
                made += struct.pack("<ii" + weight + "i", i, o, cost, to)
        return made
    aligned = version == 1 or flags & 4
    made += bytes(-len(made) % 16 if aligned else 0)
    first = 0
    for final, leaving in states:
        made += struct.pack("<" + weight + "IIII", final, first, len(leaving), 0, 0)
        first += len(leaving)
    made += bytes(-len(made) % 16 if aligned else 0)
    for _, leaving in states:
        for i, o, cost, to in leaving:
            made += struct.pack("<iidi4x" if weight == "d" else "<iifi", i, o, cost, to)
    return made


NEVER = float("inf")
LATTICE = [(NEVER, [(1, 1, 0.5, 1), (2, 2, 0.25, 2)]), (NEVER, [(3, 0, 1.0, 2)]), (0.5, [])]
UNSORTED = [(NEVER, [(1, 1, 0.5, 2), (2, 2, 0.25, 1)]), (0.5, []), (NEVER, [(3, 0, 1.0, 1), (1, 1, NEVER, 0)])]
GRAMMAR = [(NEVER, [(3, 3, 0.5, 1), (4, 0, 0.1, 2)]), (0.7, [(4, 0, 0.3, 2)]), (1.0, [(3, 3, 2.0, 1), (1, 1, 3.0, 0)])]
IMAGES = [  # type, arc type, flags, version
    ("vector", "standard", 0, 2),
    ("vector", "log64", 3, 2),
    ("const", "standard", 0, 2),
    ("const", "log", 5, 2),
    ("const", "log64", 0, 1),
]


def const_arpa() -> bytes:
    """Return a trigram model of four words: a state is ln p, ln back-off, children and (word, what) of each."""
    states: list[int] = []

    def bits(value: float) -> int:
        return struct.unpack("<i", struct.pack("<f", value))[0]

    def state(logprob: float, backoff: float, children: list[tuple[int, int]]) -> int:
        place = len(states)
        states.extend([bits(logprob), bits(backoff), len(children)])
        for word, what in children:
            states.extend([word, what])
        return place

    leaf = bits(-0.5) & ~1
    begin = state(-2.0, -0.5, [(3, 0)])
    end = state(-1.0, 0.0, [])
    one = state(-0.7, -0.25, [(2, leaf), (4, leaf)])
    two = state(-0.7, -0.25, [(2, leaf)])
    deep = state(-0.3, -0.1, [(4, leaf)])
    states[begin + 4] = 2 * (deep - begin) + 1
    unigrams = [0, begin + 1, end + 1, one + 1, two + 1]
    made = b"\0B<ConstArpaLm> <LmInfo> "
    for number in (1, 2, -1, 3):
        made += b"\x04" + struct.pack("<i", number)
    made += b"</LmInfo> <LmStates> \x08" + struct.pack(f"<q{len(states)}i", len(states), *states)
    made += b"</LmStates> <LmUnigram> \x04" + struct.pack("<i5q", 5, *unigrams)
    return made + b"</LmUnigram> <LmOverflow> \x04" + struct.pack("<iq", 1, deep + 1) + b"</LmOverflow> </ConstArpaLm> "


def seeds() -> dict[str, list[bytes]]:
    """Return the files of each target."""
    archive = gzip.decompress((DATA / "formats" / "lat.txt.gz").read_bytes())[:3000]
    tiny = b"a \n0 1 3 0.5,1.25,1_2_3\n0 2 4 ,,\n1 2 0 1,2,\n2 0,0,4_5\n\nb \n0 1 1 2 0.5,0.5\n1\n\n"
    start, states = b"utt ", struct.pack("<qqq", 0, 2, 1)
    compact = start + fst("vector", "compactlattice44", 0, [])[:-24] + states
    compact += struct.pack("<ffiq", NEVER, NEVER, 0, 1) + struct.pack("<iiffiiii", 3, 3, 0.5, 1.5, 2, 7, 8, 1)
    compact += struct.pack("<ffiiq", 0.5, 0.25, 1, 9, 0)
    raw = start + fst("vector", "lattice4", 0, [])[:-24] + states
    raw += struct.pack("<ffqiiffi", NEVER, NEVER, 1, 3, 4, 0.5, 1.5, 1) + struct.pack("<ffq", 0.5, 0.25, 0)
    images = [
        fst(kind, arc_type, flags, machine, version)
        for machine in (LATTICE, UNSORTED)
        for kind, arc_type, flags, version in IMAGES
    ]
    grammars = [fst(kind, "standard", flags, GRAMMAR) for kind in ("vector", "const") for flags in (0, 2)]
    kaldi = [tiny, compact, raw, compact + raw, compact + tiny, archive]
    return {
        "kaldi": kaldi,
        "read_ahead": kaldi,
        "slf": [each.encode() for each in (SLF, SUBLATTICES, NODE_COSTS, LINK_WORDS, COSTS_OF_SUBLATTICES)],
        "sphinx": [SPHINX.encode()],
        "pfsg": [PFSG.encode()],
        "plf": [PLF.encode(), b"()\n"],
        "fst_text": [FST_TEXT.encode(), b"0 1 a 0.5\n1\n"],
        "arpa": [ARPA.encode()],
        "grammar": grammars,
        "fst_image": images,
        "const_arpa": [const_arpa()],
    }


def main(folder: Path) -> None:
    """Write the files."""
    for target, files in seeds().items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        how = (None,) if target in ("fst_image", "const_arpa") else OPTIONS
        for number, content in enumerate(files):
            for option in how:
                last = b"" if option is None else bytes([option])
                (folder / target / f"{number}-{option}").write_bytes(content + last)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
