"""Conversion of CTC model output to log-probabilities."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError, OptionError

# Maximum absolute log of the sum of a frame's probabilities, in nats, because matrices may be in half precision.
ROUNDING = 0.1
Scale = Literal["logprob", "logit", "prob"]


def log_probabilities(
    matrix: npt.ArrayLike, scale: Scale = "logprob", key: str | None = None
) -> npt.NDArray[np.float64]:
    """Convert the output of a model to natural log-probabilities, float64 [frames, units].

    Args:
        matrix: Output of the model, [frames, units].
        scale: Scale of the values: natural log-probabilities, logits or probabilities.
        key: Utterance id, for messages.

    Raises:
        ModelError: The output is not a matrix, a value is NaN or +inf, a probability is negative, or the probabilities
            of a frame do not sum to 1.
        OptionError: `scale` is unknown.
    """
    values: npt.NDArray[np.float64] = np.ascontiguousarray(matrix, np.float64)
    if values.ndim != 2 or not values.shape[1]:
        raise ModelError(f"the matrix must have shape [frames, units], not {list(values.shape)}", key=key)
    if (bad := np.isnan(values) | np.isposinf(values)).any():
        frame, unit = np.argwhere(bad)[0]
        raise ModelError(
            f"the value of unit {unit} in frame {frame} is {values[frame, unit]}, but must be finite or -inf", key=key
        )
    if scale == "prob":
        if (bad := values < 0).any():
            frame, unit = np.argwhere(bad)[0]
            message = f"the probability of unit {unit} in frame {frame} is {values[frame, unit]}, below 0"
            raise ModelError(
                f"{message}; if the values are not probabilities, set --scale (scale=) to logprob or logit", key=key
            )
        with np.errstate(divide="ignore"):
            values = np.log(values)
    elif scale not in ("logprob", "logit"):
        raise OptionError(f"scale is {scale!r}, but must be logprob, logit or prob")
    if not len(values):
        return values
    most = values.max(axis=1, keepdims=True)
    if not np.isfinite(most).all():
        frame = int(np.flatnonzero(~np.isfinite(most[:, 0]))[0])
        raise ModelError(f"all units in frame {frame} have probability zero", key=key)
    total: npt.NDArray[np.float64] = most[:, 0] + np.log(np.exp(values - most).sum(axis=1))
    if scale == "logit":
        return values - total[:, None]
    if (bad := np.abs(total) > ROUNDING).any():
        frame = int(np.flatnonzero(bad)[0])
        is_prob = (values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= ROUNDING).all()
        likely, name = ("prob", "probabilities") if is_prob else ("logit", "logits")
        advice = f"use --scale {likely}, or in Python ninja.decoding.log_probabilities(matrix, {likely!r})"
        sums = f"the probabilities of frame {frame} sum to {math.exp(min(total[frame], 700.0)):.6g}, not 1"
        raise ModelError(f"{sums}; if the values are {name}, {advice}", key=key)
    return values
