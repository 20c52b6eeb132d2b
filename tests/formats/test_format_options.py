"""Format names with options: each value is converted to the type of its dataclass field, or rejected by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import OptionError
from ninja.formats.format import Reader, by_name, fill_options, formats, split_options


@dataclass(frozen=True, slots=True)
class Options:
    """One field of each type."""

    count: int = 1
    shift: float = 0.5
    fold: bool = False
    mode: Literal["never", "null"] = "never"
    name: str = "a"
    base: float | None = None
    words: bool | None = None
    fields: tuple[str, ...] = ()
    silent: frozenset[str] = frozenset()
    encoding: str = "utf-8"


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("slf", "slf", {}),
        ("slf:", "slf", {}),
        (" slf ", "slf", {}),
        ("slf:frame_shift=0.016", "slf", {"frame_shift": "0.016"}),
        ("slf:frame-shift=0.016,graph=l+r", "slf", {"frame_shift": "0.016", "graph": "l+r"}),
        ("slf: base = e , fold = ", "slf", {"base": "e", "fold": ""}),
        ("json:text=a=b", "json", {"text": "a=b"}),  # only the first "=" separates
        ("nemo:manifest=C:/x:y", "nemo", {"manifest": "C:/x:y"}),
        ("", "", {}),
        (":a=1", "", {"a": "1"}),
    ],
)
def test_split_options_separates_the_name_from_its_options(text, name, values):
    assert split_options(text) == (name, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slf:base", "'slf:base': expected OPTION=VALUE after the colon, found 'base'"),
        ("slf:base=1,", "expected OPTION=VALUE after the colon, found ''"),
        ("slf:=1", "expected OPTION=VALUE after the colon, found '=1'"),
        ("slf: =1", "expected OPTION=VALUE after the colon, found ' =1'"),
        ("slf:base=1,base=2", "'slf:base=1,base=2' sets base twice"),
        ("slf:frame-shift=1,frame_shift=2", "sets frame_shift twice"),
    ],
)
def test_options_without_name_or_value_and_duplicates_are_refused(text, message):
    with pytest.raises(OptionError) as caught:
        split_options(text)
    assert message in str(caught.value)


@given(
    st.text("abcxyz-", min_size=1, max_size=8),
    st.dictionaries(
        st.text("abc_", min_size=1, max_size=6), st.text("abc=:+./ 가", max_size=6).map(str.strip), max_size=4
    ),
)
def test_split_inverts_joining_options(name, values):
    text = ",".join(f"{option}={value}" for option, value in values.items())
    assert split_options(f"{name}:{text}") == (name, values)


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("count", "3", 3),
        ("shift", "1e-2", 0.01),
        ("fold", "true", True),
        ("fold", "YES", True),
        ("fold", "1", True),
        ("fold", "no", False),
        ("fold", "0", False),
        ("mode", "null", "null"),
        ("name", "none", "none"),  # an ordinary string here
        ("base", "none", None),
        ("base", "None", None),
        ("base", "10", 10.0),
        ("words", "none", None),
        ("words", "false", False),
        ("fields", "l+r", ("l", "r")),
        ("fields", "", ()),
        ("fields", "l+", ("l",)),
        ("silent", "<s>+</s>+<s>", frozenset({"<s>", "</s>"})),
    ],
)
def test_a_value_gets_the_type_of_its_field(option, text, value):
    converted = getattr(fill_options(Options, {option: text}, "x"), option)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("count", "1.5", "x: count=1.5 is not an integer"),
        ("count", "", "x: count= is not an integer"),
        ("shift", "one", "x: shift=one is not a number"),
        ("fold", "maybe", "x: fold=maybe is not true or false"),
        ("mode", "Null", "x: mode=Null is not one of never, null"),
        ("base", "ten", "x: base=ten is not a number or none"),
        ("words", "2", "x: words=2 is not true or false or none"),
        ("size", "2", "x has no option 'size'; available options: base, count, encoding, fields, fold, mode, name, "),
    ],
)
def test_a_value_of_the_wrong_type_raises_option_error(option, text, message):
    with pytest.raises(OptionError) as caught:
        fill_options(Options, {option: text}, "x")
    assert str(caught.value).startswith(message)


def test_options_of_the_user_override_defaults_of_the_call():
    assert fill_options(Options, {}, "x", encoding="latin-1").encoding == "latin-1"
    assert fill_options(Options, {"encoding": "cp1250"}, "x", encoding="latin-1").encoding == "cp1250"
    assert fill_options(Options, {}, "x", colour="red") == Options()  # defaults that are not fields are ignored
    assert fill_options(Options, {}, "x") == Options()


def test_values_refused_by_the_dataclass_raise_option_error():
    with pytest.raises(OptionError, match="the encoding 'utf-16' is not a superset of ASCII"):
        Reader.of(by_name("mesh", "read"), {}, "utf-16")


@pytest.mark.parametrize(
    "file_format",
    [file_format for file_format in formats() if file_format.read and file_format.read.options],
    ids=lambda file_format: file_format.name,
)
def test_every_field_of_every_format_can_be_set_as_text(file_format):
    default = Reader.of(file_format, {}).options
    kinds = {bool: lambda value: str(value).lower(), tuple: "+".join, frozenset: "+".join, type(None): lambda _: "none"}
    values = {}
    for name in default.__dataclass_fields__:
        value = getattr(default, name)
        values[name] = kinds.get(type(value), str)(value)
    assert Reader.of(file_format, values).options == default
