"""Messages in streaming sessions: `StreamRequest` is the first message, and `Update` each later message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from ninja.decoding.units import CtcUnits, Scheme, ctc_units
from ninja.lattice.lattice import SHIFTS
from ninja.rescoring.session import StreamOptions
from ninja.serve.problems import Problem
from ninja.serve.requests import checked, content_of, from_base64, json_values, shown

STREAM_FIELDS = ("key", "format", "n", "entities", "lists", "agreement", "min_posterior", "ctc")
CTC_FIELDS = ("units", "blank", "scheme", "boundary", "frame_shift")
UPDATE_FIELDS = ("lattice", "lattice_base64", "nbest", "frames", "final")
MAX_UNITS = 100_000  # maximum number of columns of a matrix


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The options for a streaming session."""

    key: str = "utterance"
    format: str | None = None  # format of the lattices
    n: int = 5  # number of hypotheses in the final answer
    entities: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by class
    lists: tuple[str, ...] = ()
    options: StreamOptions = field(default_factory=StreamOptions)
    units: CtcUnits | None = None  # units of the frames, if the session decodes frames
    frame_shift: float | None = None  # seconds per frame


@dataclass(frozen=True, slots=True)
class Update:
    """Content of an update: the lattice so far, or further frames; neither is set if the client sends only `final`."""

    body: bytes | None = None  # content of a file
    format: str | None = None  # format of the body, if known
    frames: npt.NDArray[np.float32] | None = None  # log-probabilities, [frames, units]
    final: bool = False


def stream_request(content: bytes) -> StreamRequest:
    """Return the options in the first message of a session.

    Raises:
        Problem: The message is not a JSON object with `STREAM_FIELDS`, or a value is invalid.
        OptionError: A value is out of range.
    """
    values = json_values(content, STREAM_FIELDS)
    options: dict[str, Any] = {}
    for name, kinds in (("agreement", (int,)), ("min_posterior", (int, float))):
        if name in values:
            value = values.pop(name)
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise Problem(400, f"{name} is {shown(value)}, but must be a number")
            options[name] = value
    units, frame_shift = _ctc(values.pop("ctc")) if "ctc" in values else (None, None)
    stream_options = StreamOptions(**options)
    return StreamRequest(**checked(values), options=stream_options, units=units, frame_shift=frame_shift)


def update_of(content: str | bytes, request: StreamRequest) -> Update:
    """Parse an update: a JSON object with `UPDATE_FIELDS`, or bytes that contain a lattice file or frames.

    Raises:
        Problem: The message is malformed, or does not match the session, which accepts either lattices or frames.
    """
    if isinstance(content, bytes):
        return Update(content) if request.units is None else Update(frames=_frames(content, request.units))
    values = json_values(content.encode("utf-8", "surrogatepass"), UPDATE_FIELDS)
    final = values.pop("final", False)
    if not isinstance(final, bool):
        raise Problem(400, f"final is {shown(final)}, but must be true or false")
    if len(values) > 1:
        raise Problem(400, f"the update contains {' and '.join(values)}; specify only one of them")
    if not values:
        if not final:
            raise Problem(400, "the update is empty; specify lattice, lattice_base64, nbest or frames, or final: true")
        return Update(final=True)
    ((name, value),) = values.items()
    if (name == "frames") != (request.units is not None):
        kind = "lattices" if request.units is None else "frames"
        raise Problem(
            400, f"the update contains {name}, but the session accepts only {kind}; see ctc in the first message"
        )
    if request.units is not None:
        if not isinstance(value, str):
            raise Problem(400, f"frames is {shown(value)}, but must be text in base64")
        return Update(frames=_frames(from_base64(name, value), request.units), final=final)
    options: dict[str, Any] = {"key": request.key} | ({} if request.format is None else {"format": request.format})
    return Update(content_of(name, value, options), options.get("format"), final=final)


def _frames(content: bytes, units: CtcUnits) -> npt.NDArray[np.float32]:
    """Convert rows of little-endian float32 numbers to a matrix [frames, units]."""
    size = 4 * len(units.names)
    if len(content) % size:
        raise Problem(
            400,
            f"the frames have {len(content)} bytes, which is not a multiple of {size} bytes for "
            f"{len(units.names)} units",
        )
    return np.frombuffer(content, "<f4").reshape(-1, len(units.names))


def _ctc(values: Any) -> tuple[CtcUnits, float | None]:
    if not isinstance(values, dict):
        raise Problem(400, f"ctc is {shown(values)}, but must be an object")
    if unknown := [name for name in values if name not in CTC_FIELDS]:
        raise Problem(400, f"unknown field {unknown[0]!r:.80} of ctc; allowed fields: {', '.join(CTC_FIELDS)}")
    names, blank, boundary = values.get("units"), values.get("blank"), values.get("boundary")
    scheme, shift = values.get("scheme", "letters"), values.get("frame_shift")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
        raise Problem(400, f"units is {shown(names)}, but must be a non-empty list of names")
    if len(names) > MAX_UNITS:
        raise Problem(413, f"there are {len(names)} units; at most {MAX_UNITS} are allowed")
    if isinstance(blank, bool) or not isinstance(blank, int | str):
        raise Problem(400, f"blank is {shown(blank)}, but must be the name or the column of the blank")
    if scheme not in get_args(Scheme):
        raise Problem(400, f"scheme is {shown(scheme)}, but must be one of {', '.join(get_args(Scheme))}")
    if boundary is not None and not isinstance(boundary, str):
        raise Problem(400, f"boundary is {shown(boundary)}, but must be the name of a unit")
    if shift is not None and (
        isinstance(shift, bool) or not isinstance(shift, int | float) or not SHIFTS[0] <= shift <= 1
    ):
        raise Problem(400, f"frame_shift is {shown(shift)}, but must be a number of seconds from 1e-6 to 1")
    return ctc_units(names, blank, scheme, boundary=boundary), shift
