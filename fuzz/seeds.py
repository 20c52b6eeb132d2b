"""Write the seed corpora: the text files in seeds/, and binary files of every shape.

python fuzz/seeds.py FOLDER
"""

import gzip
import struct
import sys
from pathlib import Path

SEEDS = Path(__file__).resolve().parent / "seeds"
ARCHIVE = SEEDS.parents[1] / "tests" / "data" / "english" / "formats" / "lat.txt.gz"
OPTIONS = (0, 5, 22, 0x8B, 255)  # the last byte of an input selects the options of the reader
FST_MAGIC, SYMBOL_MAGIC = 2125659606, 2125658996


def text(value: str) -> bytes:
    """Return a text as OpenFst writes it."""
    return struct.pack("<i", len(value)) + value.encode()


def fst(kind: str, arc_type: str, flags: int, states: list, version: int = 2) -> bytes:
    """Return an OpenFst image; states are (final, [(input, output, weight, next)])."""
    weight = "d" if arc_type == "log64" else "f"
    arcs = sum(len(leaving) for _, leaving in states)
    image = struct.pack("<i", FST_MAGIC) + text(kind) + text(arc_type)
    image += struct.pack("<iiQqqq", version, flags, 3, 0, len(states), arcs)
    for _ in range((flags & 1) + (flags >> 1 & 1)):
        words = ["<eps>", "<s>", "</s>", "a"]
        image += struct.pack("<i", SYMBOL_MAGIC) + text("words") + struct.pack("<qq", 4, 4)
        for number, word in enumerate(words):
            image += text(word) + struct.pack("<q", number)
    if kind == "vector":
        for final, leaving in states:
            image += struct.pack("<" + weight + "q", final, len(leaving))
            for i, o, cost, to in leaving:
                image += struct.pack("<ii" + weight + "i", i, o, cost, to)
        return image
    aligned = version == 1 or flags & 4
    image += bytes(-len(image) % 16 if aligned else 0)
    first = 0
    for final, leaving in states:
        image += struct.pack("<" + weight + "IIII", final, first, len(leaving), 0, 0)
        first += len(leaving)
    image += bytes(-len(image) % 16 if aligned else 0)
    for _, leaving in states:
        for i, o, cost, to in leaving:
            image += struct.pack("<iidi4x" if weight == "d" else "<iifi", i, o, cost, to)
    return image


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
    """Return a trigram model of four words: a state is ln p, ln back-off, and the (word, link) of each child."""
    states: list[int] = []

    def bits(value: float) -> int:
        return struct.unpack("<i", struct.pack("<f", value))[0]

    def state(logprob: float, backoff: float, children: list[tuple[int, int]]) -> int:
        place = len(states)
        states.extend([bits(logprob), bits(backoff), len(children)])
        for word, link in children:
            states.extend([word, link])
        return place

    leaf = bits(-0.5) & ~1
    begin = state(-2.0, -0.5, [(3, 0)])
    end = state(-1.0, 0.0, [])
    word_one = state(-0.7, -0.25, [(2, leaf), (4, leaf)])
    word_two = state(-0.7, -0.25, [(2, leaf)])
    deep = state(-0.3, -0.1, [(4, leaf)])
    states[begin + 4] = 2 * (deep - begin) + 1
    unigrams = [0, begin + 1, end + 1, word_one + 1, word_two + 1]
    image = b"\0B<ConstArpaLm> <LmInfo> "
    for number in (1, 2, -1, 3):
        image += b"\x04" + struct.pack("<i", number)
    image += b"</LmInfo> <LmStates> \x08" + struct.pack(f"<q{len(states)}i", len(states), *states)
    image += b"</LmStates> <LmUnigram> \x04" + struct.pack("<i5q", 5, *unigrams)
    return (
        image + b"</LmUnigram> <LmOverflow> \x04" + struct.pack("<iq", 1, deep + 1) + b"</LmOverflow> </ConstArpaLm> "
    )


def seeds() -> dict[str, list[bytes]]:
    """Return the files of each target."""
    archive = gzip.decompress(ARCHIVE.read_bytes())[:3000]
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
    texts = {folder.name: [path.read_bytes() for path in sorted(folder.iterdir())] for folder in SEEDS.iterdir()}
    binaries = {
        "kaldi": kaldi,
        "read_ahead": kaldi,
        "grammar": grammars,
        "fst_image": images,
        "const_arpa": [const_arpa()],
    }
    return texts | binaries


def main(folder: Path) -> None:
    """Write the files."""
    for target, files in seeds().items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        options = (None,) if target in ("fst_image", "const_arpa") else OPTIONS
        for number, content in enumerate(files):
            for option in options:
                last = b"" if option is None else bytes([option])
                (folder / target / f"{number}-{option}").write_bytes(content + last)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
