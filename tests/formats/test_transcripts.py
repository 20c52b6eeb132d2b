"""Correction of transcripts: only the words of changed lines are rewritten."""

import pytest
from hypothesis_files import correct


@pytest.mark.parametrize(
    ("content", "options", "replacements", "expected"),
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
def test_a_corrected_line_remains_one_line_and_keeps_its_key(content, options, replacements, expected, tmp_path):
    path, output = tmp_path / "x.txt", tmp_path / "y.txt"
    path.write_bytes(content.encode())
    spec = f"transcripts{options}"
    correct(path, output, spec, lambda key, words: replacements.get(key, words))
    assert output.read_bytes() == expected.encode()
