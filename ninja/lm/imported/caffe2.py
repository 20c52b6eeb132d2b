r"""Language models as Caffe2 nets: read without Caffe2, run on torch.

A directory holds two nets and the vocabulary:

    init_net.pb      fills the weights, and every state's start
    predict_net.pb   reads one word; its external inputs and outputs are
        in   word                int32 or int64 [n]
             NAME_prev           a state, [1, n, cells] or [n, cells]; init_net fills its start, with n = 1
             seq_lengths         int32 [n], always 1; timestep int32 [1], always 0: what LSTMUnit asks for
             anything else       weights, which init_net fills
        out  logits, logprob     [n, words] or [1, n, words]: scores to be normalised; natural-log probabilities;
             or probability      probabilities
             NAME, NAME_t        the new state of each NAME_prev
    words.txt        a word and its id a line

The second net may say in an argument `unk_words` how many distinct words of the training text ``<unk>`` stood for.
Scopes before a name (``rnn/hidden_t_prev``) are part of NAME; ``rnn/logits`` is ``logits``. Files may have a prefix
(``lm_init_net.pb``). Which operators run says `ninja.lm.imported.caffe2_operators.OPERATORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ninja.errors import ModelError, OptionError
from ninja.lm.imported.caffe2_net import Argument, Net, Operator, read
from ninja.lm.imported.caffe2_operators import MAX_FILL, OPERATORS, Tensors, runner
from ninja.lm.imported.recognise import CAFFE2_INIT, CAFFE2_PREDICT, caffe2_nets
from ninja.lm.imported.stepping import State, StepLM, count_words
from ninja.lm.imported.vocabulary import Words, find

if TYPE_CHECKING:
    from ninja.lm.load import Running

FED = ("word", "seq_lengths", "timestep")
SCORES = ("logits", "logprob", "probability")
Function = Callable[[Operator, Tensors], Tensors]
_LARGEST_FILL = 4 * MAX_FILL  # values of all constants of a net together


def open_nets(path: str, running: Running) -> StepLM:
    """Open a directory with two nets as a language model, see `ninja.lm.load`.

    Raises:
        ModelError: A net is damaged, has an operator that we do not run, or other inputs and outputs.
        OptionError: An option is out of range, or torch cannot use the device.
        OSError: A file cannot be read.
    """
    paths = caffe2_nets(path)
    if paths is None:
        raise ModelError(f"not one {CAFFE2_INIT} and one {CAFFE2_PREDICT} in this directory", path)
    try:
        network = Caffe2Network(read(paths[0]), read(paths[1]), torch.device(running.device))
    except (RuntimeError, AssertionError) as error:
        raise OptionError(f"torch cannot use the device {running.device!r}: {error}") from error
    num_words = count_words(network, torch.device(running.device))
    vocabulary = Words.of(find(path, running.words, None), num_words, path, unk_words=network.unk_words)
    wanted = network.scores == "logits" if running.normalize is None else running.normalize
    return StepLM(network, vocabulary, running.device, normalize=wanted, max_batch=running.max_batch)


@dataclass(frozen=True, slots=True)
class _State:
    before: str  # the blob it is read from
    after: str  # and the one it is found in
    start: torch.Tensor  # without the batch dimension
    axis: int  # the batch dimension


class Caffe2Network:
    """Two nets as a `StepNetwork`."""

    batch: int | None = None

    def __init__(self, init: Net, predict: Net, device: torch.device) -> None:
        """Fill the weights and check that everything the nets want is there.

        Raises:
            ModelError: An operator is unknown, or inputs and outputs are not those that the module's text demands.
        """
        self._predict = predict
        for operator in (*init.operators, *predict.operators):
            if operator.type not in OPERATORS:
                known = ", ".join(OPERATORS)
                raise operator.error(f"an operator that Ninja does not run; it runs {known}")
        filled: dict[str, torch.Tensor] = {}
        total = 0
        with torch.inference_mode():
            for operator in init.operators:
                outputs = _run(operator, filled, OPERATORS[operator.type])
                total += sum(each.numel() for each in outputs if operator.type == "ConstantFill")
                if total > _LARGEST_FILL:
                    raise operator.error(f"more than {_LARGEST_FILL} constants in all")
                filled |= zip(operator.outputs, outputs, strict=False)
        made = {name for operator in predict.operators for name in operator.outputs}
        if "word" not in predict.external_input:
            found = ", ".join(name for name in predict.external_input if name not in filled) or "none but weights"
            message = f"no input `word`; found {found}; expected word, NAME_prev for each state, seq_lengths, timestep"
            raise ModelError(message, predict.path)
        missing = [n for n in predict.external_input if n not in filled and n not in FED and not _is_state(n)]
        if missing:
            raise ModelError(f"inputs that {init.path} does not fill: {', '.join(missing)}", predict.path)
        scores = [name for name in predict.external_output if name.split("/")[-1] in SCORES]
        if len(scores) != 1 or scores[0] not in made:
            found = ", ".join(predict.external_output) or "none"
            raise ModelError(f"outputs: {found}; expected exactly one of {', '.join(SCORES)}", predict.path)
        self._states = [_state(name, filled, made, predict) for name in predict.external_input if _is_state(name)]
        self._score = scores[0]
        unk_words = predict.arguments.get("unk_words", Argument()).i
        self.unk_words = unk_words if unk_words is not None and unk_words > 0 else None
        self.scores = scores[0].split("/")[-1]
        self._weights = {name: weight.to(device) for name, weight in filled.items() if not _is_state(name)}
        constant = {name: weight for name, weight in self._weights.items() if name not in made and name not in FED}
        self._steps = [(operator, runner(operator, constant)) for operator in predict.operators]

    def begin(self) -> State:
        """See `StepNetwork.begin`."""
        return tuple(state.start for state in self._states)

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """See `StepNetwork.step`."""
        blobs = dict(self._weights)
        blobs["word"] = word
        blobs["seq_lengths"] = torch.ones(len(word), dtype=torch.int32, device=word.device)
        blobs["timestep"] = torch.zeros(1, dtype=torch.int32, device=word.device)
        blobs |= {each.before: part.movedim(0, each.axis) for each, part in zip(self._states, state, strict=True)}
        for operator, function in self._steps:
            outputs = _run(operator, blobs, function)
            if not operator.inputs:  # a constant does not know where the others are
                outputs = [each.to(word.device) for each in outputs]
            blobs |= zip(operator.outputs, outputs, strict=False)
        score = blobs[self._score]
        if score.dim() == 3 and score.shape[0] == 1:
            score = score[0]
        if score.dim() != 2 or len(score) != len(word):
            message = f"{self._score!r} is {list(score.shape)} for {len(word)} words read, not [words read, all words]"
            raise ModelError(message, self._predict.path)
        new = []
        for each in self._states:
            part = blobs[each.after]
            if part.shape != (*each.start.shape[: each.axis], len(word), *each.start.shape[each.axis :]):
                message = f"the state {each.after!r} has another shape than {each.before!r}: {list(part.shape)}"
                raise ModelError(message, self._predict.path)
            new.append(part.movedim(each.axis, 0))
        return score.log() if self.scores == "probability" else score, tuple(new)


def _is_state(name: str) -> bool:
    return name.endswith("_prev")


def _state(name: str, filled: dict[str, torch.Tensor], made: set[str], predict: Net) -> _State:
    stem = name.removesuffix("_prev")
    after = next((each for each in (stem, f"{stem}_t") if each in made and each in predict.external_output), None)
    if after is None:
        raise ModelError(f"no output {stem} or {stem}_t for the state {name}", predict.path)
    start = filled.get(name)
    if start is None:
        raise ModelError(
            f"{CAFFE2_INIT} does not fill the state {name}; let it, with [1, 1, cells] zeros", predict.path
        )
    axis = start.dim() - 2
    if axis < 0 or start.shape[axis] != 1:
        message = f"the start of the state {name} is {list(start.shape)}, not [1, 1, cells] or [1, cells]"
        raise ModelError(message, predict.path)
    return _State(name, after, start.squeeze(axis), axis)


def _run(operator: Operator, blobs: dict[str, torch.Tensor], function: Function) -> list[torch.Tensor]:
    missing = [name for name in operator.inputs if name not in blobs]
    if missing:
        raise operator.error(f"nothing makes its input {missing[0]!r}")
    inputs = [blobs[name] for name in operator.inputs]
    try:
        outputs = list(function(operator, inputs))
    except torch.OutOfMemoryError:
        raise
    except ModelError:
        raise
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        if "memory" in str(error):  # the CPU's way to say it
            raise
        shapes = ", ".join(f"{name} {list(each.shape)}" for name, each in zip(operator.inputs, inputs, strict=True))
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise operator.error(f"{first} (inputs: {shapes or 'none'})") from error
    if len(outputs) < len(operator.outputs):
        raise operator.error(f"{len(operator.outputs)} outputs, but it makes {len(outputs)}")
    return outputs
