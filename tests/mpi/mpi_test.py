#!/usr/bin/env python3
"""Starts tests/mpi/ranks.cpp as two processes, through tools/launch: collectives and training, and ranks that differ,
throw, stall, stop, leave or die. Nothing may hang. With MPI where it is there, and without it, as torchrun starts them,
where the last rank also dies, stops and throws before each of 20 collectives.

Usage: mpi_test.py PROJECT_FOLDER PROGRAM has_mpi|no_mpi
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

TIMEOUT = 3   # seconds that ranks wait
# How a rank goes wrong: what the other one says, or None where the launcher ends it first.
FAULTS = {
    "mismatch": r"the calls of the ranks differ: rank 0 is in all_reduce\(sum\) of f32\[2\] .*"
                r"rank 1 is in all_reduce\(sum\) of f32\[4\]",
    "throw": r"disk full",
    "stall": r"not all of the 2 ranks came to ",
    "stop": r"not all of the 2 ranks came to ",
    "leave": None,
    "die": None,
}
DIFFERS = r"the calls of the ranks differ: rank 0 is in all_reduce\(sum\) of f32\[2\] .*rank 1 is in "
TCP_FAULTS = {
    "mismatch": DIFFERS + r"all_reduce\(sum\) of f32\[4\]",
    "kind": DIFFERS + r"all_gather\(axis 0\) of f32\[2\]",
    "throw": r"disk full(.|\n)*rank 1 has failed: disk full|rank 1 has failed: disk full(.|\n)*disk full",
    "stall": r"rank 1 did not come to .* within 1 s",
    "stop": r"rank 1 did not come to .* within 1 s",
    "leave": r"rank 1 ended before |rank 1 has failed: its process has ended",
    "die": r"rank 1 has failed: its process has ended",
}
POINTS = {"die": range(20), "stop": range(20), "throw": range(20), "kind": (0, 10, 19)}


def start(project, *arguments, timeout=30):
    environment = dict(os.environ, SINTER_DIST_TIMEOUT=str(timeout))
    begin = time.monotonic()
    done = subprocess.run([str(project / "tools/launch"), "-n", "2", *arguments], env=environment, capture_output=True,
                          text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begin


def without_mpi(project, program):
    """Processes that meet by TCP."""
    problems = []
    code, text, seconds = start(project, "--processes", program, "check")
    print(f"check without MPI: {seconds:.1f} s")
    if code != 0 or "ok with 2 ranks of tcp" not in text:
        problems.append(f"check without MPI: status {code}\n{text}")
    places = [(fault, point) for fault in TCP_FAULTS for point in POINTS.get(fault, (1,))]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        runs = [pool.submit(start, project, "--processes", program, fault, str(point), timeout=1)
                for fault, point in places]
    slowest = 0
    for (fault, point), run in zip(places, runs):
        code, text, seconds = run.result()
        slowest = max(slowest, seconds)
        if code == 0 or not re.search(TCP_FAULTS[fault], text) or seconds > 29:
            problems.append(f"without MPI, {fault} before collective {point}: {seconds:.1f} s, status {code}\n{text}")
    print(f"{len(places)} faults without MPI: {slowest:.1f} s at most")
    return problems


def main():
    project, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    problems = without_mpi(project, program)
    if sys.argv[3] != "has_mpi" or shutil.which("mpirun") is None:
        print("\n".join(problems))
        print("MPI is not installed (libopenmpi-dev openmpi-bin): its part is left out" if problems else
              "SINTER_SKIPPED: MPI is not installed (libopenmpi-dev openmpi-bin); without it all is well")
        return 1 if problems else 0
    code, text, seconds = start(project, program, "check")
    print(f"check: {seconds:.1f} s")
    if code != 0 or "ok with 2 ranks of mpi" not in text:
        problems.append(f"check: status {code}\n{text}")
    places = [(fault, point) for fault in FAULTS for point in ((0, 9, 19) if fault in ("die", "stop") else (1,))]
    with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:   # they wait more than they work
        runs = [pool.submit(start, project, program, fault, str(point), timeout=TIMEOUT) for fault, point in places]
    for (fault, point), run in zip(places, runs):
        code, text, seconds = run.result()
        print(f"{fault} before collective {point}: {seconds:.1f} s")
        if code == 0 or (FAULTS[fault] and not re.search(FAULTS[fault], text)):
            problems.append(f"{fault} before collective {point}: status {code}\n{text}")
        if seconds > 25:
            problems.append(f"{fault} before collective {point}: took {seconds:.1f} s")
    code, text, _ = start(project, "--threads", program, "check")
    if code != 0 or "ok with 2 ranks of threads" not in text:
        problems.append(f"threads: status {code}\n{text}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
