#!/usr/bin/env python3
"""Starts tests/mpi/ranks.cpp as two processes, through tools/launch: collectives and training, and ranks that differ,
throw, stall, stop, leave or die. Nothing may hang.

Usage: mpi_test.py PROJECT_FOLDER PROGRAM ("" where Sinter was built without MPI)
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
                r"rank 1 is in all_reduce\(sum\) of f32\[3\]",
    "throw": r"disk full",
    "stall": r"not all of the 2 ranks came to all_reduce\(sum\) of f32\[2\]",
    "stop": r"not all of the 2 ranks came to all_reduce\(sum\) of f32\[2\]",
    "leave": None,
    "die": None,
}


def start(project, *arguments, timeout=30):
    environment = dict(os.environ, SINTER_DIST_TIMEOUT=str(timeout))
    begin = time.monotonic()
    done = subprocess.run([str(project / "tools/launch"), "-n", "2", *arguments], env=environment, capture_output=True,
                          text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begin


def main():
    project, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not program or shutil.which("mpirun") is None:
        print("SINTER_SKIPPED: MPI is not installed (libopenmpi-dev openmpi-bin)")
        return 0
    problems = []
    code, text, seconds = start(project, program, "check")
    print(f"check: {seconds:.1f} s")
    if code != 0 or "ok with 2 ranks of mpi" not in text:
        problems.append(f"check: status {code}\n{text}")
    with concurrent.futures.ThreadPoolExecutor(len(FAULTS)) as pool:   # they wait more than they work
        runs = {fault: pool.submit(start, project, program, fault, timeout=TIMEOUT) for fault in FAULTS}
    for fault, says in FAULTS.items():
        code, text, seconds = runs[fault].result()
        print(f"{fault}: {seconds:.1f} s")
        if code == 0 or (says and not re.search(says, text)):
            problems.append(f"{fault}: status {code}\n{text}")
        if seconds > 25:
            problems.append(f"{fault}: took {seconds:.1f} s")
    code, text, _ = start(project, "--threads", program, "check")
    if code != 0 or "ok with 2 ranks of threads" not in text:
        problems.append(f"threads: status {code}\n{text}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
