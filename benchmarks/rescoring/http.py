"""`ninja serve` under load: words and throughput against `ninja rescore`, latency against load, memory, and faults.

    python -m benchmarks.rescoring http ARCHIVE... [--rounds 3] [--minutes 10] [--output docs/howto/serve.md]

``words.txt.gz`` is next to the first archive or two folders above. The client is this process, which uses nothing but
HTTP; the server is `ninja serve` in another process, at its defaults but for a time limit of 600 s. The server and the
command run on the same core, and the client on the others, if there are any. Measurements:

1. `ninja rescore` and CLIENTS clients that send the same lattices, by turns: words, and CPU seconds of either process,
   without those of its start.
2. Lattices that arrive at random (a Poisson process) at a share of the throughput of 1: the latency of each, in CPU
   seconds of the server, as for `service`.
3. Load for some minutes with faults: malformed and too large bodies, slow clients, closed connections. Each answer is
   compared by key; the memory is sampled every 5 s. Then the server is killed under load, started again, and ended by
   SIGTERM under load.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import ninja
from benchmarks.command import argument, command, option, output
from benchmarks.measure import ninja as ninja_command
from benchmarks.rescoring.service import arrivals, latency_table, read, words_file
from benchmarks.tables import put, show

CLIENTS = 64
SOAK_CLIENTS = 8
LIMITS = ("--max-seconds", "600")  # a busy machine must not end the measurement
FAULTS = ("malformed", "too large", "slow", "disconnected")  # each in one of 100 requests
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
CORES = os.sched_getaffinity(0)
ONE_CORE = {max(CORES)}  # of the server and the command
Bodies = dict[str, bytes]  # key → lattice as a Kaldi archive


@contextmanager
def on_cores(cores: Set[int]) -> Iterator[None]:
    """Restrict the processes that are started in the block to some cores; other threads are not affected."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Server:
    """A server in a separate process."""

    def __init__(self, words: Path, folder: str, *options: str, cores: Set[int]) -> None:
        command = ninja_command("serve", "--words", words.resolve(), "--port", "0", *LIMITS, *options)
        with on_cores(cores):
            self.process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "listening" in line)
        self.port = int(line.rpartition(":")[2])
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        assert self.process.stderr is not None
        for _ in self.process.stderr:
            pass

    def cpu(self) -> float:
        """Return the CPU seconds of the process."""
        return time.clock_gettime((~self.process.pid << 3) | 2)  # Linux: clock of another process

    def memory(self) -> float:
        """Return the resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def rescore(self, body: bytes, query: str = "n=1", timeout: float = 300.0) -> tuple[int, dict]:
        """Send a lattice; return the status and the document."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("POST", f"/v1/rescore?{query}", body)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)


@contextmanager
def serving(words: Path, *options: str, cores: Set[int] = ONE_CORE) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(words, folder, *options, cores=cores)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()
            assert os.listdir(folder) == [], "the server wrote files"


def offline(archives: Sequence[Path], words: Path, cores: Set[int] = ONE_CORE) -> tuple[dict[str, str], float]:
    """Run `ninja rescore`; return the words of each lattice and the CPU seconds of the process."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.ark"
        before = os.times()
        command = ninja_command("rescore", *archives, "--words", words, "-o", target)
        with on_cores(cores):
            subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True)
        after = os.times()
        table = ninja.SymbolTable.read(words)
        scales = ninja.Scales(ninja.RescoreOptions().acoustic_scale)
        texts = {
            key: " ".join(table.spell(ninja.graph.best_path(lattice, scales).words.tolist()))
            for key, lattice in ninja.read(target, words=table)
        }
    return texts, after.children_user + after.children_system - before.children_user - before.children_system


def send_all(server: Server, bodies: Bodies) -> tuple[dict[str, str], float]:
    """Send all lattices from CLIENTS threads; return the words of each and the CPU seconds of the server."""
    before = server.cpu()

    def words(key: str) -> tuple[str, str]:
        status, document = server.rescore(bodies[key])
        assert status == 200, document
        assert document["key"] == key
        return key, document["nbest"][0]["text"]

    with ThreadPoolExecutor(CLIENTS) as clients:
        texts = dict(clients.map(words, bodies))
    return texts, server.cpu() - before


def throughput(archives: Sequence[Path], words: Path, bodies: Bodies, rounds: int, cores: Set[int]) -> float:
    """Print the CPU seconds of both ways; return the lattices a CPU second of the server."""
    print(f"on {len(cores)} of {len(CORES)} cores:")
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first.ark"
        first.write_bytes(next(iter(bodies.values())))
        seconds: dict[str, list[float]] = {"ninja rescore": [], f"ninja serve, {CLIENTS} clients": []}
        with serving(words, cores=cores) as server:
            send_all(server, dict(itertools.islice(bodies.items(), 5)))  # to warm up
            for _ in range(rounds):
                start = offline([first], words, cores)[1]
                expected, cpu = offline(archives, words, cores)
                seconds["ninja rescore"].append(cpu - start)
                texts, cpu = send_all(server, bodies)
                seconds[f"ninja serve, {CLIENTS} clients"].append(cpu)
                different = [key for key in expected if texts[key] != expected[key]]
                print(f"{len(texts) - len(different)} of {len(expected)} lattices have the same words", flush=True)
                assert not different, different[:5]
    offline_seconds, served_seconds = (np.array(values) for values in seconds.values())
    for name, values in seconds.items():
        print(
            f"{name:28} CPU s: minimum {min(values):.2f}, median {np.median(values):.2f}; "
            f"throughput {np.median(offline_seconds) / np.median(values):.2f} (minima "
            f"{min(offline_seconds) / min(values):.2f}) of the first"
        )
    return len(bodies) / float(np.median(served_seconds))


def latencies(server: Server, bodies: Bodies, rate: float) -> np.ndarray:
    """Send lattices at random times; return the latency of each in CPU seconds of the server, as for `service`."""
    seconds: list[float] = []

    def send(body: bytes, finish: Callable[[], None]) -> None:
        status, document = server.rescore(body)
        assert status == 200, document
        finish()

    with ThreadPoolExecutor(200) as clients:
        for body, finish in arrivals(list(bodies.values()), rate, server.cpu, seconds):
            clients.submit(send, body, finish)
    assert len(seconds) == len(bodies), "some lattices failed"
    return np.array(seconds)


class Load:
    """Clients that send lattices and faults until they are stopped."""

    def __init__(self, server: Server, bodies: Bodies, expected: dict[str, str]) -> None:
        self.server = server
        self.expected = expected
        self.bodies = bodies
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.is_stopped = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(SOAK_CLIENTS)]
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.is_stopped.set()
        for thread in self.threads:
            thread.join(300)
            assert not thread.is_alive(), "a request has no answer"

    def _run(self, number: int) -> None:
        random = np.random.default_rng(number)
        keys = list(self.bodies)
        while not self.is_stopped.is_set():
            draw = int(random.integers(100))
            name = FAULTS[draw] if draw < len(FAULTS) else "answered"
            key = keys[random.integers(len(keys))]
            try:
                self._send(name, key, random)
                self.counts[name] += 1
            except OSError:  # the server was killed, or has stopped listening
                self.counts[f"{name}, connection closed"] += 1
                self.is_stopped.wait(0.05)
            except http.client.HTTPException:
                self.counts[f"{name}, connection closed"] += 1

    def _send(self, name: str, key: str, random: np.random.Generator) -> None:
        body = self.bodies[key]
        if name == "answered":
            status, document = self.server.rescore(body)
            if status != 200 or document["key"] != key or document["nbest"][0]["text"] != self.expected[key]:
                self.wrong.append(f"{key}: {status} {str(document)[:200]}")
        elif name == "malformed":
            corrupted = bytearray(body)
            for place in random.integers(len(body), size=20):
                corrupted[place] = random.integers(256)
            status, _ = self.server.rescore(bytes(corrupted))
            if status not in (200, 400, 413, 422):  # some changes leave a lattice
                self.wrong.append(f"malformed: {status}")
        elif name == "too large":
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it is sent
                status, _ = self.server.rescore(b"x" * 5_000_000)
                if status != 413:
                    self.wrong.append(f"too large: {status}")
        else:
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=300) as connection:
                start = f"POST /v1/rescore?n=1 HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                if name == "disconnected":
                    connection.sendall(start + body[: int(random.integers(len(body) + 1))])
                    return
                for piece in np.array_split(np.frombuffer(start + body, np.uint8), 10):
                    connection.sendall(piece.tobytes())
                    time.sleep(0.1)
                if not connection.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                    self.wrong.append("slow: not answered")


def soak(words: Path, bodies: Bodies, expected: dict[str, str], minutes: float) -> None:
    """Print counts, memory and the ends of servers under load."""
    with serving(words) as server:
        for _ in range(2):  # until the memory of the allocator no longer grows
            send_all(server, bodies)
        load = Load(server, bodies, expected)
        memory = []
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            time.sleep(5)
            memory.append(server.memory())
        server.end(signal.SIGKILL)
        time.sleep(0.2)
        load.stop()
        mean = np.mean(memory)
        print(f"{minutes:g} minutes: {dict(sorted(load.counts.items()))}; wrong: {load.wrong}")
        print(
            f"memory: {min(memory):.1f} to {max(memory):.1f} MB "
            f"({100 * (min(memory) / mean - 1):+.2f} to {100 * (max(memory) / mean - 1):+.2f}%); by minute: "
            f"{[round(value) for value in memory[11::12]]}",
            flush=True,
        )
        assert not load.wrong
    with serving(words) as server:
        load = Load(server, bodies, expected)
        time.sleep(5)
        start = time.monotonic()
        code = server.end()
        print(f"SIGTERM under load: exit code {code} after {time.monotonic() - start:.1f} s", flush=True)
        load.stop()
        print(f"{dict(sorted(load.counts.items()))}; wrong: {load.wrong}")
        assert not load.wrong
        assert code == 0


@command
@argument("archives", nargs=-1, required=True)
@option("--rounds", default=3, help="Rounds of the throughput.")
@option("--minutes", default=10.0, help="Duration of the load with faults; 0 for none.")
@option("--only-soak", is_flag=True)
@option("--all-cores", is_flag=True, help="Measure only the throughput, of the server and the command on all cores.")
@output
def main(
    archives: tuple[Path, ...], rounds: int, minutes: float, only_soak: bool, all_cores: bool, output: Path | None
) -> None:
    words = words_file(archives)
    bodies: Bodies = {}
    with tempfile.TemporaryDirectory() as folder:
        for lattice in read(archives):
            path = Path(folder) / "one.ark"
            with ninja.write(path) as writer:
                writer.write(lattice.with_words(None))
            bodies[lattice.key] = path.read_bytes()
    print(f"{len(bodies)} lattices, {sum(map(len, bodies.values())) / len(bodies):.0f} bytes on average", flush=True)
    if all_cores:
        throughput(archives, words, bodies, rounds, CORES)
        return
    os.sched_setaffinity(0, CORES - ONE_CORE or CORES)  # of the clients
    if not only_soak:
        max_rate = throughput(archives, words, bodies, rounds, ONE_CORE)
        with serving(words, "--max-latency", "0") as server:
            latencies(server, dict(itertools.islice(bodies.items(), 20)), max_rate / 4)  # to warm up
            put(output, "http latency", show(latency_table(lambda rate: latencies(server, bodies, rate), max_rate)))
    if minutes:
        soak(words, bodies, offline(archives, words)[0], minutes)
