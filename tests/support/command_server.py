"""Run commands of pages in copies of one process that has already imported torch, which takes seconds each time.

``python command_server.py SOCKET`` is the server, which ends with the process that started it. With further arguments,
it is a client, which runs ``ninja`` with these arguments, and with its files, folder and environment. The server
imports the modules that commands have imported, so that the copies for later commands need not import them again.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys

SIZE = 1 << 20  # largest request in bytes
PACKAGES = ("ninja.", "transformers.")  # the server imports modules of these packages


def call(path: str, arguments: list[str]) -> int:
    """Run a command on the server; return its exit code."""
    request = json.dumps({"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        files = array.array("i", [0, 1, 2])
        connection.sendmsg([len(request).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        connection.sendall(request)
        answer = connection.recv(1)
    return answer[0] if answer else 255  # the answer is empty if a signal ended the command


def serve(path: str) -> None:
    """Accept commands until the standard input ends."""
    import gc
    import signal
    import threading

    import torch  # noqa: F401

    import ninja.cli.main  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes ended children
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    while True:
        connection, _ = listener.accept()
        if _import_modules(f"{path}.modules"):
            gc.freeze()  # a collection in a copy would write to all pages of the imported objects
        if os.fork() == 0:
            listener.close()
            _run(connection, f"{path}.modules")
        connection.close()


def _import_modules(path: str) -> bool:
    """Import the modules that a command has imported; return whether a command has listed any."""
    import contextlib
    import importlib

    if not os.path.exists(path):
        return False
    with open(path) as file:
        names = file.read().split()
    os.unlink(path)
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    return True


def _end_with_stdin() -> None:
    os.read(0, 1)  # sys.stdin would be locked in the children
    os._exit(0)


def _run(connection: socket.socket, modules: str) -> None:
    import signal
    import traceback

    from ninja.cli.main import main

    head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(12))
    files = array.array("i", ancillary[0][2])
    size, request = int.from_bytes(head, "big"), b""
    while len(request) < size:
        request += connection.recv(min(SIZE, size - len(request)))
    command = json.loads(request)
    for target, source in enumerate(files):
        os.dup2(source, target)
        os.close(source)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv = ["ninja", *command["arguments"]]
    before, code = set(sys.modules), 255
    try:
        code = main(command["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        if new := [name for name in sys.modules if name not in before and name.startswith(PACKAGES)]:
            with open(f"{modules}.{os.getpid()}", "w") as file:
                file.write("\n".join(new))
            os.replace(file.name, modules)
        connection.sendall(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(call(sys.argv[1], sys.argv[2:]))
    serve(sys.argv[1])
