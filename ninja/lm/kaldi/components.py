"""Build the components of nnet3 networks from their types and fields.

Only the fields that inference needs are retained; learning rates and statistics are dropped.

Source: Kaldi, the Read and Propagate functions of nnet3/nnet-*-component.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from ninja.formats.kaldi.objects import Scalar, Value
from ninja.lattice import Array
from ninja.lm.kaldi.graph import LARGEST_DIM, Fail
from ninja.models.nnet3 import Component

SMALLEST_SCALE = 1e-4  # ScaleAndOffsetComponent increases the magnitude of smaller scales to this value

FieldValue = bool | int | float | list[int] | Array


@dataclass(slots=True)
class Fields:
    """The fields of a component in a file, indexed by token."""

    name: str
    kind: str  # component type, without the brackets
    values: Mapping[str, Value | FieldValue]
    fail_here: Fail  # raises an error with the component's position in the file
    used: dict[str, FieldValue] = field(default_factory=dict)  # the fields that `component` has read

    def component(self) -> Component:
        """Build the component that the fields describe."""
        if self.kind not in BUILDERS:
            names = ", ".join(sorted(kind.removesuffix("Component") for kind in BUILDERS))
            self.fail(f"this type is not supported; supported types: {names}")
        component = BUILDERS[self.kind](self)
        if not 0 < component.input_dim <= LARGEST_DIM or not 0 < component.output_dim <= LARGEST_DIM:
            self.fail(f"the input width {component.input_dim} or output width {component.output_dim} is implausible")
        return component

    def fail(self, message: str) -> NoReturn:
        """Raise an error whose message identifies this component."""
        self.fail_here(f"component {self.name} ({self.kind}): {message}")

    def has(self, token: str) -> bool:
        """Return whether the component has a field."""
        return token in self.values

    def array(self, token: str, ndim: int) -> Array:
        """Return the vector (`ndim` 1) or matrix (`ndim` 2) in a field, float32."""
        problem = f"not a non-empty {'matrix' if ndim == 2 else 'vector'}"
        array: Array = self._take(token, lambda v: isinstance(v, np.ndarray) and v.ndim == ndim and v.size > 0, problem)
        if not np.isfinite(array).all():
            self.fail(f"{token} contains NaN or infinity: the training diverged; use an earlier iteration")
        return array

    def integers(self, token: str) -> list[int]:
        """Return the vector of integers in a field."""
        integers: list[int] = self._take(token, lambda v: isinstance(v, list) and bool(v), "not a vector of integers")
        return integers

    def integer(self, token: str) -> int:
        """Return the integer in a field."""
        return int(self._take(token, lambda v: type(v) is int, "not an integer"))

    def real(self, token: str, default: float) -> float:
        """Return the real number in a field; `default` if the component has no such field."""
        if not self.has(token):
            return default
        number = self._take(token, lambda v: type(v) in (int, float), "not a finite number", Scalar.real)
        if not np.isfinite(number):
            self.fail(f"{token} is not finite")
        return float(number)

    def flag(self, token: str) -> bool:
        """Return the boolean in a field; False if the component has no such field."""
        return self.has(token) and self._take(token, lambda v: isinstance(v, bool), "neither T nor F")

    def dim(self, *tokens: str) -> int:
        """Return the width stored in a field; if several fields are passed, use the first that the component has."""
        token = next((name for name in tokens if self.has(name)), tokens[0])
        value = self.integer(token)
        if not 0 < value <= LARGEST_DIM:
            self.fail(f"{token} is {value}, but must be in [1, {LARGEST_DIM}]")
        return value

    def block_dim(self, dim: int) -> int:
        """Return the width of the blocks that are processed independently."""
        block = self.dim("<BlockDim>") if self.has("<BlockDim>") else dim
        if dim % block:
            self.fail(f"the width {dim} is not a multiple of the block size {block}")
        return block

    def _take(
        self, token: str, fits: Callable[[Any], bool], problem: str, number: Callable[[Scalar], Any] = Scalar.integer
    ) -> Any:
        """Return the value of a field after checking it with `fits`, and add it to `used`.

        `number` decodes scalars that are stored without a type. If the value does not
        fit, the error message contains `problem`.
        """
        if token not in self.values:
            self.fail(f"{token} is missing")
        stored = self.values[token]
        value = number(stored) if isinstance(stored, Scalar) else stored
        if not fits(value):
            self.fail(f"{token} is {problem}")
        self.used[token] = value
        return value


def _affine(fields: Fields, weight: str = "<LinearParams>", bias: str = "<BiasParams>") -> Component:
    matrix = fields.array(weight, 2)
    arrays = {"weight": matrix}
    if bias:
        vector = fields.array(bias, 1)
        if len(vector) != len(matrix):
            fields.fail(f"there are {len(vector)} biases for {len(matrix)} rows of weights")
        arrays["bias"] = vector
    return Component("affine", matrix.shape[1], len(matrix), {}, arrays)


def _linear(fields: Fields) -> Component:
    return _affine(fields, "<Params>", "")


def _tdnn(fields: Fields) -> Component:
    if fields.integers("<TimeOffsets>") != [0]:
        fields.fail(
            "the component reads words other than the current word, even words before the start of the sentence"
        )
    bias = fields.values.get("<BiasParams>")
    return _affine(fields, bias="<BiasParams>" if isinstance(bias, np.ndarray) and bias.size else "")


def _lstm(fields: Fields) -> Component:
    peephole = fields.array("<Params>", 2)
    if len(peephole) != 3:
        fields.fail(f"<Params> has {len(peephole)} rows instead of 3")
    if fields.flag("<UseDropout>"):
        fields.fail("dropout masks as input are not supported; export the network without them")
    cells = peephole.shape[1]
    return Component("lstm", 5 * cells, 2 * cells, {}, {"peephole": peephole})


def _gru(fields: Fields) -> Component:
    weight = fields.array("<w_h>", 2)
    cells, recurrent = weight.shape
    if recurrent > cells:
        fields.fail(f"<w_h> is {cells} × {recurrent}, but must not have more columns than rows")
    width = 4 * cells if recurrent == cells else 3 * cells + 2 * recurrent
    return Component("gru", width, 2 * cells, {}, {"weight": weight})


def _output_gru(fields: Fields) -> Component:
    weight = fields.array("<w_h>", 1)
    return Component("output_gru", 3 * len(weight), 2 * len(weight), {}, {"weight": weight})


def _identity(fields: Fields) -> Component:
    dim = fields.dim("<Dim>")
    return Component("identity", dim, dim)


def _truncation(fields: Fields) -> Component:
    scale = fields.real("<Scale>", 1.0)
    if scale == 1.0:
        return _identity(fields)
    return _scaling(fields, fields.dim("<Dim>"), np.array([scale], np.float32), np.zeros(1, np.float32))


def _scaling(fields: Fields, dim: int, scale: Array, offset: Array) -> Component:
    """Scale and shift each column; if there are fewer scales than columns, the scales are repeated for each block."""
    if dim % len(scale) or len(scale) != len(offset):
        fields.fail(f"there are {len(scale)} scales and {len(offset)} offsets for a width of {dim}")
    arrays = {
        name: np.tile(value.astype(np.float32), dim // len(value))
        for name, value in (("scale", scale), ("offset", offset))
    }
    return Component("scale_offset", dim, dim, {}, arrays)


def _scale(fields: Fields, token: str = "<Params>") -> Component:
    scale = fields.array(token, 1)
    return _scaling(fields, len(scale), scale, np.zeros_like(scale))


def _offset(fields: Fields, token: str = "<Offsets>") -> Component:
    offset = fields.array(token, 1)
    dim = fields.dim("<Dim>") if fields.has("<Dim>") else len(offset)
    return _scaling(fields, dim, np.ones_like(offset), offset)


def _scale_and_offset(fields: Fields) -> Component:
    scale = fields.array("<Scales>", 1)
    smallest = np.where(scale >= 0, np.float32(SMALLEST_SCALE), np.float32(-SMALLEST_SCALE))
    scale = np.where(np.abs(scale) < SMALLEST_SCALE, smallest, scale)
    return _scaling(fields, fields.dim("<Dim>"), scale, fields.array("<Offsets>", 1))


def _batch_norm(fields: Fields) -> Component:
    """Normalise by the stored means and variances."""
    dim = fields.dim("<Dim>")
    block = fields.block_dim(dim)
    mean, variance = (fields.array(token, 1).astype(np.float64) for token in ("<StatsMean>", "<StatsVar>"))
    if fields.real("<Count>", 0.0) <= 0 or len(mean) != block or len(variance) != block:
        fields.fail(
            f"the statistics of {block} columns are missing; export the network after training has computed them"
        )
    variance = np.maximum(variance, 0) + fields.real("<Epsilon>", 1e-3)
    if not (variance > 0).all():
        fields.fail("a variance and <Epsilon> are both 0")
    scale = fields.real("<TargetRms>", 1.0) / np.sqrt(variance)
    return _scaling(fields, dim, scale.astype(np.float32), (-mean * scale).astype(np.float32))


def _normalize(fields: Fields) -> Component:
    dim = fields.dim("<InputDim>", "<Dim>")
    block, target = fields.block_dim(dim), fields.real("<TargetRms>", 1.0)
    if target <= 0:
        fields.fail(f"<TargetRms> is {target}, but must be above 0")
    extra = fields.flag("<AddLogStddev>")
    numbers = {"block_dim": float(block), "target_rms": target, "add_log_stddev": float(extra)}
    return Component("normalize", dim, dim + (dim // block if extra else 0), numbers)


def _product(fields: Fields) -> Component:
    width, dim = fields.dim("<InputDim>"), fields.dim("<OutputDim>")
    if width % dim:
        fields.fail(f"the input width {width} is not a multiple of the output width {dim}")
    return Component("product", width, dim)


def _sum_group(fields: Fields) -> Component:
    sizes = fields.integers("<Sizes>")
    if min(sizes) < 1:
        fields.fail(f"a group has {min(sizes)} columns, but must have at least 1")
    return Component("sum_group", sum(sizes), len(sizes), {}, {"sizes": np.array(sizes)})


def _permute(fields: Fields) -> Component:
    columns = fields.integers("<ColumnMap>")
    if sorted(columns) != list(range(len(columns))):
        fields.fail("<ColumnMap> is not a permutation")
    return Component("permute", len(columns), len(columns), {}, {"columns": np.array(columns)})


def _elementwise(kind: str) -> Callable[[Fields], Component]:
    def build(fields: Fields) -> Component:
        dim = fields.dim("<Dim>")
        return Component(kind, dim, dim)

    return build


BUILDERS: dict[str, Callable[[Fields], Component]] = {
    "AffineComponent": _affine,
    "NaturalGradientAffineComponent": _affine,
    "FixedAffineComponent": _affine,
    "LinearComponent": _linear,
    "TdnnComponent": _tdnn,
    "LstmNonlinearityComponent": _lstm,
    "GruNonlinearityComponent": _gru,
    "OutputGruNonlinearityComponent": _output_gru,
    "RectifiedLinearComponent": _elementwise("relu"),
    "SigmoidComponent": _elementwise("sigmoid"),
    "TanhComponent": _elementwise("tanh"),
    "SoftmaxComponent": _elementwise("softmax"),
    "LogSoftmaxComponent": _elementwise("log_softmax"),
    "NormalizeComponent": _normalize,
    "BatchNormComponent": _batch_norm,
    "PerElementScaleComponent": _scale,
    "NaturalGradientPerElementScaleComponent": _scale,
    "FixedScaleComponent": lambda fields: _scale(fields, "<Scales>"),
    "PerElementOffsetComponent": _offset,
    "FixedBiasComponent": lambda fields: _offset(fields, "<Bias>"),
    "ScaleAndOffsetComponent": _scale_and_offset,
    "ElementwiseProductComponent": _product,
    "SumGroupComponent": _sum_group,
    "PermuteComponent": _permute,
    "NoOpComponent": _identity,
    "DropoutComponent": _identity,
    "GeneralDropoutComponent": _identity,
    "BackpropTruncationComponent": _truncation,
    "ClipGradientComponent": _identity,
}
