"""File names in files: each kind of file that contains file names has a row here, and opens permitted files only.

A format, a reader or a kind of model without a row fails the tests of the tables. Rows of files that one run writes
and another reads (plans and records of shards) are in test_shards_untrusted.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nnet3_writer
import numpy as np
import pytest
from lattice_files import write_all
from small_files import FORMATS, READERS

import ninja as package
from ninja.consensus import confusion_network, mbr_decode
from ninja.context.entities import Entities
from ninja.decoding.matrices import read_matrices
from ninja.errors import NinjaError, OptionError
from ninja.files import remote
from ninja.formats.format import Format, formats
from ninja.graph import from_arcs
from ninja.io.number_tables import read_integers
from ninja.lattice import Lattice, SymbolTable
from ninja.lattice.nbest import NBest, sentence
from ninja.lm import load
from ninja.lm.load import FORMATS as MODEL_FORMATS
from ninja.lm.ngram.class_model import read_classes

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# ---- check of opened files ----

_events: list[tuple[str, str]] | None = None  # audit events and their arguments during a check


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _events is not None and event in (
        "open",
        "socket.connect",
        "socket.getaddrinfo",
        "subprocess.Popen",
        "os.system",
    ):
        _events.append((event, os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else repr(arguments)))


sys.addaudithook(_audit)


@contextmanager
def check_opened_files(*allowed: Path) -> Iterator[None]:
    """Fail if a command runs, or if a connection, an fsspec file system or a file that is not allowed is opened."""
    global _events
    urls: list[str] = []
    file_system, remote._file_system = remote._file_system, lambda url: urls.append(url) or file_system(url)  # type: ignore[assignment, func-returns-value]
    allowed_folders = [Path(sys.prefix), Path(sys.base_prefix), Path(package.__file__).parents[1], *allowed]
    allowed_folders += [Path(path).resolve() for path in map(str, allowed_folders)]
    allowed_folders += [
        Path(__file__).parents[1],
        Path("/proc"),
        Path("/sys"),
        Path("/dev/null"),
        Path("/etc/os-release").resolve(),
    ]
    _events = []
    try:
        yield
    finally:
        events, _events = _events, None
        remote._file_system = file_system
    for event, name in events:
        is_allowed = any(Path(os.path.realpath(name)).is_relative_to(path) for path in allowed_folders)
        assert event == "open", (event, name)
        assert name == "" or is_allowed, f"{name} was opened"
    assert not urls, f"{urls} were requested"


# ---- files that name other files ----

URLS = ("reference://x::data:;base64,e30=", "ftp://127.0.0.1:1/x", "s3://bucket/x", "http://127.0.0.1:1/x")
URLS += ("memory://x/lat.ark", "simplecache::file:///etc/hostname", "file:///etc/hostname")
PIPES = ("touch ran; cat secret |", "sh -c 'touch ran' |", "gunzip -c s3://bucket/x |", "cat ftp://127.0.0.1:1/x |")
STREAMS = ("{folder}/fifo", "/dev/zero", "cat {folder}/fifo |", "cat /dev/zero |", "-")
OUTSIDE = ("{outside}/secret", "../outside/secret", "below/../../outside/secret", "link", "/dev/../{outside}/secret")

Read = Callable[[Path, str], list[NinjaError]]


def collect_errors(read: Callable[[list[NinjaError]], object]) -> list[NinjaError]:
    """Return the reported errors of a read, and the raised one."""
    errors: list[NinjaError] = []
    try:
        read(errors)
    except NinjaError as error:
        errors.append(error)
    return errors


def list_of_files(folder: Path, name: str) -> list[NinjaError]:
    (folder / "list").write_text(f"{folder}/good.ark\n{name}\n{folder}/good.ark\n")
    keys: list[str] = []
    errors = collect_errors(
        lambda errors: keys.extend(key for key, _ in package.read(folder / "list", on_error=errors.append))
    )
    assert keys == ["utt", "utt"]
    return errors


def script_file(folder: Path, name: str) -> list[NinjaError]:
    (folder / "x.scp").write_text(f"a {folder}/good.ark:4\nb {name}\nc {folder}/good.ark:4\n")
    keys: list[str] = []
    errors = collect_errors(
        lambda errors: keys.extend(key for key, _ in package.read(folder / "x.scp", on_error=errors.append))
    )
    assert keys == ["a", "c"]
    return errors


def offset_in_a_script_file(folder: Path, name: str) -> list[NinjaError]:
    return script_file(folder, name if name.endswith("|") else f"{name}:4")


def list_of_matrices(folder: Path, name: str) -> list[NinjaError]:
    (folder / "list").write_text(f"{folder}/good.npy\n{folder}/good.npy\n{name}\n")
    keys: list[str] = []
    errors = collect_errors(
        lambda errors: keys.extend(key for key, *_ in read_matrices(str(folder / "list"), errors.append))
    )
    assert keys == ["good", "good"]
    return errors


def script_file_of_matrices(folder: Path, name: str) -> list[NinjaError]:
    (folder / "m.scp").write_text(f"a {folder}/good.npy\nb {name}\nc {folder}/good.npy\n")
    keys: list[str] = []
    errors = collect_errors(
        lambda errors: keys.extend(key for key, *_ in read_matrices(str(folder / "m.scp"), errors.append))
    )
    assert keys == ["a", "c"]
    return errors


def script_file_of_numbers(folder: Path, name: str) -> list[NinjaError]:
    (folder / "ali.scp").write_text(f"b {name}\n")
    return collect_errors(lambda errors: list(read_integers(str(folder / "ali.scp"))))


def entity_list(write: Callable[[str], str]) -> Read:
    def read_list(folder: Path, name: str) -> list[NinjaError]:
        (folder / "entities").write_text(write(name))
        errors = []
        for path in (folder / "entities", Path("entities")):  # also by a name without a folder
            errors += collect_errors(lambda errors, path=path: Entities.read(path))  # type: ignore[misc]
        assert len(errors) == 2
        return errors

    return read_list


def options(folder: Path, name: str) -> list[NinjaError]:
    from ninja.cli.main import main

    (folder / "o.toml").write_text(f"words = {json.dumps(name)}\n")
    code = main(
        ["rescore", str(folder / "good.ark"), "--config", str(folder / "o.toml"), "-o", str(folder / "out.ark")]
    )
    return [OptionError("refused")] if code == 2 else []


def changed_model(folder: Path, file: str, **entries: object) -> Path:
    """Return a copy of a Hugging Face model with changed settings."""
    from tiny_hf import change_settings, copy_model

    model = copy_model(folder / "model")
    change_settings(model / file, **entries)
    return model


def setting(file: str, *keys: str, as_list: bool = False) -> Read:
    """Return a function that reads a Hugging Face model with a name in a setting; keys are from the outermost."""

    def read_model(folder: Path, name: str) -> list[NinjaError]:
        value: object = [name] if as_list else name
        for key in reversed(keys[1:]):
            value = {key: value}
        model = changed_model(folder, file, **{keys[0]: value})
        return collect_errors(lambda errors: load(model))

    return read_model


def index_of_weights(folder: Path, name: str) -> list[NinjaError]:
    model = changed_model(folder, "model.safetensors.index.json", weight_map={"transformer.wte.weight": name})
    (model / "model.safetensors").unlink()
    return collect_errors(lambda errors: load(model))


def onnx_weights(folder: Path, name: str) -> list[NinjaError]:
    pytest.importorskip("onnx")
    from tiny_onnx import with_external_weight

    model = with_external_weight(folder / "model.onnx", name)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return collect_errors(lambda errors: load(folder / "model.onnx"))


# Kinds of files that name other files: their readers, and the forbidden names. Lists and script files that the user
# specifies may name any regular file of the machine; other files may only name files in their folder or below.
ANYWHERE = (*URLS, *PIPES, *STREAMS)
INSIDE = (*URLS, *PIPES, *STREAMS, *OUTSIDE)
FILES_WITH_NAMES: dict[str, tuple[Read, tuple[str, ...]]] = {
    "list of files": (list_of_files, ANYWHERE),
    "script file": (script_file, ANYWHERE),
    "script file, with an offset": (offset_in_a_script_file, ANYWHERE),
    "list of matrices": (list_of_matrices, ANYWHERE),
    "script file of matrices": (script_file_of_matrices, ANYWHERE),
    "script file of numbers": (script_file_of_numbers, ANYWHERE),
    "entities, JSON": (entity_list(lambda name: json.dumps({"lists": {"p": {"file": name}}})), INSIDE),
    "entities, JSONL": (entity_list(lambda name: json.dumps({"list": "p", "file": name}) + "\n"), INSIDE),
    "entities, TSV": (entity_list(lambda name: f"list:p\tfile\t{name}\n"), INSIDE),
    "options": (options, URLS),
    "ONNX": (onnx_weights, INSIDE),
    "index of weights": (index_of_weights, INSIDE),
    "tokenizer's files": (setting("tokenizer_config.json", "fast_tokenizer_files", as_list=True), INSIDE),
    "tokenizer's vocabulary": (setting("tokenizer_config.json", "vocab_file"), INSIDE),
    "tokenizer's file": (setting("special_tokens_map.json", "tokenizer_file"), INSIDE),
    "tokenizer's sentencepiece": (setting("tokenizer_config.json", "sp_model_kwargs", "model_file"), INSIDE),
    "tokenizer's dictionary": (setting("tokenizer_config.json", "mecab_kwargs", "mecab_dic"), INSIDE),
    "tokenizer's arguments": (setting("tokenizer_config.json", "init_inputs", as_list=True), INSIDE),
    "weights of a configuration": (setting("config.json", "transformers_weights"), INSIDE),
    "configurations": (setting("config.json", "configuration_files", as_list=True), INSIDE),
}
OF_HUGGING_FACE = ("index of weights", "tokenizer", "weights of", "configurations")
# In these kinds, a name without a slash is a file in the folder, or does not exist.
IN_ONE_FOLDER = {kind for kind in FILES_WITH_NAMES if kind.startswith(OF_HUGGING_FACE)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a working folder with valid files, a pipe, a link to a file outside of it, and a secret next to it."""
    inside = tmp_path / "inside"
    for directory in (inside, inside / "below", tmp_path / "outside"):
        directory.mkdir()
    (tmp_path / "outside" / "secret").write_text("@name\tpassword\n")
    (inside / "link").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(inside / "fifo")
    write_all(inside / "good.ark", [from_arcs("utt", [0], [1], [1], [1.0], [0.0], finals={1: 0.0})])
    np.save(inside / "good.npy", np.zeros((2, 3), np.float32))
    monkeypatch.chdir(inside)
    return inside


@pytest.mark.timeout(60)  # a pipe would block
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, (_, names) in FILES_WITH_NAMES.items() for name in names]
)
def test_names_in_files_open_permitted_files_only(kind: str, name: str, folder: Path) -> None:
    if kind.startswith(OF_HUGGING_FACE):
        pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")
        import tiny_hf

        tiny_hf.folder("gpt2")  # created before the check
    read, _ = FILES_WITH_NAMES[kind]
    allowed = [
        Path(tempfile.gettempdir(), name) for name in os.listdir(tempfile.gettempdir()) if name.startswith("tmp")
    ]
    with check_opened_files(folder, *allowed):  # the folders of the copied models
        errors = read(folder, name.format(folder=folder, outside=folder.parent / "outside"))
    if kind not in IN_ONE_FOLDER or os.path.basename(name) != name:
        assert errors, f"{name} was read"
    assert not (folder / "ran").exists()
    assert "password" not in " ".join(map(str, errors))


@pytest.mark.parametrize("kind", [kind for kind, (_, names) in FILES_WITH_NAMES.items() if names == ANYWHERE])
def test_script_files_and_lists_open_any_regular_file(kind: str, folder: Path) -> None:
    read, _ = FILES_WITH_NAMES[kind]
    outside = folder.parent / "outside"
    (outside / "ali").write_bytes(b"b \0B\4\1\0\0\0\4\7\0\0\0")
    for name in ("good.ark", "good.npy"):
        (outside / name).write_bytes((folder / name).read_bytes())
    name = str(outside / ("ali:2" if "numbers" in kind else "good.npy" if "matrices" in kind else "good.ark"))
    name += ":4" if kind == "script file" else ""
    try:
        errors = read(folder, name)
    except AssertionError as error:  # an additional entry was read
        assert "good" in str(error) or "utt" in str(error) or "'b'" in str(error)  # noqa: PT017
        return
    assert errors == []


def test_memory_urls_are_not_supported() -> None:
    code = "import ninja\ntry: list(ninja.read('memory://x/y'))\nexcept ninja.errors.OptionError as error: print(error)"
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "memory:// is not supported; use abfs://" in process.stdout, process.stderr


# ---- files that name no files ----

FILE_NAMES = ("ftp://127.0.0.1:1/x", "s3://bucket/x", "reference://x::data:;base64,e30=", "/etc/hostname", "../secret")
WORDS = SymbolTable.from_words(["<eps>", "<s>", "</s>", *FILE_NAMES])
# Formats whose files name no other files; each is read with file names as words.
FORMATS_WITHOUT_NAMES = {
    *("binary", "text", "slf", "sphinx", "pfsg", "plf", "mesh", "openfst", "fst-ark", "named-text", "k2", "native"),
    *("json", "srilm", "columns", "ctm", "fst-text", "nemo", "nbest-kaldi", "espnet"),
    *("srt", "vtt", "whisper-tsv", "transcripts", "parquet"),
}
# Readers of `test_mutated_files` whose files name no files; readers of lattice archives are formats.
READERS_WITHOUT_NAMES = {
    *(
        "matrix archive",
        "nnet3",
        "checkpoint",
        "transition model",
        "symbol table",
        "word boundary",
        "align lexicon",
        "pronunciations",
    ),
    *("segments", "stm", "glm", "biasing lists"),
}


def test_every_format_and_reader_has_a_row() -> None:
    names = {form.name for form in formats() if form.write is None or not form.write.rewrites_files}
    assert names == FORMATS_WITHOUT_NAMES, "does a file of the new format name others?"
    readers = set(READERS) - FORMATS_WITHOUT_NAMES
    assert readers == READERS_WITHOUT_NAMES | {"entities", "options"}, "do files of the new reader name others?"


def lattice() -> Lattice:
    return Lattice.from_arrays(
        "utt", [0, 2, 3, 4, 5, 5], [1, 2, 3, 3, 4], [3, 4, 5, 6, 7], [0.5, 1, 0, 2, 1], [1, 2, 3, 0.25, 1],
        [np.inf] * 4 + [0.5], ali_begin=[0, 1, 3, 5, 6, 7], ali=[7, 8, 8, 9, 9, 7, 7], words=WORDS,
    )  # fmt: skip


def write_names(form: Format, target: Path) -> None:
    """Write a file of a format whose words are names and URLs, also its keys unless they are file names."""
    key = "ftp://127.0.0.1:1/x" if form.write is not None and form.write.files == "one" else "utt"
    with package.write(target, to=form.name, words=WORDS) as output:
        if form.holds == "lattice":
            output.write(lattice().with_key(key))
        elif form.holds == "network":
            output.write(confusion_network(mbr_decode(lattice()), words=WORDS))
        else:
            output.write(NBest(key, (sentence(list(FILE_NAMES), 1.5, 10.0), sentence(list(FILE_NAMES[:2]), 2.0, 11.0))))


CUE = "00:00:01.000 --> 00:00:02.000\ns3://bucket/x /etc/hostname\n"
TEXTS = {
    "srt": f"1\n{CUE}",
    "vtt": f"WEBVTT\n\nNOTE ../secret\n\n/etc/hostname\n{CUE}",
    "whisper-tsv": "start\tend\ttext\n0\t90\ts3://bucket/x /etc/hostname\n",
    "transcripts": "ftp://h/x s3://bucket/x /etc/hostname ../secret\n",
    "columns": "ftp://h/x-1 -10.5 -2 | s3://bucket/x /etc/hostname\n",
    "ctm": "ftp://h/x 1 0.00 0.25 s3://bucket/x 0.9\nftp://h/x 1 0.25 0.5 /etc/hostname 0.5\n",
    "named-text": "ftp://h/x\n0 1 s3://bucket/x 0.5,1.5,7_8\n1 0,0,\n\n",
}

FORMAT_OPTIONS = {"nemo": "nemo:beam=2"}  # formats that need the end of an utterance as an option


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(FORMATS_WITHOUT_NAMES))
def test_words_and_keys_like_file_names_open_no_file(name: str, tmp_path: Path) -> None:
    target = tmp_path / "folder" / "out"
    target.parent.mkdir()
    if name in TEXTS:
        target.write_text(TEXTS[name])
    else:
        form = FORMATS[name]
        assert form.write is not None
        write_names(form, target if form.write.files == "one" else tmp_path / "folder")
    files = (
        [tmp_path / "folder"]
        if name == "espnet"
        else [file for file in target.parent.rglob("*") if "words.txt" not in file.name]
    )
    assert files
    with check_opened_files(tmp_path):
        records = [
            file for path in files for _, file in package.read(path, format=FORMAT_OPTIONS.get(name, name), words=WORDS)
        ]
    assert records


# ---- models ----


def rnnlm(folder: Path) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "words.txt").write_text("<eps> 0\n<s> 1\n</s> 2\nftp://h/x 3\n")
    (folder / "special_symbol_opts.txt").write_text("--bos-symbol=1 --eos-symbol=2\n")
    (folder / "word_embedding.final.mat").write_bytes(nnet3_writer.matrix(np.ones((4, 2), np.float32), True))
    lines = ["input-node name=input dim=2", "component-node name=a component=a input=input"]
    values = {"<LinearParams>": np.eye(2, dtype="f4"), "<BiasParams>": np.ones(2, "f4")}
    content = nnet3_writer.network(
        [*lines, "output-node name=output input=a"], {"a": ("NaturalGradientAffineComponent", values)}, True
    )
    (folder / "final.raw").write_bytes(content)


# Kinds of models that are folders, each with a file that must not be a pipe; and kinds of single files, which name no
# files unless FILES_WITH_NAMES has a row.
FOLDERS = {
    "a Hugging Face directory": "tokenizer_config.json",
    "a Kaldi RNNLM": "config/oov.txt",
    "a directory of Caffe2 nets": "words.txt",
}
ONE_FILE = {
    *("a Ninja checkpoint", "an ARPA file", "a const-arpa", "a grammar (OpenFst)", "a KenLM binary"),
    "an ONNX model",  # see FILES_WITH_NAMES
}


def test_every_kind_of_model_has_a_row() -> None:
    names = {model_format.name for model_format in MODEL_FORMATS}
    assert names == {*FOLDERS} | ONE_FILE, "do models of the new format name files?"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", FOLDERS)
def test_pipe_in_model_folder_is_refused(kind: str, folder: Path) -> None:
    model = folder / "model"
    if kind == "a Hugging Face directory":
        pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")
        changed_model(folder, "config.json")
    else:
        model.mkdir()
    if kind == "a Kaldi RNNLM":
        rnnlm(model)
        assert load(model).vocabulary.id("ftp://h/x") == 3
    if kind == "a directory of Caffe2 nets":
        for name in ("init_net.pb", "predict_net.pb"):
            (model / name).write_bytes(b"")
    (model / FOLDERS[kind]).unlink(missing_ok=True)
    os.mkfifo(model / FOLDERS[kind])
    with pytest.raises(NinjaError, match="not a regular file; remove it from the model"):
        load(model)


def test_class_definitions_open_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "classes").write_text("@city ftp://127.0.0.1:1/x\n@city 0.5 /etc/hostname\n")
    with check_opened_files(tmp_path):
        assert len(read_classes(tmp_path / "classes")["@city"]) == 2
