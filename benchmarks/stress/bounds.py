"""Resources for costly files: bytes of memory and CPU seconds per byte read, at two sizes.

    python -m benchmarks.stress bounds [--bytes 5000000] [--only NAME …]

Each file is read in a process of its own, lattice by lattice, at two sizes, the second four times the first; memory is
the peak above that of the process before (Linux). Time is linear where both take about as long for each byte.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.command import command, option

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(number: int) -> str:
    """Return a distinct word for each number."""
    letters = ""
    while number or not letters:
        number, letter = divmod(number, 26)
        letters += LETTERS[letter]
    return letters


def rows(size: int, row: Callable[[int], str], head: str = "", tail: str = "") -> str:
    """Return rows of about `size` bytes in all, between a head and a tail."""
    lines, num_characters, number = [head], 0, 0
    while num_characters < size:
        lines.append(row(number))
        num_characters += len(lines[-1])
        number += 1
    return "".join([*lines, tail])


def slf(size: int, link: Callable[[int], str]) -> str:
    """Return a lattice file of a chain of nodes."""
    links = max(1, size // (len(link(size // 60)) + 12))
    nodes = "".join(f"I={node} t={node / 100}\n" for node in range(links + 1))
    arcs = "".join(f"J={number} {link(number)}\n" for number in range(links))
    return f"VERSION=1.0\nN={links + 1} L={links}\n{nodes}{arcs}"


def fan(size: int) -> str:
    """Return a lattice file whose links all lead from one node to another."""
    return rows(size, lambda n: f"J={n} S=0 E=1 W={word(n)} a=-1\n", f"N=2 L={size // 24}\nI=0 t=0\nI=1 t=1\n")


JSON_LIST = '{"key": "u", "nbest": [', '{"text": "a", "score": 1}]}\n'
LATTICES: dict[str, tuple[str, Callable[[int], str]]] = {
    "Kaldi, text: a chain": ("x.txt", lambda n: rows(n, lambda i: f"{i} {i + 1} 7 1,1,1_2\n", "utt\n", "")),
    "Kaldi, text: a fan": ("x.txt", lambda n: rows(n, lambda i: "0 1 7 1,1,1_2\n", "utt\n", "1 0,0,\n\n")),
    "Kaldi, text: tiny lattices": ("x.txt", lambda n: rows(n, lambda i: f"u{i}\n0 1 7 1,1,\n1 0,0,\n\n")),
    "Kaldi, text: one long key": ("x.txt", lambda n: "k" * n + " 0 1"),
    "SLF: a chain of new words": ("x.slf", lambda n: slf(n, lambda i: f"S={i} E={i + 1} W={word(i)} a=-1")),
    "SLF: a chain of one word": ("x.slf", lambda n: slf(n, lambda i: f"S={i} E={i + 1} W=a")),
    "SLF: a fan": ("x.slf", lambda n: slf(n, lambda i: f"S=0 E={max(1, i)} W={word(i)}")),
    "SLF: one long word": ("x.slf", lambda n: f"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W={'w' * n}\n"),
    "SLF: blanks": ("x.slf", lambda n: "VERSION=1.0\n" + " \n" * (n // 2)),
    "PLF: columns": ("x.plf", lambda n: rows(n, lambda i: f"(('{word(i)}',-1,1),),", "(", ")\n")),
    "PLF: tiny lattices": ("x.plf", lambda n: rows(n, lambda i: f"((('{word(i)}',-1,1),),)\n")),
    "PLF: parentheses": ("x.plf", lambda n: "((('a',1,1)," + "(" * n),
    "mesh": ("x.mesh", lambda n: rows(n, lambda i: f"align {i} {word(i)} 1\n", f"numaligns {n // 16}\nposterior 1\n")),
    "meshes: tiny": ("x.mesh", lambda n: rows(n, lambda i: f"name u{i}\nnumaligns 1\nposterior 1\nalign 0 a 1\n")),
    "PFSG: a chain": ("x.pfsg", lambda n: pfsg(n)),
    "PFSG: tiny": ("x.pfsg", lambda n: rows(n, lambda i: pfsg(48).replace("u", f"u{i}", 1))),
    "Sphinx: a chain": ("x.lat", lambda n: sphinx(n)),
    "FST text": ("x.fst.txt", lambda n: rows(n, lambda i: f"{i} {i + 1} {word(i)} {word(i)} 1\n", "", "")),
    "CTM": ("x.ctm", lambda n: rows(n, lambda i: f"u 1 {i / 10:.1f} 0.1 {word(i)} 1\n")),
    "CTM: an utterance a row": ("x.ctm", lambda n: rows(n, lambda i: f"u{i} 1 0 0.1 a 1\n")),
    "n-best of SRILM": ("x.nbest", lambda n: rows(n, lambda i: f"-1 -1 2 {word(i)} b\n")),
    "n-best in JSON": ("x.jsonl", lambda n: rows(n, json_list)),
    "n-best in JSON: one list": ("x.jsonl", lambda n: rows(n, json_hypothesis, *JSON_LIST)),
    "JSON: empty lists": ("x.json", lambda n: "[" + "[]," * (n // 3) + "[]]"),
    "JSON: brackets": ("x.json", lambda n: "[" * n),
}


def json_list(number: int) -> str:
    """Return an n-best list of one hypothesis."""
    return f'{{"key": "u{number}", "nbest": [{{"text": "a", "score": 1}}]}}\n'


def json_hypothesis(number: int) -> str:
    """Return a hypothesis of a list."""
    return f'{{"text": "{word(number)}", "score": 1}}, '


def pfsg(size: int) -> str:
    """Return an SRILM word graph of a chain of nodes."""
    number = size // 24
    names = " ".join(map(word, range(number)))
    arcs = "".join(f"{node} {node + 1} -1\n" for node in range(number - 1))
    return f"name u\nnodes {number} {names}\ninitial 0\nfinal {number - 1}\ntransitions {number - 1}\n{arcs}\n"


def sphinx(size: int) -> str:
    """Return a Sphinx lattice of a chain of nodes."""
    number = size // 34
    nodes = "".join(f"{node} {word(node)} {node} {node} {node}\n" for node in range(number))
    edges = "".join(f"{node} {node + 1} -10\n" for node in range(number - 1))
    return f"Frames {number}\nNodes {number}\n{nodes}Initial 0\nFinal {number - 1}\nEdges\n{edges}End\n"


def safetensors(header: str) -> str:
    """Return a file of safetensors without bytes of arrays; its header ends in spaces, so that its length is ASCII."""
    size = len(header)
    while not size.to_bytes(8, "little").isascii():
        size += 1
    return size.to_bytes(8, "little").decode() + header.ljust(size)


def empty_array(number: int) -> str:
    """Return the entry of an array without numbers in the header of safetensors."""
    return f'"{word(number)}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},'


OTHERS: dict[str, tuple[str, str, Callable[[int], str]]] = {
    "words: many": ("words", "words.txt", lambda n: rows(n, lambda i: f"{word(i)} {i}\n")),
    "words: one long": ("words", "words.txt", lambda n: "w" * n + " 1\n"),
    "entities: a list": ("entities", "e.txt", lambda n: rows(n, lambda i: f"the {word(i)}\n")),
    "entities: TSV": ("entities", "e.tsv", lambda n: rows(n, lambda i: f"u{i}\t@name\t{word(i)}\n")),
    "entities: JSON": ("entities", "e.json", lambda n: rows(n, lambda i: f'"{word(i)}",', '{"@name":[', '"zzzzz9"]}')),
    "entities: doubles": ("entities", "e.txt", lambda n: rows(n, lambda i: "the same\n")),
    "entities: hyphens": ("entities", "e.txt", lambda n: rows(n, lambda i: "-_a" * 60 + f" {word(i)}\n")),
    "ARPA: unigrams": ("lm", "x.arpa", lambda n: arpa(n)),
    "ARPA: blanks": ("lm", "x.arpa", lambda n: "\\data\\\nngram 1=1\n" + "\n" * n),
    "options: TOML": ("toml", "x.toml", lambda n: rows(n, lambda i: f"{word(i)} = 1\n")),
    "options: brackets": ("toml", "x.toml", lambda n: "a = " + "[" * n),
    "safetensors: arrays": (
        "model",
        "x.safetensors",
        lambda n: safetensors(rows(n, empty_array, "{", '"__metadata__":{}}')),
    ),
    "safetensors: empty lists": ("model", "x.safetensors", lambda n: safetensors('{"a":[' + "[]," * (n // 3) + "[]]}")),
    "matrices, text": ("matrices", "x.ark", lambda n: rows(n, lambda i: " 1 2\n", "u  [\n", " 1 2 ]\n")),
}


def arpa(size: int) -> str:
    """Return an n-gram model of single words."""
    number = size // 9
    grams = "".join(f"-2 {word(gram)}\n" for gram in range(number))
    return f"\\data\\\nngram 1={number + 3}\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 <unk>\n{grams}\n\\end\\\n"


def read(kind: str, path: Path) -> str:
    """Read a whole file; return the size of its contents, or the error."""
    import ninja
    from ninja.errors import NinjaError

    try:
        if kind == "lattices":
            count = sum(lattice.num_arcs for _, lattice in ninja.read(path))
            return f"{count} arcs"
        if kind == "words":
            from ninja.lattice.symbols import SymbolTable

            return f"{len(SymbolTable.read(path))} words"
        if kind == "entities":
            from ninja.context import Entities

            return f"{Entities.read(path).num_phrases} phrases"
        if kind == "lm":
            return f"{len(ninja.lm.load(path).vocabulary)} words"
        if kind == "toml":
            from ninja.files.text import read_toml

            return f"{len(read_toml(path))} options"
        if kind == "model":
            from ninja.lm.stored_network import read_content

            return f"{len(read_content(path)['state'])} arrays"
        from ninja.decoding.matrices import read_matrices

        return f"{sum(matrix.size for _, matrix, _ in read_matrices(path))} numbers"
    except NinjaError as error:
        return f"refused: {str(error).rpartition(str(path))[2][:60]}"


def _measure(kind: str, path: Path, answer: multiprocessing.connection.Connection) -> None:
    small = path.with_name("small" + path.name)
    with path.open("rb") as whole:
        small.write_bytes(whole.read(1000))
    read(kind, small)  # imports and allocations of the first call
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak; getrusage would return that of the parent
    before, start = _memory("VmRSS"), time.process_time()
    contents = read(kind, path)
    seconds = time.process_time() - start
    answer.send((_memory("VmHWM") - before, seconds, contents))


def _memory(name: str) -> int:
    """Return a size of this process in bytes."""
    return 1024 * int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0])


def measure(kind: str, name: str, content: str, limit: float = 300) -> tuple[int, float, str]:
    """Read a file in a separate process; return bytes of memory, seconds, and the size of the contents."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(content)
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_measure, args=(kind, path, sender))
        process.start()
        sender.close()
        try:
            measured: tuple[int, float, str] = receiver.recv() if receiver.poll(limit) else (0, limit, "no end")
        except EOFError:
            measured = 0, 0.0, "killed"
        process.kill()
        process.join()
        return measured


def cases() -> dict[str, tuple[str, str, Callable[[int], str]]]:
    """Return kind, file name and contents by size of each case, by its name."""
    return {**{name: ("lattices", *case) for name, case in LATTICES.items()}, **OTHERS}


@command
@option("--bytes", "size", default=5_000_000)
@option("--only", multiple=True, help="Part of the name of a case; may be repeated.")
def main(size: int, only: tuple[str, ...]) -> None:
    for name, (kind, file, content) in cases().items():
        if only and not any(part in name for part in only):
            continue
        figures = []
        for times in (1, 4):
            text = content(times * size)
            memory, seconds, contents = measure(kind, file, text)
            figures.append(f"{memory / len(text):6.1f} B/B {1e9 * seconds / len(text):8.1f} ns/B")
        print(f"{name:30}", *figures, contents, flush=True)
