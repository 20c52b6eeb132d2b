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

import click
import pytest
from served import Client

import ninja
from ninja.cli.main import group, main
from ninja.errors import OptionError
from ninja.files.text import read_toml
from ninja.serve.scorer import Scorer
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
        (["--iterate", "forward"], "no such option '--iterate'"),
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


@pytest.mark.parametrize("content", ["", "lm_weight = 0.5", "acoustic_scale = 0.1", "max_unknown = 0.5"])
def test_weights_in_an_options_file_replace_the_defaults_for_nbest_lists(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorers: list[Scorer] = []
    monkeypatch.setattr("ninja.cli.serve.run_server", lambda scorer, *_, **__: scorers.append(scorer))
    (tmp_path / "weights.toml").write_text(content)
    assert main(["serve", *MODEL, "--config", str(tmp_path / "weights.toml")]) == 0
    options = scorers[0].options_for(ninja.from_nbest("utt", [("the cat", -2.0)]))
    weights = {"lm_weight": 0.15, "word_penalty": -1.0, "acoustic_scale": 1.0, "max_unknown": 1.0}
    for name, value in read_toml(tmp_path / "weights.toml").items():
        weights[name] = value
        if name == "lm_weight":
            weights["word_penalty"] = 0.0
    assert {name: getattr(options, name) for name in weights} == weights


@pytest.mark.parametrize(
    ("command", "name", "default"),
    [
        ("serve", "lm_weight", "0.5; 0.15 for n-best lists without graph costs"),
        ("serve", "word_penalty", "0; -1 for n-best lists without graph costs"),
        ("serve", "acoustic_scale", "0.1; 1 for n-best lists and CTC lattices"),
        ("serve", "max_unknown", "1"),
        ("serve", "normalizer", "none if no words in --words end with punctuation, else basic"),
        ("correct", "acoustic_scale", "0.1; 1 for n-best lists and CTC lattices"),
        ("rescore", "lm_weight", "0.5; 0.15 for n-best lists without graph costs"),
    ],
)
def test_the_help_shows_defaults_that_depend_on_the_lattices(command: str, name: str, default: str) -> None:
    context = click.Context(group)
    function = group.get_command(context, command)
    assert function is not None
    (option,) = (option for option in function.params if option.name == name)
    record = option.get_help_record(context)
    assert record is not None
    assert re.findall(r"\[default: (.*)\]", record[1]) == [default]


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
