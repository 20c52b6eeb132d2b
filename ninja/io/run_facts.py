"""Facts of the run that writes an output, in a file beside it (``.NAME.run``): only the same run resumes the output.

The file is there as long as the output is unfinished, and stays where it may be taken up again (``--resume``).

Facts are a dictionary that JSON can hold: ``version`` and ``command``, ``options`` by their names, ``sources`` as a
list of `State`. A value of an option is as it was typed, or a list of the states of its files. A state tells a change
of a file by its size and the time of its last change, whatever is in it; nothing is read for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from ninja.errors import OptionError
from ninja.files import remote
from ninja.files.guard import writing
from ninja.files.output import part_of, reported

State = tuple[str, int, int]  # path, size, time of the last change in ns; -1 both: it is not there
Facts = Mapping[str, Any]
LARGEST = 1 << 28  # bytes of a file of facts


def state_of(path: str) -> State:
    """Return the state of a file, by which a change is told."""
    if remote.is_remote(path):
        size, mark = remote.state_of(path)
        return path, -1 if size is None else size, int(hashlib.sha256(mark.encode()).hexdigest()[:12], 16)
    try:
        status = os.stat(path)
    except OSError:
        return path, -1, -1
    return path, status.st_size, status.st_mtime_ns


def write_facts(place: str, facts: Facts) -> None:
    """Write the facts of the run that an output is of, once its temporary file is open.

    Args:
        place: The output.
    """
    path = _path(place)
    writing(path)
    with reported(path):
        remove_facts(place)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # no link is followed
        with open(descriptor, "wb") as file:
            file.write(dumped(facts))


def has_facts(place: str) -> bool:
    """Tell whether the run that an output is of is known."""
    return os.path.lexists(_path(place))


def remove_facts(place: str) -> None:
    """Remove the facts of an output."""
    with reported(path := _path(place)), contextlib.suppress(FileNotFoundError):
        os.remove(path)


def refuse_other_facts(place: str, facts: Facts) -> None:
    """Refuse to go on with the output of another run.

    Raises:
        OptionError: The output is of another or an unknown run; the message describes the difference.
    """
    advice = "leave --resume out to begin anew"
    path = _path(place)
    try:
        if os.path.getsize(path) > LARGEST:
            raise ValueError
        with open(path, "rb") as file:
            before = parsed(file.read())
        now = parsed(dumped(facts))
        if before == now:
            return
        if any(not isinstance(before[name], type(now[name])) for name in now):
            raise TypeError
        made = difference(before, now)
    except (OSError, LookupError, ValueError, TypeError):
        unknown = f"{part_of(place)} was made by a run that is not known; remove it, or {advice}"
        raise OptionError(unknown) from None
    message = f"an earlier attempt was made with {made}; give the same options, or {advice}"
    raise OptionError(f"{place}: {message}")


def difference(before: Facts, now: Facts) -> str:
    """Describe the first difference between the facts of two runs, or of two plans of shards."""
    for name, what in (("command", "another command, {}"), ("shards", "{} shards"), ("version", "version {}")):
        if before.get(name) != now.get(name):
            return what.format(before.get(name))
    old, new = before["options"], now["options"]
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if changed:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        file = next(filter(None, (_changed_file(old.get(name), new.get(name)) for name in changed)), None)
        return f"another {options}" if file is None else f"another {options}: {file} was written anew since"
    if before["sources"] != now["sources"]:
        file = _changed_file(before["sources"], now["sources"])
        return "other sources" if file is None else f"other sources: {file} was written anew since"
    return "other outputs"


def _changed_file(before: Any, now: Any) -> str | None:
    """Return the first file whose states in two lists differ, or None."""
    if not isinstance(before, list) or not isinstance(now, list):
        return None
    states = {state[0]: state for state in before if isinstance(state, list)}
    changed = (state[0] for state in now if isinstance(state, list) and states.get(state[0], state) != state)
    return next(map(str, changed), None)


def dumped(facts: Facts) -> bytes:
    """Return facts as JSON, in ASCII also where names are no UTF-8."""
    return json.dumps(facts, indent=1).encode() + b"\n"


def parsed(content: bytes) -> dict[str, Any]:
    """Return the facts in a file.

    Raises:
        ValueError: They are no JSON object.
    """
    try:
        facts = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(facts, dict):
        raise ValueError("no object")
    return facts


def _path(place: str) -> str:
    return part_of(place).removesuffix(".part") + ".run"
