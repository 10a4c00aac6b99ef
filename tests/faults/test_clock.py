"""The clock is set back while a run is at work: no number, no order and no end of it depends on the time of day."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import COMMAND, ENVIRONMENT, PATIENCE_S, Outcome, Tally, obey, stored

# Every reading of the time of day goes through here: the offset in the file is read anew each time.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("CLOCK_OFFSET_FILE"), "r");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, found);
    if (!code && clock == CLOCK_REALTIME) found->tv_sec += offset();
    return code;
}

int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    (void)zone;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return code;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""
BACK_S = -3 * 86400


@pytest.mark.slow
def test_a_clock_set_back_amid_a_run_changes_nothing(
    learning: Outcome, run: Path, tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a clock of its own needs a C compiler and the dynamic linker of Linux")
    (tmp_path / "clock.c").write_text(CLOCK)
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    offset.write_text("0")
    row = tally("clock set back")
    process = subprocess.Popen(
        [*COMMAND, "run", str(learning.scenario), "--out", str(run), "--checkpoint-rounds", "20"],
        env={**ENVIRONMENT, "LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(offset)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not stored(run):
        os.sched_yield()
    offset.write_text(str(BACK_S))
    row.injected += process.poll() is None
    before = stored(run)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    times = [finished_at for *_, finished_at in stored(run).values()]
    # The fault was felt: tasks that were finished later say an earlier day.
    assert max(times)[:10] != min(times)[:10]
    row.compare(before, stored(run))
    told = obey("status", run, logs=tmp_path / "status")
    assert told.code == 0, told.said
    assert "Traceback" not in told.said
    row.finish(run, learning)
