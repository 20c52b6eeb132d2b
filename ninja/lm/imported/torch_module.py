"""Networks written for torch: your own modules and TorchScript archives; docs/networks.md says what they must have.

What loading runs: a TorchScript archive is a program in a language of its own. torch reads its values with a reader
that knows TorchScript's types alone, no Python pickle, and interprets its code. That language has two functions that
touch files; archives that name them, or operators of other libraries than torch's own, are refused before anything is
loaded. Python modules are yours: give code, not a file.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

import torch

from ninja.errors import ModelError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.compute import device_of
from ninja.lm.imported.lazy import HistoryLM, StepLM, language_model
from ninja.lm.imported.network import HistoryNetwork, State, StatePart, StepNetwork
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import BESIDE, BOS, EOS, UNK, Words, find

BATCH_DIM = "batch_dim.txt"
_FORBIDDEN = re.compile(
    r"\b(save|from_file)\b|\bops\s*\.\s*(?!(?:aten|prim|quantized)\b)(\w+)"
)  # operators as ops.LIBRARY.NAME
_LARGEST_CODE = 64 * 2**20  # bytes of program text


def from_module(
    module: torch.nn.Module,
    words: SymbolTable,
    *,
    batch_dim: int | Sequence[int] = 0,
    bos: str = BOS,
    eos: str = EOS,
    unk: str = UNK,
    unk_words: int | None = None,
    device: str = "cpu",
    normalize: bool = True,
    max_batch: int | None = None,
) -> StepLM | HistoryLM:
    """Use a torch module as a language model.

    Args:
        module: It has `step` and `initial_state`, or `forward` on whole histories; see docs/networks.md. It is
            put into evaluation mode, in its place.
        words: Its vocabulary: as many words, ids from 0, as it has scores.
        batch_dim: Which dimension of the state's tensors is the batch, for all or for each; 1 for `nn.LSTM`.
        bos: The word that begins a sentence.
        eos: The word that ends one; the same word may do both.
        unk: The word that stands for unknown ones, if there is one.
        unk_words: How many distinct words of the training text it stood for, where known.
        device: Where to compute; the module is moved there.
        normalize: Make the scores log-probabilities; without, they are taken as they are.
        max_batch: Most histories the module sees at once; None = as many as a call brings.

    Raises:
        ModelError: The module has not these methods, gives other shapes, or has not as many scores as there are words.
        OptionError: `max_batch` is below 1, or torch has no such device.
    """
    known = Words.of(words, bos=bos, eos=eos, unk=unk, unk_words=unk_words)
    return _opened(module, known, batch_dim, LoadOptions(device, normalize, max_batch))


def _opened(
    module: torch.nn.Module, words: Words, batch_dim: int | Sequence[int], options: LoadOptions
) -> StepLM | HistoryLM:
    device = device_of(options.device)
    module = module.to(device).eval()
    network = _steps(module, batch_dim, device) if hasattr(module, "step") else HistoryNetwork(module)
    return language_model(network, words, options)


def _steps(module: Any, batch_dim: int | Sequence[int], device: torch.device) -> StepNetwork:
    """Return a module with `step` and `initial_state` as a network."""
    if not hasattr(module, "initial_state"):
        raise ModelError(f"{type(module).__name__} has step but no initial_state(batch), which begins a sentence")
    with torch.inference_mode():
        state = module.initial_state(1)
    single = isinstance(state, torch.Tensor)
    parts = _parts(state)
    axes = [batch_dim] * len(parts) if isinstance(batch_dim, int) else list(batch_dim)
    if len(axes) != len(parts):
        raise ModelError(f"{len(parts)} parts of the state, but {len(axes)} batch dimensions")
    for part, axis in zip(parts, axes, strict=True):
        if not -part.dim() <= axis < part.dim() or part.shape[axis] != 1:
            found = list(part.shape)
            raise ModelError(f"initial_state(1) gives {found}: dimension {axis} is no batch of 1; set batch_dim")

    def run(words: torch.Tensor, before: State) -> tuple[torch.Tensor, State]:
        score, after = module.step(words, before[0] if single else before)
        return score, _parts(after)

    named = [
        StatePart(str(number), part.select(axis, 0).to(device), axis)
        for number, (part, axis) in enumerate(zip(parts, axes, strict=True))
    ]
    return StepNetwork(run, named)


def _parts(state: Any) -> State:
    parts = (state,) if isinstance(state, torch.Tensor) else state
    if not isinstance(parts, tuple | list) or not all(isinstance(part, torch.Tensor) for part in parts):
        raise ModelError(f"the state is {type(state).__name__}, not a tensor or a tuple of tensors")
    return tuple(parts)


def open_torchscript(path: str, options: LoadOptions) -> StepLM | HistoryLM:
    """Open a TorchScript archive as a language model, see `ninja.lm.load`.

    Raises:
        ModelError: The archive is damaged, may touch files, or is no language model as docs/networks.md has it.
    """
    archive = _checked(path)
    extra = {BESIDE: "", BATCH_DIM: ""}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's wish that we had torch.export's archives
            module = torch.jit.load(archive, map_location="cpu", _extra_files=extra)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"torch cannot load it: {_line(error)}", path) from error
    inside, batch = (value.decode() if isinstance(value, bytes) else value for value in extra.values())
    vocabulary = find(path, options.words, inside or None)
    try:
        batch_dim = [int(number) for number in batch.split()]
    except ValueError as error:
        raise ModelError(f"{BATCH_DIM} inside holds {batch[:60]!r}, not integers", path) from error
    try:
        wanted = batch_dim if len(batch_dim) > 1 else (batch_dim or [0])[0]
        return _opened(module, Words.of(vocabulary, path), wanted, options)
    except ModelError as error:
        raise ModelError(error.message, path) from error
    except torch.jit.Error as error:
        raise ModelError(f"its code fails: {_line(error)}", path) from error


def _checked(path: str) -> io.BytesIO:
    """Check that an archive's code touches no files, and return a copy, so that torch reads the very bytes checked."""
    copy = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as checked:
            members = archive.infolist()
            code = [each for each in members if each.filename.lower().endswith((".py", ".debug_pkl"))]
            packed = [each.filename for each in members if each not in code and each.compress_type]
            names = {each.filename.lower() for each in members}  # torch looks for them in either case
            if sum(each.file_size for each in code) > _LARGEST_CODE or packed or len(names) < len(members):
                raise ModelError("packed anew, or absurdly much code; give it as torch.jit.save wrote it", path)
            for each in members:
                content = archive.read(each)
                program = content.decode(errors="replace") if each.filename.lower().endswith(".py") else ""
                found = _FORBIDDEN.search(program)
                if found:
                    name = found[1] or f"ops.{found[2]}"
                    message = f"its code names {name!r}, which may touch files or is not torch's own; not loaded"
                    raise ModelError(message, path)
                checked.writestr(each.filename, content)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise ModelError(f"a truncated or damaged archive ({error}); copy it again", path) from error
    copy.seek(0)
    return copy


def _line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
