from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

def read_slf(
    content: bytes,
    path: str | None,
    key: str | None,
    *,
    frame_shift: float,
    keep: bool,
    words: int,
    fold: int,
    costs: list[tuple[bytes, int, bool]],
    missing_score: float | None,
    silent: list[bytes],
    null: list[bytes],
) -> dict[str, Any]: ...
def read_sphinx(
    content: bytes, path: str | None, key: str | None, *, base: float, bracketed: bool, silent: list[bytes]
) -> dict[str, Any]: ...
def read_pfsg(
    content: bytes, at: int, line: int, path: str | None, key: str | None, *, fold: int, null: list[bytes]
) -> dict[str, Any]: ...
def read_plf(
    content: bytes,
    line: int,
    path: str | None,
    key: str | None,
    *,
    kind: int,
    graph: int,
    acoustic: int,
    fold: int,
    null: list[bytes],
) -> dict[str, Any]: ...
def slf_lines(
    lattice: Lattice,
    place: npt.NDArray[np.int32],
    texts: list[bytes],
    time: npt.NDArray[np.int32] | None,
    *,
    frame_shift: float,
    decimals: int,
    log_base: float,
    linear: bool,
    graph: bool,
    acoustic: bool,
    end: bool,
    end_time: int,
    on_node: list[bytes],
    on_link: list[bytes],
) -> bytes: ...
def state_times(lattice: Lattice) -> npt.NDArray[np.int32] | None: ...
