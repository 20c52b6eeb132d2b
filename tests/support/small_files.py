"""A small valid file of each format and the function that reads it."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from unittest import mock

import nnet3_writer
import numpy as np
from transition_models import as_binary, as_text

import ninja
from ninja.consensus import confusion_network, mbr_decode
from ninja.context.entities.parse import read_sections
from ninja.context.sound.pronunciation import read_lexicon
from ninja.evaluate.biased import read_biasing
from ninja.evaluate.stm import read_stm
from ninja.evaluate.word_filters import read_glm
from ninja.files.stream import Stream
from ninja.files.text import read_toml
from ninja.formats.format import Format, formats
from ninja.formats.kaldi import matrices
from ninja.formats.kaldi.tables import read_segments, read_text
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.formats.kaldi.word_phones import read_align_lexicon, read_word_boundary
from ninja.io import reader
from ninja.lattice import Lattice, SymbolTable
from ninja.lattice.nbest import Hypothesis, NBest, sentence
from ninja.lm.kaldi import nnet3
from ninja.lm.network_image import safetensors_image
from ninja.lm.stored_network import lstm_shapes, read_network

WORDS = SymbolTable.from_words(["<eps>", "<s>", "</s>", "one", "two", "three"])

TIMED = (".srt", ".vtt", ".whisper.tsv", ".ctm")  # extensions of formats of words with times


def small_lattice() -> Lattice:
    return Lattice.from_arrays(
        "utt", [0, 2, 3, 4, 4], [1, 2, 3, 3], [3, 4, 5, 0], [0.5, 1, 0, 2], [1, 2, 3, 0.25],
        [np.inf] * 3 + [0.5], ali_begin=[0, 1, 3, 5, 6], ali=[7, 8, 8, 9, 9, 7], words=WORDS,
    )  # fmt: skip


def small_file(form: Format, folder: Path) -> bytes:
    """Return a small file of a format."""
    target = folder / ("out" if form.write is not None and form.write.files != "one" else "out.x")
    lattice = small_lattice()
    with ninja.write(target, to=form.name, words=WORDS) as output:
        if form.holds == "lattice":
            output.write(lattice)
        elif form.holds == "network":
            output.write(confusion_network(mbr_decode(lattice), words=WORDS))
        elif form.holds == "nbest" and form.extensions and form.extensions[0] in TIMED:
            no_costs = (0.0,) * 3
            hypothesis = Hypothesis(("one", "two"), no_costs, no_costs, (1, 2), (2, 5))
            output.write(NBest("utt", (hypothesis,), frame_shift=1.0))
        else:
            output.write(NBest("utt", (sentence(["one", "two"], 1.5, 10.0), sentence(["three"], 2.0, 11.0))))
    files = [target] if target.is_file() else sorted(path for path in target.rglob("*") if path.is_file())
    return files[0].read_bytes()


def read_as(name: str) -> Callable[[str], object]:
    def read_records(path: str) -> object:
        records = []
        with mock.patch.object(reader, "read_ahead", lambda batches: batches):
            for _, record in islice(ninja.read(path, format=name, words=WORDS, on_error=lambda *_: None), 50):
                records.append(record)
        return records

    return read_records


def from_stream(read: Callable[[Stream], object]) -> Callable[[str], object]:
    return lambda path: read(Stream(io.BytesIO(Path(path).read_bytes()), path))


LINES = [
    "input-node name=input dim=2", "component-node name=a component=a input=input", "output-node name=output input=a"
]  # fmt: skip
PARAMETERS = {"<LinearParams>": np.eye(2, dtype="f4"), "<BiasParams>": np.ones(2, "f4")}


def stored_lstm() -> bytes:
    """Return the checkpoint of a tiny LSTM, in safetensors."""
    config: dict[str, int | float] = {"vocabulary": 4, "embedding": 2, "hidden": 3, "layers": 1, "dropout": 0.0}
    shapes = lstm_shapes({**config, "projection": 0, "normaliser": 0})
    state = {name: np.ones(shape, np.float16) for name, shape in shapes.items()}
    state |= {"bias": np.zeros(4, np.float16), "embedding.weight": np.ones((4, 2), np.int8)}
    state["embedding.weight.scale"] = np.ones(4, np.float32)
    words = "<s>\n</s>\n<unk>\na"
    content = {"format": "ninja-lm", "version": 2, "kind": "lstm", "config": config, "words": words, "card": {}}
    return b"".join(safetensors_image({**content, "state": state}, "model.safetensors"))


MATRIX = np.float32([[1, 2], [3, 4]])
READERS: dict[str, tuple[Callable[[str], object], list[bytes]]] = {
    "columns": (read_as("columns"), [b"utt\t1\t-10.5\t-2\tone two\nutt\t2\t-11\t-3\ttwo\n", b"utt-1 -5 one two\n"]),
    "ctm": (read_as("ctm"), [b"utt 1 0.00 0.25 one 0.9\nutt 1 0.25 0.5 two 0.5\n"]),
    "named-text": (read_as("named-text"), [b"utt-1 one two\nutt-2 two\n", b"utt\n0 1 one one 0.5,1.5,7_8\n1 0,0,\n\n"]),
    "matrix archive": (
        from_stream(lambda stream: list(matrices.read_archive(stream))),
        [b"utt " + nnet3_writer.matrix(MATRIX, binary) + b"\n" * (not binary) for binary in (True, False)],
    ),
    "nnet3": (
        nnet3.read,
        [
            nnet3_writer.network(LINES, {"a": ("NaturalGradientAffineComponent", PARAMETERS)}, binary)
            for binary in (True, False)
        ],
    ),
    "transition model": (
        read_transition_model,
        [make(chain) for make in (as_text, as_binary) for chain in (True, False)],
    ),
    "symbol table": (SymbolTable.read, [b"<eps> 0\none 1\ntwo 2\n"]),
    "entities": (
        read_sections,
        [
            b'{"@city": ["Rome", {"text": "New York", "weight": 2, "pronunciations": ["N UW"]}], "groups": {}}',
            b'{"utt": "u1", "@city": ["Rome"], "lists": ["more"]}\n{"list": "more", "phrases": ["tea"]}\n',
            b"u1\t@city\tRome\t2\n*\t-\tninja\n",
            b"tea\nninja\n",
        ],
    ),
    "word boundary": (read_word_boundary, [b"1 nonword\n2 begin\n3 end\n4 internal\n5 singleton\n"]),
    "align lexicon": (read_align_lexicon, [b"3 3 2 4\n4 4 5\n0 0 1\n"]),
    "pronunciations": (read_lexicon, [b"one W AH N\ntwo T UW\n"]),
    "segments": (read_segments, [b"utt rec 0.00 1.25\nutt2 rec 1.5 2\n"]),
    "transcripts": (read_text, [b"utt one two\nutt2 three\n"]),
    "stm": (
        lambda path: read_stm(path, {"utt": ("rec", 0.0, 1.0)}),
        [b"rec 1 ann 0.00 1.00 <o,f0> one {two / three}\n"],
    ),
    "glm": (read_glm, [b'* name "x"\n[one] => two / [ ] __ [ ]\n[uh] => / [ ] __ [ ]\n']),
    "biasing lists": (read_biasing, [b'utt\tone two\t["one"]\t["one", "tea"]\n']),
    "checkpoint": (read_network, [stored_lstm(), stored_lstm().replace(b"crc32", b"other")]),
    "options": (read_toml, [b'[rescore]\nlm_weight = 0.5\nwords = "w.txt"\n']),
}
FORMATS = {
    form.name: form
    for form in formats()
    if form.write is not None and form.read is not None and not form.write.rewrites_files
}
