"""Convert the output of CTC models to log-probabilities."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError, OptionError

ROUNDING = 0.1  # nats by which the log of a frame's sum may miss 0: matrices may be in half precision
Scale = Literal["logprob", "logit", "prob"]


def log_probabilities(
    matrix: npt.ArrayLike, scale: Scale = "logprob", key: str | None = None
) -> npt.NDArray[np.float64]:
    """Return a model's output [frames, units] as natural log-probabilities, float64.

    Args:
        scale: Domain of the numbers: natural log-probabilities, scores before the softmax, or probabilities.

    Raises:
        ModelError: It is not a matrix, a number is NaN or +inf, or the frames' probabilities do not sum to 1.
    """
    values: npt.NDArray[np.float64] = np.ascontiguousarray(matrix, np.float64)
    if values.ndim != 2 or not values.shape[1]:
        raise ModelError(f"a matrix [frames, units] is needed, but its shape is {list(values.shape)}", key=key)
    if (bad := np.isnan(values) | np.isposinf(values)).any():
        frame, unit = np.argwhere(bad)[0]
        raise ModelError(f"frame {frame}, unit {unit} is {values[frame, unit]}", key=key)
    if scale == "prob":
        if (bad := values < 0).any():
            frame, unit = np.argwhere(bad)[0]
            raise ModelError(f"frame {frame}, unit {unit} has the probability {values[frame, unit]}", key=key)
        with np.errstate(divide="ignore"):
            values = np.log(values)
    elif scale not in ("logprob", "logit"):
        raise OptionError(f"scale is {scale!r}, but must be logprob, logit or prob")
    if not len(values):
        return values
    most = values.max(axis=1, keepdims=True)
    if not np.isfinite(most).all():
        frame = int(np.flatnonzero(~np.isfinite(most[:, 0]))[0])
        raise ModelError(f"in frame {frame} no unit is possible", key=key)
    total: npt.NDArray[np.float64] = most[:, 0] + np.log(np.exp(values - most).sum(axis=1))
    if scale == "logit":
        return values - total[:, None]
    if (bad := np.abs(total) > ROUNDING).any():
        frame = int(np.flatnonzero(bad)[0])
        is_prob = (values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= ROUNDING).all()
        likely, name = ("prob", "probabilities") if is_prob else ("logit", "scores before the softmax")
        advice = f"--scale {likely}, in Python ninja.decoding.log_probabilities(matrix, {likely!r})"
        sums = f"the probabilities of frame {frame} sum to {math.exp(min(total[frame], 700.0)):.6g}, not to 1"
        raise ModelError(f"{sums}; these look like {name}: {advice}", key=key)
    return values
