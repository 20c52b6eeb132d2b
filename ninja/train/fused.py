"""An LSTM language model whose training on a CPU is written out, in bfloat16, between its matrix products.

autograd keeps a dozen arrays for each step of time, and multiplies the gradients of the weights step by step. Here each
is one product over all steps, a step's gates are one pass in C++, and words that occur several times in a batch enter
the first layer once. That takes about half the time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ninja import _lm
from ninja.models.lstm import LSTMLanguageModel

BF16 = torch.bfloat16


class FusedLSTM(LSTMLanguageModel):
    """The network of `LSTMLanguageModel`, faster in training.

    Dropout differs: of the embeddings each number of a word is left out all over a batch, of a layer's output in all
    the steps of a sentence.

    Source: Gal, Ghahramani, "A theoretically grounded application of dropout in recurrent neural networks", 2016.
    """

    def forward(self, word: Tensor) -> Tensor:
        """See `LSTMLanguageModel.forward`; in training under autocast to bfloat16 the result is bfloat16."""
        fused = self.training and word.is_cpu and torch.is_autocast_enabled("cpu")
        if not fused or torch.get_autocast_dtype("cpu") != BF16:
            return super().forward(word)
        time, batch = word.shape
        words, place = word.unique(return_inverse=True)
        entry = self._left_out(self.embedding(words)[:, : self.config.width].to(BF16))  # [words, width]
        for number in range(self.config.layers):
            output, hidden = _Layer.apply(entry, place, *self._weights(number))  # [time, batch, width], [.., cells]
            if self.config.width < self.config.embedding and number == self.config.layers - 1:
                output = torch.cat((output, self.more(hidden)), -1)  # [time, batch, embedding]
            output = output * self._left_out(output.new_ones(output.shape[1:]))
            entry = output.view(time * batch, -1)
            place = torch.arange(time * batch).view(time, batch)
        return output

    def _left_out(self, values: Tensor) -> Tensor:
        return torch.nn.functional.dropout(values, self.config.dropout)


class _Layer(torch.autograd.Function):
    """One layer over all steps, and the way back."""

    @staticmethod
    def forward(
        ctx: Any,
        entry: Tensor,
        place: Tensor,
        from_entry: Tensor,
        from_output: Tensor,
        bias: Tensor,
        more_bias: Tensor,
        projection: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Compute outputs, bfloat16 [time, batch, width], and what the cells let out, [time, batch, cells].

        Args:
            entry: Distinct inputs, bfloat16 [entries, width].
            place: Input of each step, int64 [time, batch].
            from_entry: Weights of the gates on the input, and so on, as torch has them.
        """
        (time, batch), cells = place.shape, projection.shape[1]
        short = [weight.to(BF16) for weight in (from_entry, from_output, projection)]
        table = entry @ short[0].t()  # [entries, 4 * cells]
        gates = entry.new_empty(time, batch, 4 * cells)
        cell = torch.empty(time, batch, cells)
        hidden = entry.new_empty(time, batch, cells)
        output = entry.new_empty(time, batch, len(projection))
        recurrent = entry.new_empty(batch, 4 * cells)
        offset = (bias + more_bias).numpy()
        for step in range(time):
            old = None
            if step:
                torch.mm(output[step - 1], short[1].t(), out=recurrent)
                old = cell[step - 1].numpy()
            given = _bits(table), place[step].numpy(), _bits(recurrent) if step else None, offset, old
            _lm.train_cell(*given, _bits(gates[step]), cell[step].numpy(), _bits(hidden[step]))
            torch.mm(hidden[step], short[2].t(), out=output[step])
        ctx.save_for_backward(entry, place, gates, cell, hidden, output, *short)
        ctx.set_materialize_grads(False)
        return output, hidden

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the slopes by the input and the weights."""
        entry, place, gates, cell, hidden, output, from_entry, from_output, projection = ctx.saved_tensors
        time, batch, cells = cell.shape
        by_output, by_hidden = slopes
        assert by_output is not None
        slope = by_output.to(BF16).clone(memory_format=torch.contiguous_format)  # grows by what later steps add
        gates_slope, hidden_slope = torch.empty_like(gates), gates.new_empty(batch, cells)
        cell_slope, bias_slope = torch.zeros(batch, cells), torch.zeros(4 * cells)
        for step in reversed(range(time)):
            if step + 1 < time:
                torch.addmm(slope[step], gates_slope[step + 1], from_output, out=slope[step])
            if by_hidden is None:
                torch.mm(slope[step], projection, out=hidden_slope)
            else:
                torch.addmm(by_hidden[step], slope[step], projection, out=hidden_slope)
            old = cell[step - 1].numpy() if step else None
            given = _bits(gates[step]), old, cell[step].numpy(), _bits(hidden_slope), cell_slope.numpy()
            _lm.train_cell_back(*given, _bits(gates_slope[step]), bias_slope.numpy())
        every = gates_slope.view(time * batch, -1)  # [time * batch, 4 * cells]
        later = gates_slope[1:].reshape(-1, 4 * cells)
        output_slope = slope.view(time * batch, -1)
        table_slope = every
        if len(entry) < time * batch:
            table_sum = torch.zeros(len(entry), 4 * cells)
            _lm.add_rows(_bits(every), place.reshape(-1).numpy(), table_sum.numpy())
            table_slope = table_sum.to(BF16)
        return (
            table_slope @ from_entry,
            None,
            (table_slope.t() @ entry).float(),
            (later.t() @ output[:-1].reshape(len(later), -1)).float(),
            bias_slope,
            bias_slope,
            (output_slope.t() @ hidden.view(time * batch, -1)).float(),
        )


def _bits(values: Tensor) -> Any:
    """View bfloat16 numbers as NumPy can: uint16."""
    return values.detach().view(torch.uint16).numpy()
