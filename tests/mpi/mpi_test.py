#!/usr/bin/env python3
"""Starts tests/mpi/ranks.cpp as two processes, through tools/launch: collectives, training and partitioned operations,
and ranks that differ, throw, stall, stop, leave or die. Nothing may hang. With MPI where it is there, and without it,
as torchrun starts them, where the last rank also dies, stops and throws before each of 20 collectives, rank 0 dies and stops, ranks are
three, one of them is late, and two programs have the same number of ranks.

Usage: mpi_test.py PROJECT_FOLDER PROGRAM has_mpi|no_mpi
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

TIMEOUT = 4   # seconds that ranks wait; those of slow builds are slow
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
SLOW = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"))
EACH = (0, 7, 19) if SLOW else range(20)
POINTS = {"die": EACH, "stop": EACH, "throw": EACH, "kind": (0, 10, 19)}
# Of rank 0, where all meet: that its process is stopped is found some seconds after ranks have waited.
FIRST_FAULTS = {
    "die0": r"rank 0 has failed: its process has ended",
    "stop0": r"rank 0, where all meet, does not answer|rank 0 did not come to ",
}
WORKERS = min(12, max(2, os.cpu_count() or 2))


def start(project, *arguments, timeout=30, ranks=2, **variables):
    environment = dict(os.environ, SINTER_DIST_TIMEOUT=str(timeout), **variables)
    begin = time.monotonic()
    command = [str(project / "tools/launch"), "-n", str(ranks), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begin


def two_programs(program):
    """Without a name of the run, rank 0 of the second program finds the port in use."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                  SINTER_DIST_TIMEOUT="20")
    common.pop("TORCHELASTIC_RUN_ID", None)
    first = subprocess.Popen([program, "late"], env=dict(common, RANK="0"), stdout=subprocess.PIPE, text=True)
    problems = []
    try:
        until = time.monotonic() + 20
        while time.monotonic() < until:   # rank 0 listens; a connection that says something else ends nothing
            with socket.socket() as other:
                if other.connect_ex(("127.0.0.1", port)) == 0:
                    other.sendall(struct.pack("<IIIIQ", 0x53494e54, 0, 1, 1, 1 << 40))
                    break
            time.sleep(0.05)
        second = subprocess.run([program, "check"], env=dict(common, RANK="0"), capture_output=True, text=True,
                                timeout=60)
        if second.returncode == 0 or "in use" not in second.stdout:
            problems.append(f"two programs at one port: status {second.returncode}\n{second.stdout}{second.stderr}")
        late = subprocess.run([program, "late"], env=dict(common, RANK="1"), capture_output=True, text=True, timeout=60)
        text = first.communicate(timeout=60)[0]
        if first.returncode != 0 or late.returncode != 0 or "ok with 2 ranks of tcp" not in text:
            problems.append(f"beside another program: {first.returncode}, {late.returncode}\n{text}{late.stdout}")
    finally:
        first.kill()
        first.wait()
    return problems


def without_mpi(project, program):
    """Processes that meet by TCP."""
    problems = []
    code, text, seconds = start(project, "--processes", program, "check")
    print(f"check without MPI: {seconds:.1f} s")
    if code != 0 or "ok with 2 ranks of tcp" not in text:
        problems.append(f"check without MPI: status {code}\n{text}")
    checks = {
        "three ranks": dict(ranks=3),
        "a late rank": dict(how="late", timeout=2),
        "an mpirun around it": dict(PMI_RANK="0", PMI_SIZE="1"),
    }
    for name, options in checks.items():
        code, text, _ = start(project, "--processes", program, options.pop("how", "check"), **options)
        if code != 0 or f"ok with {options.get('ranks', 2)} ranks of tcp" not in text:
            problems.append(f"{name} without MPI: status {code}\n{text}")
    problems += two_programs(program)
    says = dict(TCP_FAULTS, **FIRST_FAULTS)
    places = [(fault, point) for fault in TCP_FAULTS for point in POINTS.get(fault, (1,))]
    places += [(fault, point) for fault in FIRST_FAULTS for point in (3, 12)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        runs = [pool.submit(start, project, "--processes", program, fault, str(point), timeout=1)
                for fault, point in places]
        three = pool.submit(start, project, "--processes", program, "throw", "5", timeout=1, ranks=3)
    code, text, _ = three.result()
    if code == 0 or len(re.findall("rank 2 has failed: disk full", text)) != 2:
        problems.append(f"three ranks without MPI, of which one throws: status {code}\n{text}")
    slowest = 0
    for (fault, point), run in zip(places, runs):
        code, text, seconds = run.result()
        slowest = max(slowest, seconds)
        if code == 0 or not re.search(says[fault], text) or seconds > 29:
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
    code, text, seconds = start(project, program, "table")
    print(f"operations under random layouts: {seconds:.1f} s")
    if code != 0 or not re.search(r"\d+ operations under random layouts", text):
        problems.append(f"operations under random layouts: status {code}\n{text}")
    places = [(fault, point) for fault in FAULTS for point in ((0, 9, 19) if fault in ("die", "stop") else (1,))]
    with concurrent.futures.ThreadPoolExecutor(min(len(places), WORKERS)) as pool:   # they wait more than they work
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
