"""Language models as pairs of Caffe2 nets, read without Caffe2 and run on torch; docs/networks.md describes them.

Scopes before the name of a blob (``rnn/hidden_t_prev``) are part of a state's name; ``rnn/logits`` is ``logits``. The
second net may say in an argument `unk_words` how many distinct words of the training text ``<unk>`` stood for.
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
_LARGEST_FILL = 4 * MAX_FILL  # values of all constants of a net together


def open_nets(path: str, options: LoadOptions) -> StepLM | HistoryLM:
    """Open a directory with two nets as a language model, see `ninja.lm.load`.

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
    """Fill the weights, check that nothing is missing, and return the second net as a network."""
    for operator in (*init.operators, *predict.operators):
        if operator.type not in OPERATORS:
            known = ", ".join(OPERATORS)
            raise operator.error(f"an operator that Ninja does not run; it runs {known}")
    filled = _filled(init)
    outputs = {name for operator in predict.operators for name in operator.outputs}
    if "word" not in predict.external_input:
        inputs = ", ".join(name for name in predict.external_input if name not in filled) or "none but weights"
        message = f"no input `word`; found {inputs}; expected word, NAME_prev for each state, seq_lengths, timestep"
        raise ModelError(message, predict.path)
    missing = [n for n in predict.external_input if n not in filled and n not in FED and not _is_state(n)]
    if missing:
        raise ModelError(f"inputs that {init.path} does not fill: {', '.join(missing)}", predict.path)
    if len(scores) != 1 or scores[0] not in outputs:
        external_outputs = ", ".join(predict.external_output) or "none"
        raise ModelError(f"outputs: {external_outputs}; expected exactly one of {', '.join(SCORES)}", predict.path)
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
            if not operator.inputs:  # constants are made on the CPU
                outputs = [tensor.to(word.device) for tensor in outputs]
            blobs |= zip(operator.outputs, outputs, strict=False)
        score = blobs[scores[0]]
        if score.dim() == 3 and score.shape[0] == 1:
            score = score[0]
        probability = scores[0].split("/")[-1] == "probability"
        return score.log() if probability else score, [blobs[after] for _, after in parts]

    return StepNetwork(run, [part for part, _ in parts], path=predict.path)


def _filled(init: Net) -> Blobs:
    """Return the blobs that a net of fills makes."""
    filled: Blobs = {}
    total = 0
    with torch.inference_mode():
        for operator in init.operators:
            outputs = _run(operator, filled, OPERATORS[operator.type])
            total += sum(tensor.numel() for tensor in outputs if operator.type == "ConstantFill")
            if total > _LARGEST_FILL:
                raise operator.error(f"more than {_LARGEST_FILL} constants in all")
            filled |= zip(operator.outputs, outputs, strict=False)
    return filled


def _is_state(name: str) -> bool:
    return name.endswith("_prev")


def _part(name: str, filled: Blobs, outputs: set[str], predict: Net) -> tuple[StatePart, str]:
    """Return a part of the state, and the output with its value after a word."""
    stem = name.removesuffix("_prev")
    after = next((name for name in (stem, f"{stem}_t") if name in outputs and name in predict.external_output), None)
    if after is None:
        raise ModelError(f"no output {stem} or {stem}_t for the state {name}", predict.path)
    start = filled.get(name)
    if start is None:
        raise ModelError(f"{INIT} does not fill the state {name}; let it, with [1, 1, cells] zeros", predict.path)
    axis = start.dim() - 2
    if axis < 0 or start.shape[axis] != 1:
        message = f"the start of the state {name} is {list(start.shape)}, not [1, 1, cells] or [1, cells]"
        raise ModelError(message, predict.path)
    return StatePart(name, start.squeeze(axis), axis), after


def _run(operator: Operator, blobs: Blobs, function: Function) -> list[torch.Tensor]:
    missing = [name for name in operator.inputs if name not in blobs]
    if missing:
        raise operator.error(f"nothing makes its input {missing[0]!r}")
    inputs = [blobs[name] for name in operator.inputs]
    try:
        outputs = list(function(operator, inputs))
    except ModelError:
        raise
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in zip(operator.inputs, inputs, strict=True))
        raise operator.error(f"{reason(error)} (inputs: {shapes or 'none'})") from error
    if len(outputs) < len(operator.outputs):
        raise operator.error(f"{len(operator.outputs)} outputs, but it makes {len(outputs)}")
    return outputs
