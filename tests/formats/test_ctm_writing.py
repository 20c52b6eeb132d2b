"""CTM files are written back unchanged except for corrected words, and written from other lists with times."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_files import LETTERS
from lattice_files import write_all

import ninja as package
from ninja.errors import LatticeError
from ninja.formats.format import WriteSettings
from ninja.formats.nbest.ctm import CtmOptions, read_ctm
from ninja.formats.nbest.ctm_writing import CtmEncoder
from ninja.formats.nbest.timed import TimedOptions
from ninja.graph import lattice_nbest
from ninja.lattice.nbest import NBest, sentence

CTM = """;; made by hand
rec1 A 0.10 0.20 Hello 0.9
rec1 A 0.305  0.2 world, 0.8

rec1 A 0.60 0.2 <eps> 1.0
rec1\tA 0.90 0.2 bye NA
;; two
rec2 B 0.1 0.2 yes
;; end
"""


def rewrite(path, fix, reader="ctm"):
    """Write a file back with other words at frames 1 to 2, 2 to 3, …, and return the text."""
    target = path.with_name("y.ctm")
    with package.write(target) as output:
        for key, lattice in package.read(path, format=reader):
            nbest = lattice_nbest(lattice, 1)
            words = fix(key, list(nbest.hypotheses[0].words))
            times = tuple(range(1, len(words) + 1)), tuple(range(2, len(words) + 2))
            output.write(replace(nbest, hypotheses=(sentence(words, times=times),)))
    return target.read_text()


@pytest.fixture
def path(tmp_path):
    (tmp_path / "x.ctm").write_text(CTM)
    return tmp_path / "x.ctm"


def test_an_unchanged_file_is_written_byte_for_byte(path, ninja):
    code, _, err = ninja("convert", "--lossy", "refuse", path, "-o", path.with_name("y.ctm"))
    assert (code, err) == (0, err)
    assert path.with_name("y.ctm").read_text() == CTM


def test_confidences_and_channels_are_in_the_record():
    first, second = read_ctm(CTM.encode())
    assert first.record.origin.confidences == (0.9, 0.8, None)
    assert (first.record.origin.channel, second.record.origin.channel) == ("A", "B")
    assert second.record.origin.confidences == ()


def test_a_replaced_word_keeps_its_time_and_confidence(path):
    text = rewrite(path, lambda _, words: ["word" if word == "world," else word for word in words])
    assert text == CTM.replace("world,", "word")


def test_inserted_words_have_times_of_the_lattice_and_no_confidence(path):
    text = rewrite(path, lambda key, words: ["oh", *words, "x"] if key == "rec2" else ["a", "b", *words[1:]])
    new_rows = "rec1 A 0.01 0.01 a NA\nrec1 A 0.02 0.01 b NA\n"
    expected = CTM.replace("rec1 A 0.10 0.20 Hello 0.9\n", new_rows)
    expected = expected.replace("rec2 B 0.1 0.2 yes\n", "rec2 B 0.01 0.01 oh\nrec2 B 0.1 0.2 yes\nrec2 B 0.03 0.01 x\n")
    assert text == expected


def test_lines_of_removed_words_are_removed(path):
    text = rewrite(path, lambda _, words: words[1:])
    rows = [row for row in CTM.splitlines(keepends=True) if "Hello" not in row and "yes" not in row]
    assert text == "".join(rows)


def test_a_file_with_two_channels_is_unchanged_after_read_and_write(tmp_path, ninja):
    text = "rec A 0.1 0.2 one 0.5\nrec B 0.1 0.2 two\n"
    (tmp_path / "x.ctm").write_text(text)
    assert rewrite(tmp_path / "x.ctm", lambda _, words: words, "ctm:keys=file-channel") == text


def test_segments_set_the_recording_and_its_times(tmp_path):
    (tmp_path / "segments").write_text("a rec 10.5 12\n")
    nbest = NBest("a", (sentence(("x", "y"), times=((0, 50), (50, 75))),), 0.01)
    write_all(tmp_path / "x.ctm", [nbest], to=f"ctm:segments={tmp_path}/segments")
    assert (tmp_path / "x.ctm").read_text() == "rec 1 10.50 0.50 x\nrec 1 11.00 0.25 y\n"


def test_inserted_words_without_times_are_refused(path):
    nbest = next(read_ctm(CTM.encode()))
    with package.write(path.with_name("y.ctm")) as output:
        with pytest.raises(LatticeError, match="key 'rec1': the words have no times, which CTM requires"):
            output.write(replace(nbest, hypotheses=(sentence("abcd"),)))
        output.write(nbest)


words = st.lists(st.text(LETTERS, min_size=1, max_size=4), min_size=1, max_size=6)
lengths = st.lists(st.integers(1, 500), min_size=13, max_size=13)


@given(words, lengths)
def test_ctm_is_unchanged_after_write_and_read(new_words, gaps):
    begins, ends, at = [], [], 0
    for place in range(len(new_words)):
        begins.append(at + gaps[2 * place])
        at = begins[-1] + gaps[2 * place + 1]
        ends.append(at)
    nbest = NBest("utt", (sentence(new_words, times=(tuple(begins), tuple(ends))),), 0.001)
    content = CtmEncoder(WriteSettings(TimedOptions(), None)).add(nbest)
    assert list(read_ctm(content, options=CtmOptions(frame_shift=0.001))) == [nbest]
