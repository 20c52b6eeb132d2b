"""HTK files whose scores go into another base, and lattices that their headers name."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ninja
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.formats.slf import SlfOptions, read_slf, read_slf_whole
from ninja.formats.slf_writer import write_slf

CONTENT = b"""VERSION=1.0
UTTERANCE=utt
lmscale=15.0 wdpenalty=%s
N=3 L=3
I=0 t=0
I=1 t=0.5 v=1
I=2 t=0.7
J=0 S=0 E=1 W=a a=-3 l=-2 n=%s d=:h,0.1:eh,0.1: p=0.25 v=2
J=1 S=0 E=1 W=b a=-4 l=-1 n=-1.5 ds=-1
J=2 S=1 E=2 W=!NULL n=-0.5 r=-0.25
"""
OPTIONS = SlfOptions(graph=("l",))  # so that r= is kept
WHOLE = read_slf_whole(CONTENT % (b"-10", b"-2.5"), None, options=OPTIONS)


def natural(text, base):
    value = float(text)
    return math.log(value) if base == 0 else value * (1.0 if base == 1 else math.log(base))


def scores(whole):
    """Return kept scores as natural logarithms."""
    header = dict(whole.extras.header)
    base = float(header.get("base", 1))
    found = {"wdpenalty": natural(header["wdpenalty"], base)}
    for where, table in (("arc", whole.extras.on_arc), ("final", whole.extras.on_final)):
        for name in {"n", "r", "ds"} & {*table}:
            found |= {(where, name, row): natural(value, base) for row, value in table[name].items()}
    return found


BASES = st.sampled_from([0, 1, 2, 10]) | st.floats(1.01, 1e6)
NUMBERS = st.floats(-300, 300).filter(lambda value: abs(value) > 1e-6)


@given(BASES, BASES, NUMBERS, NUMBERS)
def test_kept_scores_and_the_penalty_come_along_into_another_base(one, other, penalty, ngram):
    content = CONTENT % (repr(penalty).encode(), repr(ngram).encode())
    whole = read_slf_whole(content, None, options=OPTIONS)
    assert whole.extras.on_arc["n"][0] == repr(ngram)
    first = read_slf_whole(
        write_slf(whole.lattice, extras=whole.extras, base=one), None, None, whole.lattice.words, OPTIONS
    )
    again = write_slf(first.lattice, extras=first.extras, base=other)
    second = read_slf_whole(again, None, None, whole.lattice.words, OPTIONS)
    assert scores(first) == pytest.approx(scores(whole), rel=1e-9, abs=1e-12)
    assert scores(second) == pytest.approx(scores(whole), rel=1e-9, abs=1e-12)
    for name in ("p", "v", "d"):
        assert second.extras.on_arc[name] == whole.extras.on_arc[name]
    assert second.extras.on_state == whole.extras.on_state
    assert dict(second.extras.header)["lmscale"] == "15.0"


def test_scores_that_keep_their_base_keep_their_digits():
    for base in (None, 1):
        content = write_slf(WHOLE.lattice, extras=WHOLE.extras, base=base)
        assert b"wdpenalty=-10\n" in content
        assert b"n=-2.5\t" in content
    for head in (b"base=10\n", b"base=10.0\n"):
        tens = read_slf_whole(head + CONTENT % (b"-10", b"-2.50"), None, options=OPTIONS)
        assert b"n=-2.50\t" in write_slf(tens.lattice, extras=tens.extras, base=10)


@pytest.mark.parametrize(
    ("field", "what"),
    [
        (b"x1=3", "the field 'x1'"),
        (b"q=3", "the field 'q'"),
        (b"div=:h,0.1,-3.5:", "the likelihoods of div="),
        (b"i=-1,-2", "the field 'i'"),
    ],
)
def test_a_field_that_may_be_a_logarithm_or_not_keeps_its_base(field, what):
    content = (CONTENT % (b"-10", b"-2.5")).replace(b"p=0.25", b"p=0.25 " + field)
    whole = read_slf_whole(content, None, options=OPTIONS)
    assert field in write_slf(whole.lattice, extras=whole.extras)
    message = f"key 'utt': {what} may be a logarithm or not, so its base cannot change from 1 to 10"
    with pytest.raises(OptionError, match=message):
        write_slf(whole.lattice, extras=whole.extras, base=10)


def test_a_field_of_a_node_or_of_the_header_is_no_exception():
    content = CONTENT % (b"-10", b"-2.5")
    for changed in (content.replace(b"v=1", b"x2=1"), content.replace(b"t=0.7", b"t=0.7 x2=1")):
        whole = read_slf_whole(changed, None, options=OPTIONS)
        with pytest.raises(OptionError, match="the field 'x2' may be a logarithm or not"):
            write_slf(whole.lattice, extras=whole.extras, base=0)
    whole = read_slf_whole(b"phonepenalty=-3 lmname=7.lm vocab=7\n" + content, None, options=OPTIONS)
    with pytest.raises(OptionError, match="phonepenalty=-3 in the header may be a logarithm or not"):
        write_slf(whole.lattice, extras=whole.extras, base=0)
    assert b"x2=1" in write_slf(
        whole.lattice.with_key("k"), extras=read_slf_whole(changed, None, options=OPTIONS).extras
    )


@pytest.mark.parametrize(
    ("head", "ngram", "base", "error", "message"),
    [
        (b"", b"-800", 0, LatticeError, "n=-800 is too large for a probability; write logarithms"),
        (b"", b"-inf", 10, LatticeError, "n=-inf has no logarithm"),
        (b"", b"much", 10, FormatError, "n=much is no number"),
        (b"base=0\n", b"0", 10, LatticeError, "n=0 has no logarithm, so it cannot change its base"),
    ],
)
def test_a_score_that_the_other_base_cannot_say_is_refused(head, ngram, base, error, message):
    content = head + CONTENT % (b"0.5", ngram)
    if head:
        for old, new in ((b"=-", b"="),):
            content = content.replace(old, new)
    whole = read_slf_whole(content, None, options=OPTIONS)
    with pytest.raises(error, match=message):
        write_slf(whole.lattice, extras=whole.extras, base=base)


def test_extras_that_keep_what_the_lattice_says_itself_are_refused():
    whole = read_slf_whole(CONTENT % (b"-10", b"-2.5"), None, options=SlfOptions(graph=("n",)))
    assert "l" in whole.extras.on_arc
    message = "key 'utt': the extras keep l, where the lattice's own costs are to stand; leave them out"
    with pytest.raises(OptionError, match=message):
        write_slf(whole.lattice, extras=whole.extras)


# Names.

NAMED = SlfOptions(key="utterance")
ROW = b"UTTERANCE=%s\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=a a=-1\n"


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, name in (("1", b"spk1-x(duration=2.5)"), ("2", b"spk2-x")):
        Path(folder).mkdir()
        Path(folder, "x.slf").write_bytes(ROW % name)


def test_the_header_names_a_lattice_if_the_user_says_so(folders):
    both = ["1/x.slf", "2/x.slf"]
    assert [key for name in both for key, _ in ninja.read(name)] == ["x", "x"]
    for tell in ({}, {"lossy": "refuse"}):
        found = [each for name in both for each in ninja.read(name, format="slf:key=utterance", **tell)]
        assert [key for key, _ in found] == [lattice.key for _, lattice in found] == ["spk1-x", "spk2-x"]


def test_a_lattice_without_a_name_in_its_header_is_named_by_its_file(folders):
    for head in (b"", b'UTTERANCE=""\n', b"VERSION=1.0\n"):
        content = head + ROW.partition(b"\n")[2]
        Path("y.slf").write_bytes(content)
        assert [key for key, _ in ninja.read("y.slf", format="slf:key=utterance")] == ["y"]
        assert read_slf_whole(content, "k", options=NAMED).lattice.key == "k"
        assert read_slf(content, "k", options=NAMED).key == "k"


def test_each_reader_names_a_lattice_alike():
    content = ROW % b"utt"
    assert read_slf(content, "k").key == read_slf_whole(content, "k").lattice.key == "k"
    assert read_slf(content, "k", options=NAMED).key == read_slf_whole(content, "k", options=NAMED).lattice.key == "utt"
    with pytest.raises(OptionError, match="key is 'name', but must be file or utterance"):
        SlfOptions(key="name")
