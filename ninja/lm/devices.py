"""Torch devices for language models: choose a device, and describe the devices in use."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ninja.errors import counted

DRIVER = "/proc/driver/nvidia/version"  # exists if NVIDIA's driver is loaded


def chosen_device(name: str) -> str:
    """Resolve ``"auto"`` to ``"cuda"`` if torch can use CUDA, else to ``"cpu"``; return any other name unchanged."""
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def describe_devices(requested: str, used: Iterable[str | None]) -> str | None:
    """Return a one-line description of the devices in use.

    Args:
        requested: Value of the device option.
        used: Devices of the models, as in `LanguageModel.device`.

    Returns:
        The names of the GPUs in use, or the reason why "auto" selected the CPU although there is a GPU; None in all
        other cases.
    """
    device_names = sorted({device for device in used if device is not None})
    gpus = [device for device in device_names if device != "cpu"]
    if not gpus and (not device_names or requested != "auto" or not os.path.exists(DRIVER)):
        return None
    import torch

    if not gpus:
        return f"computing on the CPU: torch cannot use the GPU ({_gpu_problem()})"
    names = (f"{device} ({torch.cuda.get_device_name(device)})" if "cuda" in device else device for device in gpus)
    unused = torch.cuda.device_count() - len(gpus) if requested == "auto" else 0
    more = counted(unused, "more GPU is", "more GPUs are")
    return f"computing on {', '.join(names)}" + (f"; {more} available with --device" if unused > 0 else "")


def _gpu_problem() -> str:
    """Return the reason why torch cannot use a GPU."""
    import torch

    if torch.version.cuda is None:
        return "it was built without CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error).splitlines()[0]
    return "it does not detect the GPU"
