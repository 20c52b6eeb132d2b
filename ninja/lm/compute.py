"""Functions shared by networks: devices, linear layers, log-sum-exp and threads."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch

from ninja import _lm
from ninja.errors import OptionError
from ninja.lm.protocol import chosen_device

ROWS_AT_ONCE = 256  # rows per thread and step, which fit into its cache
FEWEST_ROWS = 16  # minimum number of rows per thread
# Out-of-memory messages of libraries that have no exception type for it; file names may contain the word "memory".
_NO_MEMORY = re.compile(r"out of memory|(?:can't|cannot|failed to) allocate|bad[_ ]alloc", re.IGNORECASE)
_ISA_WITH_HALF = ("DEFAULT", "BF16", "FP16", "AMX", "AVX10")  # parts of oneDNN's names of sets that include bfloat16
EXACT_ROWS, ROUNDED = 32, 8  # above 32 rows, products are padded to multiples of 8, see `_even`


def device_of(name: str) -> torch.device:
    """Return the torch device of a name; ``"auto"`` is as in `ninja.lm.load`.

    Raises:
        OptionError: Torch cannot use the device.
    """
    try:
        return torch.empty(0, device=chosen_device(name)).device
    except (RuntimeError, AssertionError) as error:  # for an unknown and for a missing device
        raise OptionError(f"torch cannot use the device {name!r}: {error}") from error


def reason(error: Exception) -> str:
    """Return the first line of a library's error message; re-raise the error if it means that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or _NO_MEMORY.search(str(error)):
        raise error
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]


def linear(
    weight: torch.Tensor, bias: torch.Tensor | None, *, half: bool = False
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function x ↦ x weightᵀ + bias, from float32 to float32.

    On a CPU this calls oneDNN with a prepacked weight, as ``torch.compile`` does, which is 2 to 3 times as fast as the
    BLAS behind ``torch.addmm`` (measured on AMD Zen 5 for 1 to 256 rows), and twice as fast again with bfloat16. With
    AVX2 or later, the result for a row is bit-identical in any batch.

    Args:
        weight: Weight, [outputs, inputs].
        bias: Bias, [outputs], or None.
        half: Compute in bfloat16 with float32 sums, if the processor has such instructions.
    """
    operators = torch.ops.mkldnn
    if weight.numel() == 0:  # oneDNN does not support empty weights
        return lambda rows: torch.nn.functional.linear(rows, weight, bias)
    if weight.device.type == "cpu" and torch.backends.mkldnn.is_available() and hasattr(operators, "_linear_pointwise"):
        if half and computes_in_half():
            packed_half = operators._reorder_linear_weight(weight.bfloat16().contiguous(), 128)
            offset = None if bias is None else bias.bfloat16()
            return _even(
                lambda rows: operators._linear_pointwise(rows, packed_half, offset, "none", [], ""), torch.bfloat16
            )
        packed = operators._reorder_linear_weight(weight.contiguous(), 128)
        return _even(lambda rows: operators._linear_pointwise(rows, packed, bias, "none", [], ""), torch.float32)
    return lambda rows: torch.nn.functional.linear(rows, weight, bias)


def _even(
    product: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Wrap a product of float32 rows so that batches are padded to a small number of sizes.

    oneDNN compiles and caches code for each number of rows, which takes half a megabyte and 0.7 ms for a layer of 2048;
    a long-running service would do so for every number.
    """

    def of(rows: torch.Tensor) -> torch.Tensor:
        count = len(rows)
        spare = -count % ROUNDED if rows.dim() == 2 and count > EXACT_ROWS else 0
        if spare:
            rows = torch.nn.functional.pad(rows, (0, 0, 0, spare))  # rows of zeros
        return product(rows.to(dtype)).float()[:count]

    return of


def computes_in_half() -> bool:
    """Return whether oneDNN multiplies bfloat16 matrices with AVX-512 or AMX instructions.

    Respects the environment variable ``ONEDNN_MAX_CPU_ISA``, which limits oneDNN's instruction sets.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "DEFAULT"
    if not any(name in limit.upper() for name in _ISA_WITH_HALF):
        return False
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check is not None and check() for check in checks)


def logsumexp(row: torch.Tensor) -> np.ndarray:
    """Return ln Σ exp of each row, float32 [rows]."""
    if row.is_cpu:  # four times as fast as torch.logsumexp
        return _lm.logsumexp(row.contiguous().view(-1).numpy(), len(row))
    return row.logsumexp(-1).cpu().numpy()


def as_tensor(numbers: np.ndarray, device: torch.device) -> torch.Tensor:
    """Copy an array to a device; it may be read-only or have negative strides, which torch does not accept."""
    tensor = torch.from_numpy(np.array(numbers))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Threads:
    """A pool of `count` threads that compute on separate rows of a batch; by default as many as torch uses.

    Torch would divide every operation among its threads and wait for the slowest; this takes a fifth less time on two
    cores.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or torch.get_num_threads()
        self._pool: ThreadPoolExecutor | None = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, "rows")
            barrier = threading.Barrier(self.count)  # so that each thread runs one call

            def join(_: int) -> None:
                torch.set_num_threads(1)  # for this thread and, due to a bug in torch, for threads started later
                barrier.wait()

            list(self._pool.map(join, range(self.count)))
            torch.set_num_threads(self.count)
        return self._pool

    def run(self, compute: Callable[[slice], None], num_rows: int) -> None:
        """Call `compute` on slices that cover all rows, in several threads at once."""
        if num_rows < 2 * FEWEST_ROWS:
            if num_rows:
                compute(slice(0, num_rows))
            return
        num_pieces = -(-num_rows // ROWS_AT_ONCE)
        num_pieces = min(-(-num_pieces // self.count) * self.count, num_rows // FEWEST_ROWS)
        edges = [num_rows * number // num_pieces for number in range(num_pieces + 1)]
        pieces = [slice(first, last) for first, last in pairwise(edges)]
        if self.count == 1:
            for piece in pieces:
                compute(piece)
            return
        for _ in self._started().map(torch.inference_mode()(compute), pieces):
            pass
