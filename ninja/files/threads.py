"""Work on threads, with results in the order of the tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ninja.files.cores import starting_threads

if TYPE_CHECKING:
    from concurrent.futures import Future

Task = TypeVar("Task")
Result = TypeVar("Result")
AHEAD = 3  # tasks a thread: in its hands, ready for it, or waiting behind a slower one


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int) -> Iterator[Result]:
    """Yield the result of each task, in the tasks' order, worked out on `jobs` threads (1: on the caller's).

    Tasks are taken from the caller's thread, at most `AHEAD` a thread before their results are asked for. Threads that
    are still at work when the generator is closed end with their task.

    Raises:
        Exception: What `work` or the source of the tasks raises, after the results of the tasks before.
    """
    if jobs == 1:
        yield from map(work, tasks)
        return
    from concurrent.futures import ThreadPoolExecutor

    rest = iter(tasks)
    waiting: deque[Future[Result]] = deque()
    failed: BaseException | None = None  # of the tasks' source, raised behind the results of the tasks before

    def next_tasks(count: int) -> Iterator[Task]:
        nonlocal failed
        try:
            yield from islice(rest, count)
        except Exception as error:
            failed = error

    with ThreadPoolExecutor(jobs, "ninja-worker") as pool:
        try:
            while True:
                if failed is None:
                    for task in next_tasks(AHEAD * jobs - len(waiting)):
                        with starting_threads():
                            waiting.append(pool.submit(work, task))
                if not waiting:
                    break
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failed is not None:
        raise failed
