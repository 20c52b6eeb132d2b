"""Run pairs of Caffe2 nets as language models on torch, without Caffe2; docs/networks.md describes the format.

The scope prefix of a blob name is part of a state's name (``rnn/hidden_t_prev``), but is ignored for the scores
(``rnn/logits`` means ``logits``). The optional argument `unk_words` of the second net is the number of
distinct words that ``<unk>`` replaced in the training text.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import torch

from ninja.errors import ModelError
from ninja.lm.compute import device_of, reason
from ninja.lm.imported.caffe2_net import INIT, PREDICT, Net, Operator, read
from ninja.lm.imported.caffe2_operators import MAX_FILL, OPERATORS, Tensors, runner
from ninja.lm.imported.lazy import HistoryLM, StepLM, language_model
from ninja.lm.imported.network import State, StatePart, StepNetwork
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import Words, find

FED = ("word", "seq_lengths", "timestep")
SCORES = ("logits", "logprob", "probability")
Function = Callable[[Operator, Tensors], Tensors]
Blobs = dict[str, torch.Tensor]
_LARGEST_FILL = 4 * MAX_FILL  # maximum number of constant values in a net


def open_nets(path: str, options: LoadOptions) -> StepLM | HistoryLM:
    """Open a directory with a pair of Caffe2 nets as a language model; see `ninja.lm.load`.

    Raises:
        ModelError: A net is damaged, or has unsupported operators, inputs or outputs.
    """
    init, predict = (
        read(os.path.join(path, next(name for name in os.listdir(path) if name.endswith(end))))
        for end in (INIT, PREDICT)
    )
    scores = [name for name in predict.external_output if name.split("/")[-1] in SCORES]
    network = _network(init, predict, scores, device_of(options.device))
    if options.normalize is None:
        options = replace(options, normalize=scores[0].split("/")[-1] == "logits")
    count = predict.arguments.get("unk_words")
    unk_words = count if isinstance(count, int) and count > 0 else None
    words = Words.of(find(path, options.words, None), path, unk_words=unk_words)
    return language_model(network, words, options, path)


def _network(init: Net, predict: Net, scores: list[str], device: torch.device) -> StepNetwork:
    """Return the predict net as a `StepNetwork`, with weights from the init net; check that both nets are complete."""
    for operator in (*init.operators, *predict.operators):
        if operator.type not in OPERATORS:
            operators = ", ".join(OPERATORS)
            raise operator.error(f"this operator is not supported; supported operators: {operators}")
    filled = _filled(init)
    outputs = {name for operator in predict.operators for name in operator.outputs}
    if "word" not in predict.external_input:
        inputs = ", ".join(name for name in predict.external_input if name not in filled) or "weights only"
        message = (
            f"the input 'word' is missing; the inputs are {inputs}, but must be word, NAME_prev for each state, and "
            "optionally seq_lengths and timestep"
        )
        raise ModelError(message, predict.path)
    missing = [n for n in predict.external_input if n not in filled and n not in FED and not _is_state(n)]
    if missing:
        message = f"{init.path} does not fill the inputs {', '.join(missing)}"
        raise ModelError(f"{message}; export both nets from the same model", predict.path)
    if len(scores) != 1 or scores[0] not in outputs:
        external_outputs = ", ".join(predict.external_output) or "none"
        raise ModelError(
            f"the outputs are {external_outputs}; expected exactly one of {', '.join(SCORES)}", predict.path
        )
    names = [name for name in predict.external_input if _is_state(name)]
    parts = [_part(name, filled, outputs, predict) for name in names]
    weights = {name: weight.to(device) for name, weight in filled.items() if not _is_state(name)}
    constant = {name: weight for name, weight in weights.items() if name not in outputs and name not in FED}
    steps = [(operator, runner(operator, constant)) for operator in predict.operators]

    def run(word: torch.Tensor, state: State) -> tuple[torch.Tensor, list[torch.Tensor]]:
        blobs = {**weights, "word": word, **dict(zip(names, state, strict=True))}
        blobs["seq_lengths"] = torch.ones(len(word), dtype=torch.int32, device=word.device)
        blobs["timestep"] = torch.zeros(1, dtype=torch.int32, device=word.device)
        for operator, function in steps:
            outputs = _run(operator, blobs, function)
            if not operator.inputs:  # an operator without inputs creates its constants on the CPU
                outputs = [tensor.to(word.device) for tensor in outputs]
            blobs |= zip(operator.outputs, outputs, strict=False)
        score = blobs[scores[0]]
        if score.dim() == 3 and score.shape[0] == 1:
            score = score[0]
        probability = scores[0].split("/")[-1] == "probability"
        return score.log() if probability else score, [blobs[after] for _, after in parts]

    return StepNetwork(run, [part for part, _ in parts], path=predict.path)


def _filled(init: Net) -> Blobs:
    """Run the init net and return the blobs that it computes: the weights and the initial states."""
    filled: Blobs = {}
    total = 0
    with torch.inference_mode():
        for operator in init.operators:
            outputs = _run(operator, filled, OPERATORS[operator.type])
            total += sum(tensor.numel() for tensor in outputs if operator.type == "ConstantFill")
            if total > _LARGEST_FILL:
                raise operator.error(f"the net has more than {_LARGEST_FILL} constant values")
            filled |= zip(operator.outputs, outputs, strict=False)
    return filled


def _is_state(name: str) -> bool:
    return name.endswith("_prev")


def _part(name: str, filled: Blobs, outputs: set[str], predict: Net) -> tuple[StatePart, str]:
    """Return a state tensor, and the name of the output that contains its value after the next word."""
    stem = name.removesuffix("_prev")
    after = next((name for name in (stem, f"{stem}_t") if name in outputs and name in predict.external_output), None)
    if after is None:
        message = f"the state {name} has no output {stem} or {stem}_t; add its new value to the outputs"
        raise ModelError(message, predict.path)
    start = filled.get(name)
    if start is None:
        raise ModelError(
            f"{INIT} does not fill the state {name}; fill it with zeros of shape [1, 1, cells]", predict.path
        )
    axis = start.dim() - 2
    if axis < 0 or start.shape[axis] != 1:
        message = f"the initial state {name} has shape {list(start.shape)}, expected [1, 1, cells] or [1, cells]"
        raise ModelError(message, predict.path)
    return StatePart(name, start.squeeze(axis), axis), after


def _run(operator: Operator, blobs: Blobs, function: Function) -> list[torch.Tensor]:
    missing = [name for name in operator.inputs if name not in blobs]
    if missing:
        raise operator.error(
            f"its input {missing[0]!r} is neither an output of an earlier operator nor an input of the net"
        )
    inputs = [blobs[name] for name in operator.inputs]
    try:
        outputs = list(function(operator, inputs))
    except ModelError:
        raise
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in zip(operator.inputs, inputs, strict=True))
        raise operator.error(f"{reason(error)} (inputs: {shapes or 'none'})") from error
    if len(outputs) < len(operator.outputs):
        declared = len(operator.outputs)
        raise operator.error(f"the net declares {declared} outputs, but this operator computes {len(outputs)}")
    return outputs
