"""Run ONNX language models on onnxruntime.

Inputs and outputs are recognised by their names; docs/networks.md lists these names.
`ninja.lm.imported.onnx_check` checks a file before onnxruntime reads it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch

from ninja.errors import ModelError, OptionError
from ninja.libraries import needed_for
from ninja.lm.compute import reason
from ninja.lm.imported import onnx_check
from ninja.lm.imported.lazy import HistoryLM, StepLM, language_model
from ninja.lm.imported.network import HistoryNetwork, State, StepNetwork, state_part
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import BOS, EOS, UNK, Words, find

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
# Affixes of the names of a state's input and output.
_OLD, _NEW = re.compile("^(old_|prev_|in_)|(_in|_prev|_old)$"), re.compile("^(new_|next_|out_)|(_out|_new|_next)$")
EXPECTED = "expected `word` [batch] and states, or `words` [batch, time], and an output `logits` or `logprob`"


def open_model(path: str, options: LoadOptions) -> StepLM | HistoryLM:
    """Open an ONNX model as a language model; see `ninja.lm.load`.

    Raises:
        ModelError: The file is damaged, has unsupported inputs or outputs, or is rejected by `onnx_check.check`.
    """
    onnx_check.check(path)
    session = _session(path, options.device)
    metadata = session.get_modelmeta().custom_metadata_map
    inputs = {tensor.name: tensor for tensor in session.get_inputs()}
    scores = [tensor.name for tensor in session.get_outputs() if tensor.name in SCORES]
    if len(scores) != 1 or ("word" in inputs) == ("words" in inputs):
        raise _signature_error(session, path)
    normalize = scores[0] == "logits" if options.normalize is None else options.normalize
    count = metadata.get("unk_words", "")
    words = Words.of(
        find(path, options.words, metadata.get("words")),
        path,
        bos=metadata.get("bos", BOS),
        eos=metadata.get("eos", EOS),
        unk=metadata.get("unk", UNK),
        unk_words=int(count) if count.isdecimal() and int(count) > 0 else None,
    )
    network: StepNetwork | HistoryNetwork
    if "word" in inputs:
        network = _steps(session, scores[0], metadata.get("states", ""), path)
    else:
        network = _histories(session, scores[0], path)
    # onnxruntime takes and returns tensors on the CPU.
    return language_model(network, words, replace(options, normalize=normalize, device="cpu"), path)


def _run(session: Any, outputs: list[str], feeds: dict[str, torch.Tensor], path: str) -> list[torch.Tensor]:
    try:
        arrays = session.run(outputs, {name: tensor.contiguous().numpy() for name, tensor in feeds.items()})
    except Exception as error:  # onnxruntime raises a dozen types without a common base
        raise ModelError(f"onnxruntime cannot run this model: {reason(error)}", path) from error
    return [torch.from_numpy(array) for array in arrays]


def _steps(session: Any, score: str, pairs: str, path: str) -> StepNetwork:
    """Wrap a model that reads one word and a state per call."""
    inputs = {tensor.name: tensor for tensor in session.get_inputs()}
    word = inputs.pop("word")
    if word.type not in INTEGERS or len(word.shape) not in (1, 2) or word.shape[1:] not in ([], [1]):
        raise _signature_error(session, path)
    names = _pairs(list(inputs), [tensor.name for tensor in session.get_outputs() if tensor.name != score], pairs, path)
    parts = []
    for name in names:
        part = inputs[name]
        if part.type not in TYPES:
            supported = ", ".join(TYPES)
            raise ModelError(f"the state {name} has the type {part.type}; supported types: {supported}", path)
        parts.append(state_part(name, part.shape, TYPES[part.type], word.shape[0], path))
    outputs, ones = [score, *names.values()], tuple(word.shape[1:])

    def run(words: torch.Tensor, state: State) -> tuple[torch.Tensor, list[torch.Tensor]]:
        feeds = {"word": words.to(TYPES[word.type]).reshape(-1, *ones), **dict(zip(names, state, strict=True))}
        scores, *after = _run(session, outputs, feeds, path)
        return scores[:, 0] if scores.dim() == 3 and scores.shape[1] == 1 else scores, after

    return StepNetwork(run, parts, batch=word.shape[0] if isinstance(word.shape[0], int) else None, path=path)


def _histories(session: Any, score: str, path: str) -> HistoryNetwork:
    """Wrap a model that reads a whole history per call."""
    inputs = {tensor.name: tensor for tensor in session.get_inputs()}
    words, lengths = inputs.pop("words"), inputs.pop("lengths", None)
    if inputs or words.type not in INTEGERS or len(words.shape) != 2 or isinstance(words.shape[1], int):
        raise _signature_error(session, path)

    def run(history: torch.Tensor) -> torch.Tensor:
        feeds = {"words": history.to(TYPES[words.type])}
        if lengths is not None:
            kind = TYPES.get(lengths.type, torch.int64)
            feeds["lengths"] = torch.full((len(history),), history.shape[1], dtype=kind)
        return _run(session, [score], feeds, path)[0]

    return HistoryNetwork(run, batch=words.shape[0] if isinstance(words.shape[0], int) else None, path=path)


def _session(path: str, device: str) -> Any:
    with needed_for("an ONNX model", path):
        import onnxruntime
    if device == "auto":
        device = "cuda" if "CUDAExecutionProvider" in onnxruntime.get_available_providers() else "cpu"
    try:
        requested = torch.device(device)  # onnxruntime may support the device, although torch cannot use it
    except RuntimeError as error:
        raise OptionError(f"{device!r} is not a device: {error}") from error
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(requested.type, requested.type)
    if provider not in onnxruntime.get_available_providers():
        raise OptionError(
            f"the installed onnxruntime cannot use the device {device!r}; install onnxruntime-gpu for CUDA"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # the log would repeat errors that are raised as exceptions
    # Otherwise, the file name could select a format that `onnx_check` has not checked.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    number = {"device_id": requested.index or 0} if requested.type == "cuda" else {}
    try:
        return onnxruntime.InferenceSession(path, options, providers=[(provider, number)])
    except Exception as error:  # onnxruntime raises a dozen types without a common base
        raise ModelError(f"onnxruntime cannot load this model: {reason(error)}", path) from error


def _pairs(inputs: list[str], outputs: list[str], declared: str, path: str) -> dict[str, str]:
    """Map the name of each state input to the name of the output that contains its new value.

    Args:
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        declared: ``input=output`` pairs from the metadata, which take precedence over pairs with matching names.
        path: Path of the model, for messages.
    """
    by_stem = {_NEW.sub("", name): name for name in outputs}
    pairs = {name: by_stem.get(_OLD.sub("", name)) for name in inputs}
    for pair in declared.split():
        old, _, new = pair.partition("=")
        if old not in inputs or new not in outputs:
            names = f"the inputs are {', '.join(inputs)} and the outputs {', '.join(outputs)}"
            raise ModelError(f"the value of the metadata key 'states' contains {pair!r}, but {names}", path)
        pairs[old] = new
    missing = [name for name, output in pairs.items() if output is None]
    if missing:
        names = ", ".join(outputs) or "none"
        message = f"the state {missing[0]} has no output, such as new_{missing[0]}; the outputs are {names}"
        raise ModelError(f"{message}; {EXPECTED}", path)
    return {old: new for old, new in pairs.items() if new is not None}


def _signature_error(session: Any, path: str) -> ModelError:
    """Return the error for unsupported inputs or outputs."""
    inputs, outputs = (
        ", ".join(f"{tensor.name} {tensor.type} {tensor.shape}" for tensor in tensors) or "none"
        for tensors in (session.get_inputs(), session.get_outputs())
    )
    return ModelError(f"the inputs are {inputs} and the outputs {outputs}; {EXPECTED}", path)
