"""The command `ninja serve`, run in a separate process."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from served import Client

from ninja.cli.main import main
from ninja.errors import OptionError
from ninja.serve.server import Listener

pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
ARENAS = """
import ctypes, sys, threading
from ninja.serve import share_arena

if "share" in sys.argv:
    share_arena()
barrier = threading.Barrier(8)

def allocate():
    barrier.wait()
    return [bytearray(1 << 12) for _ in range(2000)]

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""
MODEL = ("--rnnlm", "english-ngram", "--unk-penalty", "5")
NBEST = [{"text": "the cat sat", "score": -2.0}, {"text": "the cat sad", "score": -2.1}]


@contextmanager
def server_process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    command = [sys.executable, "-m", "ninja", "serve", "--port", "0", *MODEL, *options]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listening" in line)
        port = re.fullmatch(r"ninja: listening on http://127.0.0.1:(\d+)\n", line)
        assert port is not None, line
        yield process, Client(int(port[1]))
    finally:
        process.kill()
        process.wait()


def test_the_command_answers_requests_writes_no_file_and_exits_on_sigterm(tmp_path: Path) -> None:
    with server_process(tmp_path) as (process, client):
        assert client.get("/readyz").status == 200
        answer = client.rescore_json(nbest=NBEST, key="utt1")
        assert answer.status == 200
        assert answer.text == "the cat sat"
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr]
        assert process.wait(60) == 0
    assert [line["message"] for line in lines] == ["request", "stopped"]
    assert {name: lines[0][name] for name in ("status", "key", "arcs", "path")} == {
        "status": 200, "key": "utt1", "arcs": 4, "path": "/v1/rescore",
    }  # fmt: skip
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lists", "contacts"], "--lists is 'contacts', but must be NAME=FILE"),
        (["--lists", "a=b", "--lists", "a=c"], "--lists a is given twice; specify each name once"),
        (["--max-lattice-arcs", "0"], "--max-lattice-arcs is 0, but must be 1 or more"),
        (["--max-seconds", "1e10"], "--max-seconds is 10000000000.0, but must be above 0 and at most 1e+09"),
        (["--max-idle", "inf"], "--max-idle is inf, but must be above 0 and at most 1e+09"),
        (["--max-latency", "1e10"], "--max-latency is 10000000000.0, but must be between 0 and 1e+09"),
        (["--host", ""], "--host is empty; specify an address, such as 0.0.0.0 for all network interfaces"),
        (["--tls-key", "key.pem"], "a TLS certificate and its key belong together; specify both or neither"),
        (["--iterate", "forward"], "iterate cannot be used in a server"),
    ],
)
def test_invalid_options_are_refused(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b", "c", "key.pem"):
        (tmp_path / name).write_text("w1\n")
    assert main(["serve", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("password\n")
    with pytest.raises(OptionError, match="the token must have at least 16 characters and no whitespace"):
        Listener(token_file=str(path)).token()


# M_ARENA_MAX exists in glibc only; with other C libraries, share_arena does nothing. The test counts the arenas with
# malloc_stats(), which is also specific to glibc. CI runs on glibc.
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has neither M_ARENA_MAX nor malloc_stats")
def test_share_arena_limits_malloc_to_one_arena(monkeypatch):
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    num_arenas = [
        subprocess.run([sys.executable, "-c", ARENAS, *options], capture_output=True, check=True).stderr.count(b"Arena")
        for options in ((), ("share",))
    ]
    assert num_arenas[0] > num_arenas[1] == 1
