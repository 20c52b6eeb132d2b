"""Training of any module by several processes, connected by a file or TCP, in a user's training loop."""

import re
import signal
import socket
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import module_workers  # noqa: E402

SIZE = 8
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_workers.py"


def join(processes):
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def end_states(folder):
    return [torch.load(folder / f"end{rank}", weights_only=True) for rank in range(SIZE)]


def test_eight_processes_resumed_after_a_kill_have_identical_weights(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    work = module_workers.train_blocks
    codes = join(module_workers.start(SIZE, work, f"file://{tmp_path}/meet1", str(tmp_path / "whole"), None))
    assert codes == [0] * SIZE
    processes = module_workers.start(SIZE, work, f"file://{tmp_path}/meet2", str(tmp_path / "killed"), 13)
    processes[5].join(60)
    assert processes[5].exitcode == -signal.SIGKILL
    for process in processes:
        process.kill()
    join(processes)
    codes = join(module_workers.start(SIZE, work, f"file://{tmp_path}/meet3", str(tmp_path / "killed"), None))
    assert codes == [0] * SIZE
    uninterrupted, resumed = end_states(tmp_path / "whole"), end_states(tmp_path / "killed")
    assert uninterrupted[0]["first"] == 0
    assert resumed[0]["first"] == 12  # within a block of five steps
    for name, weight in uninterrupted[0]["weights"].items():
        for end in (*uninterrupted, *resumed):
            assert torch.equal(end["weights"][name], weight)


def test_pairwise_averaging_over_tcp_loses_no_update(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    size = 3
    assert join(module_workers.start(size, module_workers.train_pairs, url, str(tmp_path))) == [0] * size
    end_states = [torch.load(tmp_path / f"pairs{rank}", weights_only=True) for rank in range(size)]
    updates = sum(-0.125 * (rank + 1) * (4 + rank) for rank in range(size))
    for end in end_states:
        assert (end["begin"] == 0.0).all()  # the weights of the first worker
        assert (end["table"] == 0).all()
        torch.testing.assert_close(end["weight"], torch.full_like(end["weight"], updates / size), rtol=0, atol=1e-12)
        assert end["seen"].item() == pytest.approx(sum(4 + rank for rank in range(size)) / size, abs=1e-12)
    assert sum(end["exchanges"] for end in end_states) >= 4
    assert end_states[1]["exchanges"] == end_states[0]["exchanges"] + end_states[2]["exchanges"]


def test_the_example_learns(tmp_path):
    output = tmp_path / "output"
    assert join(module_workers.start(1, module_workers.run_script, str(EXAMPLE), str(output), daemon=False)) == [0]
    share = re.fullmatch(r"([0-9.]+)% of points are classified correctly\n", output.read_text())
    assert float(share[1]) > 90
    assert len(EXAMPLE.read_text().splitlines()) <= 40
