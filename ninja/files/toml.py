"""Files of options in TOML, which people can read, change and comment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any, cast

from ninja.errors import FormatError, InputError
from ninja.files.remote import RemoteFile, is_remote


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the values of a file.

    Raises:
        InputError: It cannot be read.
        FormatError: It is no TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        place = os.fspath(path)
        with cast("IO[bytes]", RemoteFile(place)) if is_remote(place) else open(place, "rb") as stream:
            return tomllib.load(stream)
    except InputError:
        raise
    except OSError as error:
        raise InputError(error.strerror or str(error), path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"no TOML: {error}", path) from error
    except RecursionError:
        raise FormatError("no TOML of ours: nested too deeply", path) from None


def text(values: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """Return values as a file holds them, with comments above."""
    import json

    lines = [f"# {line}\n" for line in comments]
    for name, value in values.items():
        # JSON's strings, lists and truth values are TOML's, too.
        spelled = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name} = {spelled}\n")
    return "".join(lines)
