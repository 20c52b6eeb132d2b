"""The devices on which models compute: which one is meant, and one line about it for the user."""

from __future__ import annotations

import os
from collections.abc import Iterable

DRIVER = "/proc/driver/nvidia/version"  # is there where NVIDIA's driver is


def chosen_device(name: str) -> str:
    """Return the name of a device; for ``"auto"`` cuda, where torch can use it, else cpu."""
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def describe_devices(asked: str, used: Iterable[str | None]) -> str | None:
    """Return the line for the user about the devices in use.

    Args:
        asked: The name that was given.
        used: Where torch computes now, as `LanguageModel.device` has it.

    Returns:
        The GPUs, by their names; or why "auto" found none, where there is one. None: there is nothing to say.
    """
    known = sorted({device for device in used if device is not None})
    gpus = [device for device in known if device != "cpu"]
    if not gpus and (not known or asked != "auto" or not os.path.exists(DRIVER)):
        return None
    import torch

    if not gpus:
        return f"computing on the CPU: torch cannot use the GPU, {_obstacle()}"
    names = (f"{device} ({torch.cuda.get_device_name(device)})" if "cuda" in device else device for device in gpus)
    unused = torch.cuda.device_count() - len(gpus) if asked == "auto" else 0
    return f"computing on {', '.join(names)}" + (f"; {unused} more could be named by --device" if unused > 0 else "")


def _obstacle() -> str:
    """Return why torch cannot use a GPU."""
    import torch

    if torch.version.cuda is None:
        return "for it is built for the CPU alone"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error).splitlines()[0]
    return "for it sees none"
