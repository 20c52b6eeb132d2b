"""Protocol buffers read and written without their library, against the library itself."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import ModelError
from ninja.lm.imported.protobuf import Message, field, float_field

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
from google.protobuf import descriptor_pool, message_factory  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402

TYPES = descriptor_pb2.FieldDescriptorProto


def declare():
    """A message with a field of each sort that we read, repeated ones packed and not."""
    file = descriptor_pb2.FileDescriptorProto(name="tests.proto", package="tests", syntax="proto2")
    message = file.message_type.add(name="Sample")
    fields = {
        "integers": (1, TYPES.TYPE_INT64, False),
        "packed": (2, TYPES.TYPE_INT64, True),
        "floats": (5, TYPES.TYPE_FLOAT, False),
        "packed_floats": (6, TYPES.TYPE_FLOAT, True),
        "texts": (7, TYPES.TYPE_STRING, False),
        "inner": (200, TYPES.TYPE_MESSAGE, False),
        "doubles": (9, TYPES.TYPE_DOUBLE, False),
    }
    for name, (number, kind, packed) in fields.items():
        one = message.field.add(name=name, number=number, type=kind, label=TYPES.LABEL_REPEATED)
        if kind == TYPES.TYPE_MESSAGE:
            one.type_name = ".tests.Sample"
        elif kind not in (TYPES.TYPE_STRING,):
            one.options.packed = packed
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tests.Sample"))


SAMPLE = declare()
INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)
FLOATS = st.integers(0, 200).map(lambda count: np.arange(count, dtype=np.float32).tolist())  # runs are what matters
FIELDS = {"integers": INTEGERS, "packed": INTEGERS, "floats": FLOATS, "packed_floats": FLOATS}
FIELDS |= {"texts": st.lists(st.text(max_size=3), max_size=2), "doubles": st.lists(st.just(1.5), max_size=2)}
CONTENTS = st.fixed_dictionaries({**FIELDS, "inner": st.lists(st.fixed_dictionaries(FIELDS), max_size=2)})


def build(content):
    fields = {name: value for name, value in content.items() if name != "inner"}
    return SAMPLE(**fields, inner=[build(each) for each in content.get("inner", ())])


def raised(call, error):
    try:
        call()
    except error:
        return True
    return False


def check(message, expected):
    assert message.integers(1) == list(expected.integers)
    assert message.integers(2) == list(expected.packed)
    assert message.floats(5).tolist() == list(expected.floats)
    assert message.floats(6).tolist() == list(expected.packed_floats)
    assert message.texts(7) == list(expected.texts)
    assert message.integer(1, 17) == (expected.integers[-1] if expected.integers else 17)
    assert (200 in message) == bool(expected.inner)
    for ours, theirs in zip(message.messages(200), expected.inner, strict=True):
        check(ours, theirs)


@given(CONTENTS)
def test_what_the_library_writes_is_read(content):
    expected = build(content)
    check(Message(memoryview(expected.SerializeToString()), "file"), expected)


@given(CONTENTS)
def test_what_is_written_the_library_reads(content):
    def write(part):
        return b"".join(
            (
                *(field(1, number) for number in part.integers),
                field(2, list(part.packed)),
                float_field(5, np.array(part.floats, np.float32)),
                field(6, np.array(part.packed_floats, np.float32)),
                *(field(7, text) for text in part.texts),
                *(field(200, write(inner)) for inner in part.inner),
            )
        )

    expected = build(content)
    for part in (expected, *expected.inner):
        part.ClearField("doubles")  # which we never write
    assert SAMPLE.FromString(write(expected)).SerializeToString() == expected.SerializeToString()


@given(CONTENTS, st.data())
def test_a_truncated_message_is_noticed_or_ends_between_records(content, data):
    whole = build(content).SerializeToString()
    length = data.draw(st.integers(0, len(whole)))
    noticed = raised(lambda: Message(memoryview(whole[:length]), "file"), ModelError)
    if not raised(lambda: SAMPLE.FromString(whole[:length]), DecodeError):  # it looks into inner messages, too
        assert not noticed


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_typed_error(content):
    with contextlib.suppress(ModelError):
        message = Message(memoryview(content), "file")
        for ask in (message.integers, message.floats, message.texts, message.messages):
            for number in range(1, 16):
                with contextlib.suppress(ModelError):
                    ask(number)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x0a\x05ab", "byte 2: truncated: field 1 has 5 bytes, but 2 are left"),
        (b"\x0a", "byte 1: truncated within a number"),
        (b"\x08\x01\x0b", "byte 2: no protocol buffer: wire type 3"),
        (b"\x00\x01", "byte 0: no protocol buffer: a field with the number 0"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "more than 64 bits"),
        (b"\x2d\0\0\0\0\x2d\0\0", "byte 6: truncated: field 5 has 4 bytes, but 2 are left"),
    ],
)
def test_damage_is_told_by_its_byte(content, reason):
    with pytest.raises(ModelError, match=reason):
        Message(memoryview(content), "file")


def test_a_field_of_another_type_is_refused():
    message = Message(memoryview(field(1, 5) + field(2, b"\xff\xfe\xfd") + float_field(5, 1.0)), "file")
    for ask, reason in (
        (lambda: message.texts(1), "field 1 has wire type 0, not bytes"),
        (lambda: message.floats(1), "field 1 has wire type 0, not a float"),
        (lambda: message.integers(5), "field 5 has wire type 5, not an integer"),
        (lambda: message.floats(2), "not a multiple of 4 bytes"),
        (lambda: message.texts(2), "no UTF-8"),
        (lambda: message.messages(5), "field 5 has wire type 5, not bytes"),
    ):
        with pytest.raises(ModelError, match=reason):
            ask()


def test_a_million_unpacked_numbers_are_read_at_once():
    values = np.arange(1_000_000, dtype=np.float32)
    content = field(1, "weights") + float_field(5, values) + field(6, 7)
    message = Message(memoryview(content), "file")
    assert np.array_equal(message.floats(5), values)
    assert len(message._records[5]) == 1
    assert message.integer(6) == 7
