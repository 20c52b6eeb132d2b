"""Transcripts are written back with only the words of changed lines rewritten."""

import pytest
from hypothesis_files import correct


@pytest.mark.parametrize(
    ("content", "options", "new", "expected"),
    [
        ("a x\nb y\n", "", {"a": []}, "a \nb y\n"),
        ("a x\r\nb y\r\n", "", {"a": ["z"], "b": []}, "a z\r\nb \r\n"),
        ("a\nb y\n", "", {"a": ["x"]}, "a x\nb y\n"),
        ("a \t\nb", "", {"a": ["x"], "b": ["y"]}, "a x\nb y"),
        ("x\n\ny\n", ":keys=none", {"x-1": []}, "\n\ny\n"),
        ("\ufeffx y\nz\n", ":keys=none", {"x-2": ["x"]}, "\ufeffx y\nx\n"),
        ("\ufeffx y\nz\n", ":keys=none", {"x-1": ["z"]}, "\ufeffz\nz\n"),
        ("\ufeffa x\nb\n", "", {"a": ["z"]}, "\ufeffa z\nb\n"),
    ],
)
def test_a_changed_line_stays_one_line_with_its_key(content, options, new, expected, tmp_path):
    path, target = tmp_path / "x.txt", tmp_path / "y.txt"
    path.write_bytes(content.encode())
    form = f"transcripts{options}"
    correct(path, target, form, lambda key, words: new.get(key, words))
    assert target.read_bytes() == expected.encode()
