"""Tasks on threads: each of them once, whoever takes it, and what one raises is raised when none goes on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from phy.numerics.workers import of_thread, run_tasks


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("num_tasks", [0, 1, 2, 5, 1000])
def test_every_task_is_done_once(threads: int, num_tasks: int) -> None:
    done: Counter[int] = Counter()
    lock = threading.Lock()

    def run(first: int, last: int) -> None:
        with lock:
            done.update(range(first, last))

    run_tasks(run, num_tasks=num_tasks, threads=threads)
    assert done == Counter(range(num_tasks))


def test_the_caller_works_beside_the_others() -> None:
    who: set[int] = set()
    both = threading.Barrier(2, timeout=10.0)

    def run(first: int, _: int) -> None:
        if first < 2:  # the first two of eight blocks meet, so that two threads must be at work
            both.wait()
        who.add(threading.get_ident())

    run_tasks(run, num_tasks=8, threads=2)
    assert threading.get_ident() in who
    assert len(who) == 2


def test_tasks_may_have_tasks_of_their_own() -> None:
    done: list[int] = []
    run_tasks(
        lambda _first, _last: run_tasks(lambda low, high: done.extend(range(low, high)), num_tasks=3, threads=2),
        num_tasks=16,
        threads=2,
    )
    assert sorted(done) == sorted([0, 1, 2] * 8)


@pytest.mark.parametrize("culprit", ["caller", "other"])
def test_an_error_is_raised_after_all_tasks_end(culprit: str) -> None:
    caller, at_work = threading.get_ident(), []

    def run(first: int, _: int) -> None:
        mine = threading.get_ident() == caller
        at_work.append(first)
        time.sleep(0.01)
        at_work.remove(first)
        if mine == (culprit == "caller"):
            raise ArithmeticError(culprit)

    with pytest.raises(ArithmeticError, match=culprit):
        run_tasks(run, num_tasks=8, threads=2)
    assert not at_work


@pytest.mark.parametrize(("cost_us", "most"), [(10.0, 1), (250.0, 2), (1e6, 4)])
def test_short_work_takes_fewer_threads(cost_us: float, most: int) -> None:
    seen: set[int] = set()

    def run(*_: int) -> None:
        seen.add(threading.get_ident())
        time.sleep(0.02)

    run_tasks(run, num_tasks=64, threads=4, cost_us=cost_us)
    assert len(seen) == most


def test_a_thread_keeps_its_scratch_arrays_while_their_sizes_stay() -> None:
    @of_thread
    def scratch(size: int) -> list[int]:
        return [0] * size

    first = scratch(3)
    assert scratch(3) is first
    assert len(scratch(4)) == 4
    assert scratch(3) is not first
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(scratch, 3).result() is not scratch(3)
