"""Kaldi's transition model: binary and text, with <Triples> or <Tuples>; errors have the position of the damage."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_graph import SHARED
from transition_models import LOG_PROBS, TUPLES, as_binary, as_text

from ninja.errors import FormatError, InputError, LatticeError
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.formats.kaldi.word_phones import read_word_boundary
from ninja.graph import from_arcs

KOREAN = SHARED / "data" / "korean" / "trans.mdl"
FIELDS = ("phone", "hmm_state", "transition_state", "pdf", "is_final", "is_self_loop", "log_prob")


WRITERS = pytest.mark.parametrize("write", [as_text, as_binary])


@pytest.mark.parametrize("chain", [False, True])
@WRITERS
def test_transition_ids_have_phone_state_and_pdf(tmp_path: Path, write: Callable[[bool], bytes], chain: bool) -> None:
    (tmp_path / "final.mdl").write_bytes(write(chain))
    model = read_transition_model(tmp_path / "final.mdl")
    assert model.phone.tolist() == [0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3]
    assert model.hmm_state.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1]
    assert model.transition_state.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert model.is_self_loop.tolist() == [False] + [True, False] * 5
    assert np.flatnonzero(model.is_final).tolist() == [4, 6, 10]
    forward = [row[2] for row in TUPLES for _ in range(2)]
    loops = [row[3] for row in TUPLES for _ in range(2)]
    expected = np.where(model.is_self_loop[1:] & chain, loops, forward)
    assert model.pdf.tolist() == [-1, *expected.tolist()]
    assert model.num_pdfs == (8 if chain else 7)
    assert model.log_prob.tolist() == np.float32(LOG_PROBS).tolist()
    assert model.non_self_loop_log_prob()[1:5] == pytest.approx(np.log([0.5, 0.5, 0.25, 0.25]))
    assert model.phones.tolist() == [1, 2, 3]
    assert not model.phone.flags.writeable
    assert repr(model).endswith(f"final.mdl', 10 transition ids, {model.num_pdfs} pdfs)")


@WRITERS
def test_bytes_after_the_transition_model_are_ignored(tmp_path: Path, write: Callable[[bool], bytes]) -> None:
    (tmp_path / "final.mdl").write_bytes(write(True) + b"<Nnet3> \0\1\2" + bytes(10**6))
    assert read_transition_model(tmp_path / "final.mdl").num_transition_ids == 10


def test_a_gzipped_transition_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "final.mdl.gz").write_bytes(gzip.compress(as_binary(True)))
    assert read_transition_model(tmp_path / "final.mdl.gz").num_transition_ids == 10


@WRITERS
@pytest.mark.parametrize("chain", [False, True])
def test_a_truncated_transition_model_is_refused_with_the_byte_position(
    tmp_path: Path, write: Callable[[bool], bytes], chain: bool
) -> None:
    content, path = write(chain), tmp_path / "final.mdl"
    for length in range(len(content) - 1 - (write is as_text)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError, match=r"final.mdl.*byte \d+: .*truncated") as excinfo:
            read_transition_model(path)
        assert excinfo.value.byte is not None
        assert excinfo.value.byte <= length


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([as_text, as_binary]), st.booleans(), st.lists(st.tuples(st.integers(0), st.integers(0, 255))))
def test_damaged_transition_models_raise_format_errors_or_are_read(
    tmp_path: Path, write: Callable[[bool], bytes], chain: bool, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(write(chain))
    for place, value in changes:
        content[place % len(content)] = value
    (tmp_path / "final.mdl").write_bytes(content)
    try:
        model = read_transition_model(tmp_path / "final.mdl")
    except FormatError:
        return
    assert all(getattr(model, name).shape == model.phone.shape for name in FIELDS)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"<TransitionModel>", b"<Nnet>", "expected <TransitionModel>, found '<Nnet>'"),
        (b"<TransitionModel>", b"\xff\xfe", "check that it is a transition model"),
        (b"<Triples>", b"<Quads>", "expected <Triples> or <Tuples>"),
        (b"<Triples> 5", b"<Triples> 6", "the file declares 6 rows of 3 numbers, but 15 numbers follow"),
        (b"<Triples> 5", b"<Triples> -5", "the number of transition states is -5, but must not be negative"),
        (b"<Triples> 5", b"<Triples> 99999999999", "exceeds 32 bits"),
        (b"3 1 6 \n", b"9 1 6 \n", "transition state 5 belongs to phone 9, which has no topology"),
        (b"3 1 6 \n", b"3 7 6 \n", "transition state 5 has the HMM state 7, but phone 3 has only 3"),
        (b"3 1 6 \n", b"3 x 6 \n", "not a number"),
        (b"[ 0.0", b"[", "there are 10 probabilities, but there must be 11"),
        (b"[ 0.0 -0", b"[ 0.0 +9", "above 0"),
        (b"<Transition> 2 0.25", b"<Transition> 5 0.25", "enters state 5, but there are 3 states"),
        (b"<Transition> 2 0.25", b"<Transition> 1 0.25", "two transitions of state 1 enter the same state"),
        (b"<State> 1", b"<State> 4", "expected state 1, found state 4"),
        (b"\n1 3 ", b"\n1 2 3 ", "phone 2 occurs twice"),
        (b"\n1 3 ", b"\n0 1 3 ", "the phone id is 0, but must be 1 or more"),
        (b"\n1 3 ", b"\n999999999 1 3 ", "the phone id 999999999 is too large; the largest allowed id is"),
    ],
)
def test_invalid_transition_models_are_refused_with_the_line(
    tmp_path: Path, old: bytes, new: bytes, message: str
) -> None:
    content = as_text(False)
    assert old in content
    (tmp_path / "final.mdl").write_bytes(content.replace(old, new, 1))
    with pytest.raises(FormatError, match=rf"final.mdl:\d+, byte \d+: .*{message}"):
        read_transition_model(tmp_path / "final.mdl")


def test_an_absurd_count_allocates_no_memory(tmp_path: Path) -> None:
    content = as_binary(True)
    large_count = struct.pack("<i", 2**31 - 1)
    for place in range(len(content) - 4):
        if content[place : place + 1] == b"\4":
            (tmp_path / "final.mdl").write_bytes(content[: place + 1] + large_count + content[place + 5 :])
            try:
                read_transition_model(tmp_path / "final.mdl")
            except FormatError:
                continue


def test_a_missing_transition_model_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_transition_model(tmp_path / "final.mdl")


def test_labels_beyond_the_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "final.mdl").write_bytes(as_text(True))
    model = read_transition_model(tmp_path / "final.mdl")
    good = from_arcs("utt", [0], [1], [5], [1.0], finals={1: 0.0}, labels=[[1, 10]], final_labels={1: [3]})
    model.check(good)
    bad = from_arcs("utt", [0], [1], [5], [1.0], finals={1: 0.0}, labels=[[1, 11]])
    with pytest.raises(
        LatticeError, match=r"key 'utt': arc 0 has the label 11, but the transition ids of .*final.mdl are 1 to 10"
    ):
        model.check(bad)


# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not KOREAN.exists(), reason="Kaldi's models do not come with the project")
def test_a_chain_model_of_kaldi_is_read() -> None:
    model = read_transition_model(KOREAN)
    assert (model.num_transition_ids, model.num_pdfs, model.phones.size) == (11886, 2616, 194)
    assert (model.is_self_loop ^ model.is_final)[1:].all()  # one state per phone
    boundary = read_word_boundary(KOREAN.with_name("word_boundary.int"))
    assert (boundary.kinds(model.phones) > 0).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 nonword\n2 middle\n", r"word_boundary.int:2: expected a phone id and one of begin, .*found '2 middle'"),
        ("SIL nonword\n", r"int:1: .*found 'SIL nonword'; specify word_boundary.int, not .txt"),
        ("1 begin 2\n", "int:1: expected"),
        ("0 begin\n", "int:1: expected"),
        ("1 begin\n1 end\n", "int:2: phone 1 has two types"),
        ("\n", "the file has no phones"),
    ],
)
def test_invalid_word_boundaries_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "word_boundary.int").write_text(text)
    with pytest.raises(FormatError, match=message):
        read_word_boundary(tmp_path / "word_boundary.int")


def test_word_boundaries_are_read(tmp_path: Path) -> None:
    (tmp_path / "word_boundary.int").write_text("1 nonword\r\n2\tbegin\n\n3 singleton\n")
    boundary = read_word_boundary(tmp_path / "word_boundary.int")
    assert boundary.kind_of == {1: 5, 2: 1, 3: 3}
    assert boundary.kinds(np.array([3, 9, 1, 3], np.int32)).tolist() == [3, 0, 5, 3]
