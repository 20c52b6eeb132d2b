"""Train a torch network with two processes that average weights after blocks of steps; run it on Linux."""

import tempfile

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from ninja.train.parallel import BlockMomentum


def train(rank, folder):
    """Learn whether points of a square are within a circle; this is a worker's plain training loop."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.manual_seed(rank)
    network = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    model = BlockMomentum(network, optimizer, block_steps=10, warmup=50)
    for _ in range(300):
        inputs = 2 * torch.rand(64, 2) - 1
        targets = (inputs.norm(dim=1, keepdim=True) < 0.8).float()
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(inputs), targets).backward()
        optimizer.step()
    model.synchronize()
    if rank == 0:
        with model.result(), torch.inference_mode():
            inputs = 2 * torch.rand(10_000, 2) - 1
            is_right = (network(inputs)[:, 0] > 0) == (inputs.norm(dim=1) < 0.8)
        print(f"{is_right.float().mean():.1%} of points are classified correctly")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        start_processes(train, (folder,), 2, start_method="fork")
