"""ONNX models on onnxruntime, recognised by the names of their inputs and outputs.

A network with a state reads one word:

    in   word       int64 or int32 [batch] or [batch, 1]
         others     the state's parts; zeros before ``<s>``
    out  logits     float [batch, words] or [batch, 1, words], to be normalised; or `logprob`, natural-log probabilities
         others     the state's new parts

A network without one reads the whole history, again for every word:

    in   words      int64 or int32 [batch, time], ``<s>`` first
         lengths    int64 or int32 [batch], if it wants them
    out  logits     float [batch, time, words], or `logprob`: what may follow each word

A part of a state is found again under its own name with ``new_``, ``next_`` or ``out_`` before it or ``_out``,
``_new`` or ``_next`` behind it; the input's name may have ``old_``, ``prev_``, ``in_``, ``_in``, ``_prev``, ``_old``.
Its batch dimension is the one named, or as large, as the word's, else the only one without a size. Where a batch has a
fixed size, the network is run in such batches.

The model's metadata may hold `words` (a word a line, by id; or word and id), `bos`, `eos`, `unk` (the words that begin
and end sentences and stand for unknown ones, where these are not ``<s>``, ``</s>``, ``<unk>``), `unk_words` (how many
distinct words of the training text the last one stood for) and `states` (``in=out`` pairs between blanks, where the
names do not tell). Without `words` there is ``words.txt`` beside the model.

An ONNX model is a program without access to files, but for weights that it keeps in other ones: these must lie in its
directory. Operators that onnxruntime does not have itself are refused.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import torch

from ninja.errors import DependencyError, ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.imported.protobuf import Message
from ninja.lm.imported.refeeding import HistoryLM
from ninja.lm.imported.stepping import State, StepLM, batch_axis, count_words
from ninja.lm.imported.vocabulary import Words, find
from ninja.lm.text import BOS, EOS, UNK

if TYPE_CHECKING:
    from ninja.lm.load import Running

TYPES = {
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(double)": torch.float64,
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(bool)": torch.bool,
}
INTEGERS = ("tensor(int64)", "tensor(int32)")
SCORES = ("logits", "logprob")
EXPECTED = (
    "expected `word` [batch] and states, or `words` [batch, time], and an output `logits` or `logprob`; "
    "see the documentation of ninja.lm.imported.onnx"
)


# Where tensors lie: fields by number, and what they hold.
_WITHIN = {
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}


def open_model(path: str, running: Running) -> StepLM | HistoryLM:
    """Open an ONNX model as a language model, see `ninja.lm.load`.

    Raises:
        ModelError: The file is damaged, has other inputs and outputs, or weights outside its directory.
        OptionError: An option is out of range, or onnxruntime cannot use the device.
        DependencyError: onnxruntime is not installed.
        OSError: A file cannot be read.
    """
    check_external_data(path)
    session = _session(path, running.device)
    metadata = session.get_modelmeta().custom_metadata_map
    vocabulary = find(path, running.words, metadata.get("words"))
    inputs = {each.name: each for each in session.get_inputs()}
    scores = [each.name for each in session.get_outputs() if each.name in SCORES]
    if len(scores) != 1 or ("word" in inputs) == ("words" in inputs):
        raise _other(session, path)
    wanted = scores[0] == "logits" if running.normalize is None else running.normalize
    if "words" in inputs:
        reader = WholeHistory(session, scores[0], path)
        checked = _words(vocabulary, reader.num_words(), metadata, path)
        return HistoryLM(reader, checked, normalize=wanted, max_batch=running.max_batch)
    network = OneStep(session, scores[0], metadata.get("states", ""), path)
    checked = _words(vocabulary, count_words(network, torch.device("cpu")), metadata, path)
    return StepLM(network, checked, normalize=wanted, max_batch=running.max_batch)


class _Runner:
    """A session with its name, its score's and the type of its words."""

    def __init__(self, session: Any, score: str, path: str) -> None:
        self._session = session
        self._score = score
        self._path = path

    def _run(self, outputs: list[str], feeds: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        try:
            found = self._session.run(outputs, {name: each.contiguous().numpy() for name, each in feeds.items()})
        except Exception as error:  # onnxruntime raises a dozen types without a common base
            if "llocat" in str(error):  # out of memory is not the model's fault
                raise
            raise ModelError(f"onnxruntime cannot run it: {_line(error)}", self._path) from error
        return [torch.from_numpy(each) for each in found]

    def _shape(self, name: str, score: torch.Tensor, expected: str) -> ModelError:
        return ModelError(f"the output {name} has the shape {list(score.shape)}, not {expected}", self._path)


class OneStep(_Runner):
    """A model with a state as a `StepNetwork`."""

    def __init__(self, session: Any, score: str, pairs: str, path: str) -> None:
        """Find out about the state.

        Raises:
            ModelError: A part has no output, no type or no sizes, or the word is no integer.
        """
        super().__init__(session, score, path)
        inputs = {each.name: each for each in session.get_inputs()}
        word = inputs.pop("word")
        if word.type not in INTEGERS or len(word.shape) not in (1, 2) or word.shape[1:] not in ([], [1]):
            raise _other(session, path)
        outputs = {each.name: each for each in session.get_outputs() if each.name != score}
        names = _pairs(list(inputs), list(outputs), pairs, path)
        self.batch = word.shape[0] if isinstance(word.shape[0], int) else None
        self._word = TYPES[word.type], tuple(word.shape[1:])
        self._states = []
        for old, new in names.items():
            part = inputs[old]
            axis = batch_axis(old, part.shape, word.shape[0], path)
            sizes = [size for place, size in enumerate(part.shape) if place != axis]
            if part.type not in TYPES or not all(isinstance(size, int) for size in sizes):
                message = f"the state {old} is {part.type} {part.shape}; all sizes but the batch's must be fixed"
                raise ModelError(message, path)
            self._states.append((old, new, axis, torch.zeros(sizes, dtype=TYPES[part.type])))

    def begin(self) -> State:
        """See `StepNetwork.begin`."""
        return tuple(start for *_, start in self._states)

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """See `StepNetwork.step`."""
        dtype, more = self._word
        feeds = {"word": word.to(dtype).reshape(-1, *more)}
        feeds |= {old: part.movedim(0, axis) for (old, _, axis, _), part in zip(self._states, state, strict=True)}
        score, *parts = self._run([self._score, *(new for _, new, *_ in self._states)], feeds)
        if score.dim() == 3 and score.shape[1] == 1:
            score = score[:, 0]
        if score.dim() != 2 or len(score) != len(word):
            raise self._shape(self._score, score, "[batch, words]")
        after = []
        for (_, new, axis, start), part in zip(self._states, parts, strict=True):
            if part.dim() != start.dim() + 1 or part.movedim(axis, 0).shape != (len(word), *start.shape):
                raise self._shape(new, part, "that of the state it is the next one of")
            after.append(part.movedim(axis, 0))
        return score, tuple(after)


class WholeHistory(_Runner):
    """A model without a state as a `HistoryNetwork`."""

    def __init__(self, session: Any, score: str, path: str) -> None:
        """Find out about the inputs.

        Raises:
            ModelError: There are others, or no words [batch, time].
        """
        super().__init__(session, score, path)
        inputs = {each.name: each for each in session.get_inputs()}
        words, lengths = inputs.pop("words"), inputs.pop("lengths", None)
        if inputs or words.type not in INTEGERS or len(words.shape) != 2 or isinstance(words.shape[1], int):
            raise _other(session, path)
        self.batch = words.shape[0] if isinstance(words.shape[0], int) else None
        self._dtype = TYPES[words.type]
        self._lengths = None if lengths is None else TYPES.get(lengths.type, torch.int64)

    def num_words(self) -> int:
        """Return how many words the model scores: it reads word 0 and is asked."""
        return self.score(torch.zeros(self.batch or 1, 1, dtype=torch.int64)).shape[1]

    def score(self, words: torch.Tensor) -> torch.Tensor:
        """See `HistoryNetwork.score`."""
        feeds = {"words": words.to(self._dtype)}
        if self._lengths is not None:
            feeds["lengths"] = torch.full((len(words),), words.shape[1], dtype=self._lengths)
        [score] = self._run([self._score], feeds)
        if score.dim() != 3 or score.shape[:2] != words.shape:
            raise self._shape(self._score, score, "[batch, time, words]")
        return score[:, -1]


def check_external_data(path: str) -> None:
    """Refuse a model whose weights lie outside its directory, or that is no whole ONNX file.

    Raises:
        ModelError: It is truncated, or names such a file.
        OSError: It cannot be read.

    Source: onnx/onnx.proto: the fields that hold tensors and, in control flow, further graphs.
    """
    with open(path, "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    model = Message(memoryview(content), path)
    if 7 not in model:
        raise ModelError("an ONNX file without a graph; it is damaged or truncated", path)
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    waiting = [("graph", each) for each in model.messages(7)] + [("function", each) for each in model.messages(25)]
    while waiting:
        kind, message = waiting.pop()
        if kind != "tensor":
            waiting += [(inner, each) for number, inner in _WITHIN[kind].items() for each in message.messages(number)]
            continue
        for entry in message.messages(13):
            place = os.path.realpath(os.path.join(folder, entry.text(2)))
            if entry.text(1) == "location" and os.path.commonpath((folder, place)) != folder:
                name = message.text(8)
                raise ModelError(f"the weight {name!r} lies outside the model's directory, in {entry.text(2)!r}", path)


def _session(path: str, device: str) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise DependencyError("ONNX models need onnxruntime; pip install 'ninja-asr[onnx]'", path) from error
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise OptionError(f"no such device, {device!r}: {error}") from error
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(wanted.type, wanted.type)
    if provider not in onnxruntime.get_available_providers():
        raise OptionError(f"onnxruntime here cannot use the device {device!r}; install onnxruntime-gpu for CUDA")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # what it would print comes as an exception too
    number = {"device_id": wanted.index or 0} if wanted.type == "cuda" else {}
    try:
        return onnxruntime.InferenceSession(path, options, providers=[(provider, number)])
    except Exception as error:  # onnxruntime raises a dozen types without a common base
        raise ModelError(f"onnxruntime cannot load it: {_line(error)}", path) from error


def _words(vocabulary: SymbolTable, num_words: int, metadata: dict[str, str], path: str) -> Words:
    bos, eos, unk = metadata.get("bos", BOS), metadata.get("eos", EOS), metadata.get("unk", UNK)
    count = metadata.get("unk_words", "")
    unk_words = int(count) if count.isdecimal() and int(count) > 0 else None
    return Words.of(vocabulary, num_words, path, bos=bos, eos=eos, unk=unk, unk_words=unk_words)


def _pairs(inputs: list[str], outputs: list[str], declared: str, path: str) -> dict[str, str]:
    """Say under which name each part of the state is found again."""
    by_stem = {_stem(name, ("new_", "next_", "out_"), ("_out", "_new", "_next")): name for name in outputs}
    pairs = {name: by_stem.get(_stem(name, ("old_", "prev_", "in_"), ("_in", "_prev", "_old"))) for name in inputs}
    for pair in declared.split():
        old, _, new = pair.partition("=")
        if old not in inputs or new not in outputs:
            message = f"its metadata pairs {pair!r}; inputs are {', '.join(inputs)}, outputs {', '.join(outputs)}"
            raise ModelError(message, path)
        pairs[old] = new
    lost = [name for name, found in pairs.items() if found is None]
    if lost:
        found = ", ".join(outputs) or "none"
        message = f"no output for the state {lost[0]}, such as new_{lost[0]}; outputs are {found}"
        raise ModelError(f"{message}; {EXPECTED}", path)
    return {old: new for old, new in pairs.items() if new is not None}


def _stem(name: str, before: tuple[str, ...], behind: tuple[str, ...]) -> str:
    for prefix in before:
        name = name.removeprefix(prefix)
    for suffix in behind:
        name = name.removesuffix(suffix)
    return name


def _other(session: Any, path: str) -> ModelError:
    """Return the error that a model has other inputs and outputs than we run."""
    inputs, outputs = (
        ", ".join(f"{each.name} {each.type} {each.shape}" for each in some) or "none"
        for some in (session.get_inputs(), session.get_outputs())
    )
    return ModelError(f"inputs {inputs}; outputs {outputs}; {EXPECTED}", path)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
