"""Outputs of ``ninja.write``: formats by extension or name, one or several lattices per file, complete files only."""

import gzip
import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from strategies_text import lattice_of
from whole_files import read_objects

import ninja
from ninja.errors import LatticeError, OptionError, OutputError, SymbolError
from ninja.formats.format import by_name, format_of, formats
from ninja.formats.k2 import read_k2s
from ninja.formats.kaldi.fst_archive import read_fst_archive
from ninja.formats.native import NativeFile
from ninja.formats.nbest.nemo import read_nemo
from ninja.formats.nbest.srilm import read_srilm
from ninja.formats.pfsg import read_pfsgs
from ninja.formats.slf import SlfOptions, read_slf
from ninja.graph import nbest_lattice
from ninja.lattice.nbest import NBest, sentence
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import SymbolTable

pytestmark = pytest.mark.usefixtures("folder")

OUTPUT_FORMATS = [form.name for form in formats() if form.write is not None and not form.write.rewrites_files]
LATTICE = lattice_of([(0, 1, 1, 1.5, 2.0), (0, 1, 2, 0.5, 4.0)], {1: (0.0, 0.25)})
LATTICE = LATTICE.with_words(SymbolTable(LATTICE.words, "words.txt"))  # a table with a file, which is not written again
LATTICES = [LATTICE.with_key("a"), LATTICE.with_key("b")]
NETWORKS = [ConfusionNetwork.from_bins(key, [[("a", 1.0, None, None)]]) for key in "ab"]
LISTS = [NBest(key, (sentence(["a", "b"], 1.0, 2.0), sentence(["a"], 3.0, 4.0))) for key in "ab"]
TIMED_FORMS = ("srt", "vtt", "whisper-tsv", "ctm")  # formats of words with times
TIMED = [
    replace(nbest, frame_shift=1.0, hypotheses=tuple(
        replace(path, begin=tuple(range(len(path.words))), end=tuple(range(1, len(path.words) + 1)))
        for path in nbest.hypotheses
    ))
    for nbest in LISTS
]  # fmt: skip
TABLE = LATTICE.words


def items(form):
    if form in TIMED_FORMS:
        return TIMED
    return {"lattice": LATTICES, "nbest": LISTS, "network": NETWORKS}[by_name(form, "write").holds]


def extension_of(form):
    return by_name(form, "write").extensions[0]


def write_items(name, values, **options):
    with ninja.write(name, **options) as output:
        for item in values:
            output.write(item)
    return output


def list_files():
    return sorted(str(path) for path in Path().rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "to", "form"),
    [
        ("x.ark", None, "binary"),
        ("x", None, "binary"),
        ("lat.1.gz", None, "binary"),
        ("lat.1", None, "binary"),
        ("/dev/null", None, "binary"),
        ("-", None, "binary"),
        ("ark,t:x.slf", None, "text"),
        ("ark:x.slf", None, "binary"),
        ("x.txt.gz", None, "text"),
        ("x.slf", None, "slf"),
        ("x.SLF.gz", None, "slf"),
        ("folder.d/x.sphinx", None, "sphinx"),
        ("x.pfsg", None, "pfsg"),
        ("x.plf", None, "plf"),
        ("x.mesh", None, "mesh"),
        ("x.fst", None, "openfst"),
        ("x.fst.txt", None, "fst-text"),
        ("x.att.gz", None, "fst-text"),
        ("x.pt", None, "k2"),
        ("x.arrow", None, "native"),
        ("x.jsonl", None, "json"),
        ("x.json", None, "json"),
        ("x.nbest", None, "srilm"),
        ("x.tsv", None, "nemo"),
        (Path("x.slf"), None, "slf"),
        ("x.slf", "kaldi", "binary"),
        ("x.ark", "kaldi-text", "text"),
        ("x.lat", "htk", "slf"),
        ("x.lat", "sphinx", "sphinx"),
        ("x", "att", "fst-text"),
        ("x", "arrow", "native"),
        ("x", "nbest", "json"),
        ("ark,t:x", "text", "text"),
        ("ark,scp:x,y", "binary", "binary"),
        *((f"x{number}", form, form) for number, form in enumerate(OUTPUT_FORMATS)),
    ],
)
def test_the_format_comes_from_the_name_or_the_to_option(name, to, form):
    output = format_of(name, to)
    assert (output.format.name, output.options) == (form, {})


@pytest.mark.parametrize(
    ("name", "to", "message"),
    [
        ("x.lat", None, "the extension belongs to slf and sphinx; use to='slf' or to='sphinx' (--to slf, --to sphinx)"),
        ("x.lat.gz", None, "the extension belongs to slf and sphinx"),
        ("x.fsa", None, "the extension belongs to openfst and fst-text"),
        ("x", "htl", "unknown output format 'htl'; available formats: binary, text, slf,"),
        ("x", "", "unknown output format ''"),
        ("x", "slf:base", "expected OPTION=VALUE after the colon, found 'base'"),
        ("x", "slf:bass=10", "slf has no option 'bass'; available options: base, frame_shift"),
        ("x", "slf:base=ten", "slf: base=ten is not a number or none"),
        ("x", "slf:base=-1", "base is -1.0"),
        ("x", "slf:frame_shift=0", "frame_shift is 0.0"),
        ("x", "sphinx:base=1", "base is 1.0"),
        ("x", "pfsg:costs=all", "pfsg: costs=all is not one of total, graph, acoustic"),
        ("x", "openfst:acoustic_scale=nan", "acoustic_scale is nan, but must be finite"),
        ("x", "mesh:lm_scale=inf", "lm_scale is inf"),
        ("x", "json:n=-1", "n is -1"),
        ("x", "json:n=2,n=3", "sets n twice"),
        ("x", "binary:n=2", "binary has no option 'n'; remove the option"),
        ("x", "native:n=2", "native has no option 'n'; remove the option"),
        ("ark:x", "slf", "'ark:x' is a wspecifier and cannot have the format 'slf'; use a file name"),
        ("ark:x", "text", "'ark:x' is a wspecifier and cannot have the format"),
        ("ark,t:x", "binary", "'ark,t:x' is a wspecifier and cannot have the format"),
        ("| cat", "slf", "commands are not run"),
        ("", "slf", "is not a file name"),
        ("-", "espnet", "espnet writes several files; specify a folder"),
        (".", "pfsg", "is a folder, but pfsg writes a single file; add a file name"),
        (".", "binary", "is a folder; add a file name"),
    ],
)
def test_an_invalid_output_format_is_refused(name, to, message):
    with pytest.raises(OptionError) as caught:
        ninja.write(name, to=to)
    assert message in str(caught.value)
    assert list_files() == []


@pytest.mark.parametrize("option", [{"resume": True}, {"kind": "raw"}])
def test_options_of_kaldi_archives_are_refused_for_other_formats(option):
    with pytest.raises(OptionError, match=f"{next(iter(option))} applies only to Kaldi archives, but the format of"):
        ninja.write("x.slf", **option)
    with pytest.raises(OptionError, match="lossy is 'perhaps', but must be allow or refuse"):
        ninja.write("x.slf", lossy="perhaps")
    with pytest.raises(OptionError, match="unknown encoding 'klingon'"):
        ninja.write("x.slf", encoding="klingon")


SEVERAL_PER_FILE = ["binary", "text", "pfsg", "plf", "fst-ark", "k2", "native", "json", "nemo", "nbest-kaldi"]
SEVERAL_PER_FILE += ["parquet", "transcripts", *TIMED_FORMS]
SINGLE_PER_FILE = ["slf", "sphinx", "openfst", "fst-text", "mesh", "srilm"]


def test_every_output_format_is_classified_by_lattices_per_file():
    assert {*SEVERAL_PER_FILE, *SINGLE_PER_FILE, "espnet"} == {*OUTPUT_FORMATS}
    assert {*SINGLE_PER_FILE} == {form for form in OUTPUT_FORMATS if by_name(form, "write").write.files == "each"}


@pytest.mark.parametrize("form", SEVERAL_PER_FILE)
def test_a_file_of_several_lattices_appears_when_it_is_complete(form):
    with ninja.write("x", to=form, words=TABLE if form == "nbest-kaldi" else None) as output:
        for item in items(form):
            output.write(item)
            assert not Path("x").exists()
    assert list_files() == ["x"]
    content = Path("x").read_bytes()
    write_items("x.gz", items(form), to=form, words=TABLE if form == "nbest-kaldi" else None)
    assert gzip.decompress(Path("x.gz").read_bytes()) == content


@pytest.mark.parametrize("form", [*SEVERAL_PER_FILE, *SINGLE_PER_FILE, "espnet"])
def test_a_failed_writer_leaves_no_file(form):
    with pytest.raises(KeyboardInterrupt), ninja.write("x", to=form, words=TABLE) as output:  # noqa: PT012
        if form in SEVERAL_PER_FILE:
            output.write(items(form)[0])
        raise KeyboardInterrupt
    assert os.listdir() == []


def test_files_of_a_folder_appear_when_they_are_complete(monkeypatch):
    with pytest.raises(KeyboardInterrupt), ninja.write("out", to="slf") as output:  # noqa: PT012
        output.write(LATTICES[0])
        assert list_files() == ["out/a.slf"]
        raise KeyboardInterrupt
    assert list_files() == ["out/a.slf"]

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError, match=r"out/b\.slf: cannot be written: No space left"):
        write_items("out", LATTICES[1:], to="slf")
    assert os.listdir("out") == ["a.slf"]


@pytest.mark.parametrize("form", SINGLE_PER_FILE)
def test_names_without_an_extension_are_folders_with_a_file_per_lattice(form):
    extension = extension_of(form)
    write_items("deep/out", items(form), to=form)
    assert list_files() == [f"deep/out/{key}{extension}" for key in "ab"]
    single = f"a{extension}"
    write_items(single, items(form)[:1], to=form)
    assert Path(single).read_bytes() == Path("deep/out", single).read_bytes()
    os.mkdir(f"b{extension}")  # an existing folder, despite its extension
    write_items(f"b{extension}", items(form)[:1])
    assert os.listdir(f"b{extension}") == [single]
    write_items(f"new{extension}/", items(form)[:1])
    assert os.listdir(f"new{extension}") == [single]


@pytest.mark.parametrize("form", SINGLE_PER_FILE)
def test_a_file_of_a_single_lattice_refuses_a_second_one(form):
    name = f"x{extension_of(form)}"
    message = rf"{name}: {form} files contain a single lattice, but there are several, 'a' and 'b'; write to a folder"
    with pytest.raises(OutputError, match=message) as caught:
        write_items(name, items(form))
    assert caught.value.key is None  # the error concerns both lattices
    assert os.listdir() == []
    with ninja.write(name) as output:  # no file is written if the error is ignored
        output.write(items(form)[0])
        with pytest.raises(OutputError):
            output.write(items(form)[1])
    assert os.listdir() == []
    write_items(name, [])
    assert os.listdir() == []


@pytest.mark.parametrize("form", SINGLE_PER_FILE)
def test_a_file_of_a_single_lattice_is_compressed_by_extension(form):
    name = f"x{extension_of(form)}"
    write_items(name, items(form)[:1])
    write_items(f"{name}.gz", items(form)[:1])
    assert gzip.decompress(Path(f"{name}.gz").read_bytes()) == Path(name).read_bytes()


@pytest.mark.parametrize("form", [*SINGLE_PER_FILE, *SEVERAL_PER_FILE])
def test_standard_output_has_the_content_of_a_file(form, monkeypatch):
    values = items(form)[: 1 if form in SINGLE_PER_FILE else 2]
    stream = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        write_items("-", values, to=form, words=TABLE if form == "nbest-kaldi" else None)
    extension = extension_of(form) if form in SINGLE_PER_FILE else ""
    write_items(f"x{extension}", values, to=form, words=TABLE if form == "nbest-kaldi" else None)
    assert stream.buffer.getvalue() == Path(f"x{extension}").read_bytes()


def test_a_second_lattice_on_standard_output_leaves_it_empty(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(OutputError, match="slf files contain a single lattice, but there are several, 'a' and 'b'"):
        write_items("-", LATTICES, to="slf")
    assert stream.buffer.getvalue() == b""


@pytest.mark.parametrize("key", ["", ".", "..", ".hidden", "a/b", "k" * 255, "a\0b"])
def test_a_key_that_is_not_a_file_name_fails_only_its_lattice(key):
    with ninja.write("out", to="slf") as output:
        with pytest.raises(OutputError, match="the key is not a valid file name; use another key") as caught:
            output.write(LATTICE, key=key)
        assert caught.value.key == key
        output.write(LATTICE)
    assert list_files() == ["out/k.slf"]


def test_keys_with_the_same_file_name_are_refused():
    os.mkdir("out")
    os.symlink("A.fst", "out/a.fst")  # as on a case-insensitive file system
    with ninja.write("out", to="openfst") as output:
        for key in ("A", "b"):
            output.write(LATTICE, key=key)
        for key in ("A", "a", "b"):
            with pytest.raises(OutputError, match="the file for this key was already written; keys must be unique"):
                output.write(LATTICE, key=key)
    assert list_files() == ["out/A.fst", "out/a.fst", "out/b.fst"]
    write_items("out", [LATTICE.with_key("b")], to="openfst")  # files of an earlier run are replaced


@pytest.mark.parametrize("form", ["json", "espnet"])
def test_a_repeated_key_is_refused_by_formats_with_unique_keys(form):
    with ninja.write("x", to=form) as output:
        output.write(LISTS[0])
        with pytest.raises(OutputError, match="key 'a': the key is already in the output"):
            output.write(LISTS[0])


@pytest.mark.parametrize("form", ["binary", "pfsg", "mesh", "fst-ark", "espnet", "nbest-kaldi"])
@pytest.mark.parametrize("key", ["", "a b"])
def test_a_key_with_whitespace_is_refused_by_formats_with_fields(form, key):
    with (
        ninja.write("x", to=form, words=TABLE) as output,
        pytest.raises(LatticeError, match="is empty or contains whitespace; use another key"),
    ):
        output.write(items(form)[0], key=key)


@pytest.mark.parametrize("form", ["slf", "pfsg", "mesh", "json", "espnet", "native"])
def test_a_key_that_is_not_utf_8_is_refused_by_text_formats(form):
    key = b"\xff".decode("utf-8", "surrogateescape")
    with ninja.write("x", to=form) as output:
        with pytest.raises((LatticeError, SymbolError), match="key cannot be encoded as UTF-8") as caught:
            output.write(items(form)[0], key=key)
        assert caught.value.key == key
        output.write(items(form)[0])
    write_items("y", [LATTICE.with_key(key)], to="fst-ark")
    assert next(read_fst_archive(Path("y").read_bytes()))[0] == key


def test_a_folder_that_cannot_be_created_is_an_output_error():
    Path("file").write_text("old")
    for form in ("slf", "espnet"):
        with pytest.raises(OutputError, match="file: cannot be written: File exists"):
            write_items("file", [], to=form)
    for name in ("none/x.slf", "none/x.ark"):
        with pytest.raises(OutputError, match=f"{name}: cannot be written: No such file"):
            write_items(name, LATTICES[:1])
    assert Path("file").read_text() == "old"


# Other systems have no such device; CI runs on Linux, where tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full, a device that is always full")
@pytest.mark.parametrize("form", [*SEVERAL_PER_FILE, "slf"])
def test_a_full_device_is_an_output_error(form):
    with pytest.raises(OutputError, match="/dev/full: cannot be written: No space left on device"):
        write_items("/dev/full", items(form)[:1], to=form, words=TABLE)


def test_writing_outside_the_with_block_is_refused():
    for form in OUTPUT_FORMATS:
        output = ninja.write(form, to=form, words=TABLE)
        with pytest.raises(OutputError, match=f"{form}: the writer is not open; use it in a with block"):
            output.write(items(form)[0])
        with output:
            pass
        with pytest.raises(OutputError, match="the writer is not open"):
            output.write(items(form)[0])


@pytest.mark.parametrize("form", OUTPUT_FORMATS)
def test_each_format_refuses_items_that_it_does_not_store(form):
    holds = by_name(form, "write").holds
    lattice = LATTICES[0].replace(time=np.array([0, 3], np.int32)) if form in TIMED_FORMS else LATTICES[0]
    with ninja.write("x", to=form, words=TABLE) as output:
        for kind, item in (("lattice", lattice), ("nbest", LISTS[0]), ("network", NETWORKS[0])):
            if kind in ("lattice", holds):
                continue
            with pytest.raises(OptionError, match=f"{form} stores lattices"):
                output.write(item)
        output.write(lattice)


def test_format_options_set_the_scales_of_lists_and_networks():
    write_items("one.jsonl", [LATTICE], to="json:n=1,acoustic_scale=0")
    write_items("other.jsonl", [LATTICE], to="json:n=1,acoustic_scale=4")
    texts = [read_objects(Path(name).read_bytes())[0].hypotheses for name in ("one.jsonl", "other.jsonl")]
    assert [[hypothesis.words for hypothesis in hypotheses] for hypotheses in texts] == [[("b",)], [("a",)]]
    for name, to in (("flat.mesh", "mesh:acoustic-scale=0,lm_scale=0"), ("steep.mesh", "mesh:lm_scale=4")):
        write_items(name, [LATTICE], to=to)
    assert "align 0 a 0.5 b 0.5\n" in Path("flat.mesh").read_text()
    assert Path("flat.mesh").read_text() != Path("steep.mesh").read_text()


def test_needs_words_is_true_for_formats_of_ids():
    names = {form for form in OUTPUT_FORMATS if ninja.write("x", to=form).needs_words}
    assert names == {"binary", "text", "openfst", "fst-text", "fst-ark", "k2", "nbest-kaldi"}
    assert not ninja.write("x", to="fst-text:labels=words").needs_words


REORDERED_TABLE = SymbolTable.from_words(["<eps>", "b", "a", "c"])
LONGER_TABLE = SymbolTable.from_words(["<eps>", "a", "b", "c", "d"])


@pytest.mark.parametrize("form", ["binary", "openfst", "fst-text", "fst-ark", "k2", "native"])
def test_ids_of_different_tables_are_not_mixed(form):
    with ninja.write("x", to=form) as output:
        output.write(LATTICE)
        output.write(LATTICE.with_words(LONGER_TABLE), key="more")  # the tables agree on the words of the lattice
        for words in (REORDERED_TABLE, None):
            message = "contradicts the table of earlier lattices; read all lattices with the same"
            with pytest.raises(SymbolError, match=message):
                output.write(LATTICE.with_words(words), key="no")
        output.write(LATTICE, key="again")
    with ninja.write("y", to=form, words=LONGER_TABLE) as output:
        output.write(LATTICE.with_words(None))
        output.write(LATTICE, key="more")
        with pytest.raises(SymbolError, match=r"key 'no': .* contradicts the table in words=") as caught:
            output.write(LATTICE.with_words(REORDERED_TABLE), key="no")
        assert caught.value.key == "no"
    with ninja.write("z", to=form) as output:
        output.write(LATTICE.with_words(None))
        with pytest.raises(SymbolError):
            output.write(LATTICE, key="no")


def test_words_come_from_the_words_argument_or_the_lattice():
    write_items("own", [LATTICE, LATTICE.with_words(REORDERED_TABLE).with_key("other")], to="slf")
    assert b"W=b\ta=-2" in Path("own/other.slf").read_bytes()
    assert b"W=a\ta=-2" in Path("own/k.slf").read_bytes()
    write_items("given", [LATTICE.with_words(None)], to="slf", words=REORDERED_TABLE)
    assert Path("given/k.slf").read_bytes() == Path("own/other.slf").read_bytes().replace(b"other", b"k")
    write_items("own.arrow", [LATTICE, LATTICE.with_words(LONGER_TABLE)])
    write_items("given.arrow", [LATTICE.with_words(None)], words=REORDERED_TABLE)
    names = [[lattice.words.word(1) for lattice in NativeFile(name)] for name in ("own.arrow", "given.arrow")]
    assert names == [["a", "a"], ["b"]]
    with (
        ninja.write("x.plf", words=REORDERED_TABLE) as output,
        pytest.raises(SymbolError, match="contradicts the table in words="),
    ):
        output.write(LATTICE)
    with ninja.write("x.plf") as output, pytest.raises(SymbolError, match="key 'k': the lattice contains only"):
        output.write(LATTICE.with_words(None))
    with ninja.write("x", to="nbest-kaldi") as output, pytest.raises(SymbolError, match=r"specify words= \(--words\)"):
        output.write(LISTS[0])


def test_a_lattice_that_a_format_cannot_store_fails_alone():
    large_costs = lattice_of([(0, 1, 1, 3e38, 3e38)], {1: (0.0, 0.0)})
    with ninja.write("x.pt") as output:
        with pytest.raises(LatticeError, match="key 'k': an arc's total cost exceeds the range of float32"):
            output.write(large_costs)
        output.write(LATTICE)
    assert [lattice.key for lattice in read_k2s(Path("x.pt").read_bytes())] == ["k"]
    with ninja.write("x.pfsg") as output:
        with pytest.raises(LatticeError, match="key 'k': a cost exceeds the range of a PFSG"):
            output.write(large_costs)
        output.write(LATTICE)
    assert len(list(read_pfsgs(Path("x.pfsg").read_bytes()))) == 1
    with ninja.write("x.tsv") as output:
        output.write(LISTS[0])
        with pytest.raises(
            LatticeError, match=r"key 'c': this list has 1 hypotheses, but earlier lists have 2; .*\(--to nemo:n=…\)"
        ):
            output.write(NBest("c", LISTS[0].hypotheses[:1]))
        output.write(LISTS[1])
    assert len(list(read_nemo(Path("x.tsv").read_bytes(), ["a", "b"]))) == 2


def test_the_key_argument_replaces_the_key_of_the_lattice():
    key_readers = {
        "x.slf": lambda content: read_slf(content, "", options=SlfOptions(key="utterance")).key,
        "x.pfsg": lambda content: next(read_pfsgs(content)).key,
        "x.pt": lambda content: next(read_k2s(content)).key,
        "x.arrow": lambda content: next(iter(NativeFile(content))).key,
        "x.jsonl": lambda content: read_objects(content)[0].key,
    }
    for name, read_key in key_readers.items():
        with ninja.write(name) as output:
            output.write(LISTS[0] if name == "x.jsonl" else LATTICE, key="new")
        assert read_key(Path(name).read_bytes()) == "new"
    with ninja.write("x", to="fst-ark") as output:
        output.write(LATTICE, key="new")
    assert next(read_fst_archive(Path("x").read_bytes()))[0] == "new"


def test_words_are_written_in_the_encoding_argument():
    words = SymbolTable.from_words(["<eps>", "ä", "é", "ß"])
    lattice = LATTICE.with_words(words)
    lists = [NBest("a", (sentence(["ä"], 1.0),))]
    for name, item in [("x.slf", lattice), ("x.sphinx", lattice), ("x.pfsg", lattice), ("x.plf", lattice)]:
        write_items(name, [item], encoding="latin-1")
        assert "ä".encode("latin-1") in Path(name).read_bytes()
    for name in ("x.jsonl", "x.tsv", "x.nbest"):
        write_items(name, lists, encoding="latin-1")
        assert Path(name).read_bytes().decode("latin-1").count("ä") == 1
    with (
        ninja.write("y.jsonl", encoding="latin-1") as output,
        pytest.raises(SymbolError, match=r"key 'c': '.*漢.*LATIN-1"),
    ):
        output.write(NBest("c", (sentence(["漢"]),)))


def test_nbest_lists_are_written_and_read_in_their_formats():
    write_items("x.jsonl", LISTS)
    assert read_objects(Path("x.jsonl").read_bytes()) == LISTS
    write_items("a.nbest", LISTS[:1])
    nbest = read_srilm(Path("a.nbest").read_bytes(), "a")
    assert [hypothesis.words for hypothesis in nbest.hypotheses] == [("a", "b"), ("a",)]
    write_items("x", LISTS, to="nbest-kaldi", words=TABLE)
    lattices = dict(ninja.read("x"))
    assert [*lattices] == ["a-1", "a-2", "b-1", "b-2"]
    assert lattices["a-1"].word.tolist() == [1, 2]
    write_items("fst.txt", [LATTICE], to="fst-ark")
    assert Path("fst.txt").read_bytes().startswith(b"k \n0\t1\t1\t1\t3.5\n")
    write_items("x.txt", LISTS, to="nbest-kaldi", words=TABLE)
    assert Path("x.txt").read_bytes().startswith(b"a-1 \n0\t1\t1\n1\t2\t2\n2\t1,2,\n")
    assert nbest_lattice(LISTS[0], TABLE).num_arcs == 3  # two words, and the end of the second hypothesis
