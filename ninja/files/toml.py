"""Read and write TOML option files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any, cast

from ninja.errors import FormatError, InputError
from ninja.files.place import is_remote
from ninja.files.remote import RemoteFile


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        InputError: The file cannot be read.
        FormatError: The file is not TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        name = os.fspath(path)
        with cast("IO[bytes]", RemoteFile(name)) if is_remote(name) else open(name, "rb") as stream:
            return tomllib.load(stream)
    except InputError:
        raise
    except OSError as error:
        raise InputError(error.strerror or str(error), path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"not TOML: {error}", path) from error
    except RecursionError:
        raise FormatError("tables or arrays are nested too deeply", path) from None


def text(values: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """Format values as TOML, preceded by comments."""
    import json

    lines = [f"# {line}\n" for line in comments]
    for name, value in values.items():
        # Strings, lists and booleans have the same syntax in JSON and TOML.
        text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name} = {text}\n")
    return "".join(lines)
