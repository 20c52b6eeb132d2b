"""Types of the compiled readers and writers of text formats and of k2's tensors."""

from typing import Any

from ninja._core import Float32, Float64, Int32, Int64
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

def read_slf(
    content: bytes,
    path: str | None,
    key: str | None,
    *,
    frame_shift: float,
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
    place: Int32,
    texts: list[bytes],
    time: Int32 | None,
    *,
    frame_shift: float,
    decimals: int,
    log_base: float,
    linear: bool,
    end: bool,
    end_time: int,
) -> bytes: ...

Machine = tuple[list[tuple[bytes, int]], Int32 | None, Int64, Int32, Int32, Float64, Float64]

def look_at_fst_text(content: bytes) -> tuple[bool, bool, bool, bool, list[bytes]]: ...
def read_fst_text(
    content: bytes, line: int, *, acceptor: bool, spelled: bool
) -> tuple[int, int, bytes, int, Machine | None]: ...

K2Arrays = tuple[Int64, Int32, Int32, Float32, Float32, Float32, Float32]

def read_k2(
    arcs: Int32,
    first: int,
    last: int,
    num_states: int,
    word: Int32 | None,
    lm: Float32 | None,
    am: Float32 | None,
    *,
    as_graph: bool,
) -> tuple[str, int, bool, K2Arrays | None]: ...
def whole_lattice(
    key: str,
    arrays: K2Arrays,
    ali_begin: Int64,
    ali: Int32,
    final_ali_begin: Int64,
    final_ali: Int32,
    kind: str,
    time: Int32 | None,
    frame_shift: float | None,
    words: SymbolTable | None,
) -> Lattice: ...
