"""Workers as threads of one process, which communicate by torch's threaded process group."""

import threading

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import multi_threaded_pg as threaded


def run_in_threads(size, work):
    """Return the results of ``work(rank)`` in a process group of this many threads."""
    results, errors = [None] * size, []
    store = dist.HashStore()
    num_torch_threads = torch.get_num_threads()

    def run(rank):
        try:
            torch.set_num_threads(1)
            dist.init_process_group("threaded", rank=rank, world_size=size, store=store)
            results[rank] = work(rank)
        except BaseException as error:
            errors.append(error)
            threaded.ProcessLocalGroup.exception_handle(error)
        finally:
            dist.destroy_process_group()

    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    threaded._install_threaded_pg()
    try:
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        threaded._uninstall_threaded_pg()
        threaded.ProcessLocalGroup.reset()
        torch._C._distributed_c10d._set_thread_isolation_mode(False)
        torch.autograd.set_multithreading_enabled(True)
        torch.set_num_threads(num_torch_threads)
    if errors:
        raise errors[0]
    return results
