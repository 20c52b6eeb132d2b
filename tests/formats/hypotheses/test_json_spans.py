"""Replacement of values within the text of a JSON document."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.formats.hypotheses.json_spans import Edits, ItemSplice, Splice, rewritten, spans

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
STYLE = st.builds(
    dict,
    ensure_ascii=st.booleans(),
    indent=st.none() | st.integers(0, 3) | st.just("\t"),
    separators=st.sampled_from([None, (",", ":"), (" ,\n", " : ")]),
)


def paths_of(value, kind, path=()):
    """Return the paths of all values of a type."""
    paths = [path] if isinstance(value, kind) else []
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        paths += [inner for name, item in parts for inner in paths_of(item, kind, (*path, name))]
    return paths


def with_value(value, path, new):
    """Return a document with another value at a path."""
    if not path:
        return new
    result = copy.copy(value)
    result[path[0]] = with_value(value[path[0]], path[1:], new)
    return result


def value_at(value, path):
    for part in path:
        value = value[part]
    return value


@given(VALUE, STYLE)
def test_spans_returns_the_text_of_each_value(value, style):
    text = json.dumps(value, **style)
    paths = paths_of(value, object)
    for path, (begin, end) in spans(text, paths).items():
        assert json.loads(text[begin:end]) == value_at(value, path)


@given(VALUE, STYLE, st.data())
def test_editing_a_string_agrees_with_editing_the_loaded_document(value, style, data):
    paths = paths_of(value, str)
    if not paths:
        return
    text = json.dumps(value, **style)
    path = data.draw(st.sampled_from(paths))
    old = value_at(value, path)
    begin, end = sorted(data.draw(st.integers(0, len(old))) for _ in range(2))
    new = data.draw(TEXT)
    result = rewritten(text, Edits(strings={path: [Splice(begin, end, new)]}), ascii_only=text.isascii())
    assert json.loads(result) == with_value(value, path, old[:begin] + new + old[end:])
    first, last = spans(text, [path])[path]
    assert result.startswith(text[:first])
    assert result.endswith(text[last:])
    assert result.isascii() == text.isascii() or not text.isascii()


@given(VALUE, STYLE, st.data())
def test_editing_items_agrees_with_editing_the_loaded_list(value, style, data):
    paths = paths_of(value, list)
    if not paths:
        return
    text = json.dumps(value, **style)
    path = data.draw(st.sampled_from(paths))
    old = value_at(value, path)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(old)), min_size=2, max_size=6)))
    result, splices = [], []
    at = 0
    for begin, end in zip(bounds[::2], bounds[1::2], strict=False):
        new = data.draw(st.lists(VALUE, max_size=3))
        splices.append(ItemSplice(begin, end, tuple(json.dumps(item) for item in new)))
        result += [*old[at:begin], *new]
        at = end
    after = rewritten(text, Edits(items={path: splices}), ascii_only=True)
    assert json.loads(after) == with_value(value, path, [*result, *old[at:]])


def test_removing_the_first_item_and_inserting_after_it_keeps_the_array_valid():
    edits = Edits(items={(): [ItemSplice(0, 1, ()), ItemSplice(1, 1, ("7",))]})
    assert rewritten("[1, 2]", edits, ascii_only=True) == "[7, 2]"


def test_other_text_of_the_document_is_kept():
    text = '{ "a" :\t[ 1.50,"x\\u00e9\\/y" ,{"b":"c"}],\n"d":-0.0e5 }'
    edits = Edits(strings={("a", 1): [Splice(1, 2, "É")], ("a", 2, "b"): [Splice(1, 1, "!")]}, values={("d",): "7"})
    assert rewritten(text, edits, ascii_only=True) == ('{ "a" :\t[ 1.50,"x\\u00c9\\/y" ,{"b":"c!"}],\n"d":7 }')


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(KeyError):
        spans('{"a": [1]}', [("a", 1)])
