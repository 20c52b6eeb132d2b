"""Commands for archives, including equivalent: selection and distribution of lattices, and missing keys."""

from __future__ import annotations

from example_lattices import KEYS, keys_of

import ninja as package
from ninja.graph import equivalent

FIRST = KEYS[:5]


def test_equivalent_has_exit_code_1_for_different_lattices(ninja, small, tmp_path):
    ninja("copy", small, "--write-compact=false", "-o", tmp_path / "raw.ark")
    code, _, errors = ninja("equivalent", tmp_path / "raw.ark", small)
    assert (code, "5 lattices, 5 of them equivalent" in errors) == (0, True)
    ninja("add-penalty", small, "--word-ins-penalty=1", "-o", tmp_path / "other.ark")
    code, _, errors = ninja("equivalent", small, tmp_path / "other.ark")
    assert (code, f"5 not equivalent: {FIRST[0]}, " in errors) == (1, True)
    assert ninja("equivalent", small, tmp_path / "other.ark", "--delta=1000")[0] == 0
    assert ninja("equivalent", small, tmp_path / "other.ark", "--max-error-proportion=1")[0] == 0


def test_equivalent_lists_keys_that_only_one_archive_contains(ninja, small, tmp_path):
    (tmp_path / "some").write_text("\n".join(FIRST[:4]))
    ninja("copy", small, "--include", tmp_path / "some", "-o", tmp_path / "some.ark")
    code, _, errors = ninja("equivalent", small, tmp_path / "some.ark")
    assert (code, f"1 missing from {tmp_path / 'some.ark'}: {FIRST[4]}" in errors) == (1, True)
    assert ninja("equivalent", small, tmp_path / "some.ark", "--max-error-proportion=0.2")[0] == 0
    code, _, errors = ninja("equivalent", tmp_path / "some.ark", small)
    assert (
        code,
        f"1 missing from {tmp_path / 'some.ark'}, which does not count as a difference: {FIRST[4]}" in errors,
    ) == (0, True)


def test_equivalent_compares_the_alignments_of_the_best_paths(ninja, small, tmp_path):
    ninja("rmali", small, "-o", tmp_path / "bare.ark")
    assert ninja("equivalent", small, tmp_path / "bare.ark")[0] == 1
    assert ninja("equivalent", small, tmp_path / "bare.ark", "--num-paths=0")[0] == 0


def test_copy_includes_or_excludes_listed_keys_and_reports_unknown_ones(ninja, small, tmp_path):
    (tmp_path / "keys").write_text(f"{FIRST[3]} some words\nunknown\n{FIRST[1]}\n")
    out = tmp_path / "out.ark"
    code, _, errors = ninja("copy", small, "--include", tmp_path / "keys", "-o", out)
    assert (code, keys_of(out)) == (0, [FIRST[1], FIRST[3]])
    assert f"1 key of {tmp_path / 'keys'} is not in {small}: unknown" in errors
    assert ninja("copy", small, "--include", tmp_path / "keys", "--strict", "-o", out)[0] == 1
    code, _, errors = ninja("copy", small, "--exclude", tmp_path / "keys", "-o", out)
    assert (code, keys_of(out)) == (0, [FIRST[0], FIRST[2], FIRST[4]])
    assert "1 key" in errors
    assert ninja("copy", small, "--exclude", tmp_path / "keys", "--include", tmp_path / "keys", "-o", out)[0] == 2


def test_copy_of_no_lattice_fails_without_ignore_missing(ninja, small, tmp_path):
    (tmp_path / "keys").write_text("unknown\n")
    command = ("copy", small, "--include", tmp_path / "keys", "-o", tmp_path / "out.ark")
    assert ninja(*command)[0] == 1
    assert ninja(*command, "--ignore-missing")[0] == 0
    assert ninja(*command, "--ignore-missing=true")[0] == 0
    assert ninja(*command, "--ignore-missing", "false")[0] == 1


def test_copy_converts_raw_lattices_to_compact_ones(ninja, korean, tmp_path):
    ninja("copy", korean / "lat.ark.gz", "--write-compact=false", "-o", tmp_path / "raw.ark")
    ninja("copy", tmp_path / "raw.ark", "-o", tmp_path / "compact.ark")
    for (_, old), (_, new) in zip(
        package.read(korean / "lat.ark.gz"), package.read(tmp_path / "compact.ark"), strict=True
    ):
        assert new.kind == "compact"
        assert old.num_arcs <= new.num_arcs <= old.num_arcs + old.num_states
        assert equivalent(old, new, costs="both")


def test_merge_writes_the_first_lattice_of_each_key_and_lists_duplicates(ninja, small, tmp_path):
    ninja("add-penalty", small, "--word-ins-penalty=1", "-o", tmp_path / "other.ark")
    out = tmp_path / "out.ark"
    code, _, errors = ninja("merge", small, tmp_path / "other.ark", "-o", out)
    assert (code, keys_of(out)) == (0, FIRST)
    assert f"5 keys occur more than once; their first lattices were written: {FIRST[0]}, " in errors
    assert all(new.identical(old) for (_, new), (_, old) in zip(package.read(out), package.read(small), strict=True))
    assert ninja("merge", small, tmp_path / "other.ark", "--strict", "-o", out)[0] == 1
    assert ninja("merge", small, "--strict", "-o", out)[0] == 0


def test_copy_backoff_prefers_the_second_archive(ninja, small, tmp_path):
    (tmp_path / "keys").write_text(f"{FIRST[1]}\n{FIRST[3]}\n")
    ninja("copy", small, "--include", tmp_path / "keys", "-o", tmp_path / "some.ark")
    ninja("add-penalty", tmp_path / "some.ark", "--word-ins-penalty=1", "-o", tmp_path / "better.ark")
    code, _, errors = ninja("copy-backoff", small, tmp_path / "better.ark", "-o", tmp_path / "out.ark")
    assert (code, f"3 lattices are from {small}" in errors) == (0, True)
    preferred, old = dict(package.read(tmp_path / "better.ark")), dict(package.read(small))
    for key, lattice in package.read(tmp_path / "out.ark"):
        assert lattice.identical(preferred.get(key, old[key]))
    code, _, errors = ninja("copy-backoff", tmp_path / "some.ark", small, "-o", tmp_path / "out.ark")
    assert (code, f"3 keys of {small} are not in {tmp_path / 'some.ark'} and were skipped" in errors) == (0, True)


def test_split_divides_an_archive_into_parts_or_by_speaker(ninja, small, tmp_path):
    assert ninja("split", small, "--nj", "2", "-o", tmp_path / "JOB.ark")[0] == 0
    assert keys_of(tmp_path / "1.ark") + keys_of(tmp_path / "2.ark") == FIRST
    (tmp_path / "utt2spk").write_text(
        "unknown s2\n" + "".join(f"{key} s{number % 2}\n" for number, key in enumerate(FIRST))
    )
    command = ("split", small, "--utt2spk", tmp_path / "utt2spk", "-o")
    assert ninja(*command, f"ark,scp:{tmp_path}/SPK.ark,{tmp_path}/SPK.scp")[0] == 0
    assert (keys_of(tmp_path / "s0.ark"), keys_of(tmp_path / "s1.scp")) == (FIRST[::2], FIRST[1::2])
    assert not (tmp_path / "s2.ark").exists()  # a speaker without lattices
    assert ninja(*command, tmp_path / "JOB.ark", "--nj=2")[0] == 0
    assert (keys_of(tmp_path / "1.ark"), keys_of(tmp_path / "2.ark")) == (FIRST[::2], FIRST[1::2])


def test_split_refuses_invalid_options_keys_and_speakers(ninja, small, tmp_path):
    out = tmp_path / "JOB.ark"
    for arguments, message in (
        ((small, "-o", out), "specify --nj, --utt2spk, or both"),
        ((small, "--nj=2"), "Missing option '-o' / '--output-file'"),
        ((small, "--nj=2", "-o", tmp_path / "a.ark"), "must contain JOB to give each part a different name"),
        ((small, "--nj=9", "-o", out), "the number of parts is 9, but must be from 1 to 5, the number of lattices"),
        ((small, "--nj=501", "-o", out), "'--nj': 501 is not in the range 1<=x<=500"),
        (("-", "--nj=2", "-o", out), "--nj reads SOURCE twice, so SOURCE cannot be - or a pipe"),
    ):
        code, _, errors = ninja("split", *arguments)
        assert (code, message in errors) == (2, True), errors
    (tmp_path / "utt2spk").write_text("".join(f"{key} s\n" for key in FIRST[1:]))
    code, _, errors = ninja("split", small, "--utt2spk", tmp_path / "utt2spk", "-o", tmp_path / "SPK.ark")
    assert (code, f"key {FIRST[0]!r}: {tmp_path / 'utt2spk'} has no speaker for this key" in errors) == (1, True)
    assert keys_of(tmp_path / "s.ark") == FIRST[1:]
    (tmp_path / "utt2spk").write_text("".join(f"{key} ../s\n" for key in FIRST))
    code, _, errors = ninja("split", small, "--utt2spk", tmp_path / "utt2spk", "-o", tmp_path / "SPK.ark")
    assert (code, "the speaker '../s' is not a valid file name" in errors) == (2, True)


def test_split_limits_the_number_of_open_archives(ninja, small, tmp_path, monkeypatch):
    from ninja.cli import archives

    monkeypatch.setattr(archives, "MAX_PARTS", 4)
    (tmp_path / "utt2spk").write_text("".join(f"{key} s{key}\n" for key in FIRST))
    code, _, errors = ninja("split", small, "--utt2spk", tmp_path / "utt2spk", "-o", tmp_path / "SPK.ark")
    assert (code, "at most 4 archives can be written; use --nj 4 or less" in errors) == (2, True)
    assert not list(tmp_path.glob("*.ark"))
