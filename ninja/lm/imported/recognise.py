"""Tell models of other toolkits by what their files hold; nothing is loaded for it."""

from __future__ import annotations

import os
import re
import zipfile

CAFFE2_INIT, CAFFE2_PREDICT = "init_net.pb", "predict_net.pb"  # how the names of Caffe2's two nets end
# What may follow the version in an ONNX file: producer, its version, domain, version, text, graph, operators, metadata.
_ONNX_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72)


def is_onnx(head: bytes) -> bool:
    """Tell an ONNX model by its first bytes: the version of the format, 3 or later, and then another of its fields."""
    return len(head) > 2 and head[0] == 0x08 and 3 <= head[1] < 0x80 and head[2] in _ONNX_FIELDS


def is_torchscript(path: str, head: bytes) -> bool:
    """Tell a TorchScript archive by its members: constants and code."""
    names = _members(path, head)
    return any(name.endswith("/constants.pkl") for name in names) and any("/code/" in name for name in names)


def is_exported(path: str, head: bytes) -> bool:
    """Tell an archive of ``torch.export.save`` by its members: a graph as JSON."""
    return any(re.fullmatch(r"[^/]*/models/[^/]+\.json", name) for name in _members(path, head))


def caffe2_nets(folder: str) -> tuple[str, str] | None:
    """Return the paths of a directory's two Caffe2 nets, None where they are not both there, once."""
    if not os.path.isdir(folder):
        return None
    names = sorted(os.listdir(folder))
    found = [[name for name in names if name.endswith(suffix)] for suffix in (CAFFE2_INIT, CAFFE2_PREDICT)]
    if any(len(each) != 1 for each in found):
        return None
    return os.path.join(folder, found[0][0]), os.path.join(folder, found[1][0])


def _members(path: str, head: bytes) -> list[str]:
    if head[:4] != b"PK\x03\x04":
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return []  # a damaged archive, of which whoever takes all archives will tell
