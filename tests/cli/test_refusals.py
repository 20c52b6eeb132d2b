"""Errors that no other test covers: calls, and parts of their messages."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_lm import FakeLM, symbols

from ninja import graph
from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.loader import load_ngram
from ninja.context.options import ContextOptions
from ninja.context.sound.confusion import Confusion
from ninja.decoding import CtcOptions, log_probabilities
from ninja.decoding.matrices import read_matrices
from ninja.decoding.spelling import Spelling
from ninja.errors import FormatError, InputError, Log, ModelError, NinjaError, OptionError
from ninja.evaluate.stm import read_stm
from ninja.evaluate.word_filters import read_glm
from ninja.files.names import resolve
from ninja.files.output import target
from ninja.formats.format import fill_options, split_options
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.formats.plf import PlfWriteOptions
from ninja.formats.slf import SlfOptions
from ninja.graph.determinize_pruned import DeterminizeBounds
from ninja.lattice import Lattice
from ninja.lattice.fst import Fst
from ninja.lm.imported import onnx_check
from ninja.lm.ngram.kenlm import KenLM
from ninja.models import ENGLISH
from ninja.pipeline.plan import Shard
from ninja.train.recipe import TrainOptions

Call = Callable[[Path], object]

LINEAR = graph.linear("a", [1], [1])
ONE = np.ones(1, np.int32)
ACCEPTOR = Fst(np.array([0, 1]), 0 * ONE, ONE, ONE, np.zeros(1), np.zeros(1))  # accepts any number of words 1


def write_zip(path: Path, entries: dict[str, bytes], packing: int) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def save_torch(path: Path, content: object) -> Path:
    torch = pytest.importorskip("torch")
    torch.save(content, path)
    return path


def write_text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def npy() -> bytes:
    content = io.BytesIO()
    np.save(content, np.zeros((1, 2), np.float32))
    return content.getvalue()


CALLS: dict[str, tuple[type[NinjaError], Call]] = {
    "not a context model; train one with ninja train context": (
        ModelError,
        lambda at: PhraseEncoder.load(save_torch(at / "x.pt", {"format": "another"})),
    ),
    "boundary is empty, but must be a prefix": (OptionError, lambda at: Spelling(["a"], boundary="")),
    "invalid phone confusion table: 'substitution' is missing": (
        FormatError,
        lambda at: Confusion.read(
            write_text(at / "x", json.dumps({"format": "ninja phone confusion 1", "phones": ["a"]}))
        ),
    ),
    "context requires an n-gram model; specify an ARPA, const-arpa or G.fst file": (
        ModelError,
        lambda at: load_ngram(str(ENGLISH), symbols(), Log()),
    ),
    "this zip file was not written by NumPy or torch": (
        FormatError,
        lambda at: list(read_matrices(write_zip(at / "x.npz", {"a.txt": b"1"}, zipfile.ZIP_STORED))),
    ),
    "the zip file has compressed entries; save it with np.savez or torch.save": (
        FormatError,
        lambda at: list(read_matrices(write_zip(at / "x.npz", {"a.npy": npy()}, zipfile.ZIP_DEFLATED))),
    ),
    "the value of unit 0 in frame 1 is nan": (
        ModelError,
        lambda at: log_probabilities([[-0.7, -0.7], [np.nan, 0.0]]),
    ),
    "the value of unit 1 in frame 0 is inf": (ModelError, lambda at: log_probabilities([[-0.7, np.inf]])),
    "the line has alternatives { … / … }, which are not supported; keep one": (
        FormatError,
        lambda at: read_stm(write_text(at / "x.stm", "rec 1 a 0.0 1.0 { one / two }\n"), {"u": ("rec", 0.0, 1.0)}),
    ),
    "has alternatives, which are not supported; keep one": (
        FormatError,
        lambda at: read_glm(write_text(at / "x.glm", "[UM] => { [A] / [B] } / [ ] __ [ ]\n")),
    ),
    "wspecifier 'ark,x:a' has the unknown option 'x'": (OptionError, lambda at: target("ark,x:a")),
    "invalid wspecifier 'scp:a': expected ark:FILE, or ark,scp:FILE,FILE for two files": (
        OptionError,
        lambda at: target("scp:a"),
    ),
    "is a command to write to, not to read from": (FormatError, lambda at: list(resolve("| gzip"))),
    "sets base twice": (OptionError, lambda at: split_options("slf:base=1,base=2")),
    "slf: frame_shift=x is not": (OptionError, lambda at: fill_options(SlfOptions, {"frame_shift": "x"}, "slf")),
    "at most 30 fields can be used, and each of them only once": (
        OptionError,
        lambda at: SlfOptions(graph=("l",), acoustic=("l",)),
    ),
    "remove it, or set scores=total": (OptionError, lambda at: PlfWriteOptions("graph", 0.5)),
    "shard 4/3: the first number must be from 1 to 3": (OptionError, lambda at: Shard(4, 3)),
    "shard 0/3: the first number must be": (OptionError, lambda at: Shard(0, 3)),
    "this language model cannot score tries directly": (
        OptionError,
        lambda at: FakeLM().score_trie(np.zeros(1, np.int32), np.zeros(1, np.int32)),
    ),
    "projection is 256, but only an lstm can have a projection, which must be smaller than embedding": (
        OptionError,
        lambda at: TrainOptions(projection=256),
    ),
    "projection is 8, but only an lstm can have a projection": (
        OptionError,
        lambda at: TrainOptions(architecture="transformer", projection=8),
    ),
    "the file is truncated in KenLM's header": (
        ModelError,
        lambda at: (
            pytest.importorskip("kenlm") and KenLM(str(write_text(at / "x.bin", "mmap lm http://kheafield.com")))
        ),
    ),
    "the name refers to 2 files, but must refer to one": (
        InputError,
        lambda at: read_transition_model(
            str((write_text(at / "a.mdl", ""), write_text(at / "b.mdl", ""), at / "*.mdl")[2])
        ),
    ),
    "the ONNX file has no graph, so it is damaged or truncated": (
        ModelError,
        lambda at: pytest.importorskip("onnx") and onnx_check.check(str(write_text(at / "x.onnx", ""))),
    ),
    f"a silence phone is {10**30}, but must be at most 2147483647": (
        OptionError,
        lambda at: graph.boost(LINEAR, ONE, np.ones(2, np.int32), silence_phones=[10**30]),
    ),
}

# Integers that no kernel can store; they used to raise an OverflowError.
HUGE: dict[str, Callable[[int], object]] = {
    "max_tokens": lambda value: ContextOptions(max_tokens=value),
    "max_arcs": lambda value: ContextOptions(max_arcs=value),
    "max_mem": lambda value: DeterminizeBounds(max_mem=value),
    "max_loop": lambda value: DeterminizeBounds(max_loop=-value),
    "beam": lambda value: CtcOptions(beam=value),
    "max_units": lambda value: CtcOptions(max_units=value),
    "phi_label": lambda value: graph.compose(LINEAR, ACCEPTOR, phi_label=value),
    "max_arcs_per_frame": lambda value: graph.limit_depth(LINEAR, value),
    "n": lambda value: graph.nbest(LINEAR, value),
}


@pytest.mark.parametrize("name", HUGE)
def test_options_that_no_kernel_can_store_are_refused_by_name(name: str) -> None:
    with pytest.raises(OptionError, match=rf"^{name} is -?{10**30}, but must be "):
        HUGE[name](10**30)


@pytest.mark.parametrize(
    "call",
    [
        lambda lattice: graph.expand_ngram(lattice, 2**31),
        lambda lattice: graph.determinize(lattice, max_arcs=2**63),
        lambda lattice: graph.remove_epsilons(lattice, max_arcs=2**63),
        lambda lattice: graph.compose(lattice, lattice, max_arcs=2**63),
        lambda lattice: graph.interp(lattice, lattice, max_arcs=2**63),
        lambda lattice: graph.expand_ngram(lattice, 2, max_arcs=2**63),
        lambda lattice: graph.difference(lattice, [1], max_arcs=2**63),
        lambda lattice: graph.union([lattice, lattice], max_arcs=2**63),
    ],
)
def test_arguments_that_no_kernel_can_store_are_refused(call: Callable[[Lattice], object]) -> None:
    with pytest.raises(OptionError, match=r" is \d+, but must be at most \d+$"):
        call(LINEAR)


@pytest.mark.parametrize("message", CALLS)
def test_invalid_calls_raise_their_error(message: str, tmp_path: Path) -> None:
    kind, call = CALLS[message]
    with pytest.raises(kind) as caught:
        call(tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize("command", ["train", "train context", "train context-lm", "lm convert"])
def test_models_are_not_written_to_stdout(ninja, folder, command):
    Path("text").write_text("a b\n")
    source = "english" if command == "lm convert" else "text"
    options = ["--dev", "text"] if command == "train" else []
    code, _, errors = ninja(*command.split(), source, *options, "-o", "-")
    assert (code, "a model cannot be written to stdout; specify the name of a file" in errors) == (2, True), errors
    assert [path.name for path in Path().iterdir()] == ["text"]
