#!/usr/bin/env python3
"""Runs the rows of the benchmarks tuned beside default (tools/bench --tuned), and prints a table of who gained.

Usage: tuned_rows.py [OPTION...] [NAME...]

Each finished row is a line of the file (bench/tuned.hpp), so a run that was cut short goes on where it ended, and a
row that ends its program is a failed row. A session is a process of its own for each program: the first measures, later
ones find the winners. Exit status 1 where a row failed: other bits, an error, or a program that ended.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
ON_CPU = ["kernels", "movement", "ops", "order", "products", "reductions"]
ON_GPU = ["gpu", "gpu_kernels"]
# A line of the log: whose schedule, and what was chosen.
LOGGED = re.compile(r"(the cut into kernels|[\w ]+ kernel of \d+ instructions): (.*)$")
# What says that the time, or the memory, was too small to measure all.
UNFINISHED = re.compile(r"did not suffice|no time is left|GiB|larger than what may be held|cannot be measured")


# ---- the file --------------------------------------------------------------------------------------------------------


def lines_of(path):
    """What the file has; a line that was cut off, as its program ended, is left out."""
    lines = []
    for text in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            if text.strip():
                print(f"-- {path}: a line that is not whole is left out: {text[:60]}", flush=True)
    return lines


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def key_of(line):
    return line["session"], line["row"]


def drop_unfinished(path):
    """What was being measured when a run was cut short is measured again."""
    if path.exists():
        write_lines(path, [line for line in lines_of(path) if not line.get("begins")])


def unfinished(path):
    lines = lines_of(path)
    finished = {key_of(line) for line in lines if not line.get("begins")}
    return [line for line in lines if line.get("begins") and key_of(line) not in finished]


# ---- running ---------------------------------------------------------------------------------------------------------


def run_program(program, session, options, until):
    """Until it ends by itself: a row that ends it is noted as failed, and the others go on."""
    environment = dict(os.environ, BENCH_TUNED=str(options.output.resolve()), BENCH_TUNED_SESSION=str(session))
    environment["BENCH_TUNED_UNTIL"] = f"{until:.0f}"
    environment["BENCH_TUNED_SECONDS"] = f"{options.tune_seconds:g}"
    command = [str(program), f"--benchmark_filter={options.benchmark_filter}"]
    while time.time() < until:
        print(f"-- {program.name}, session {session}", flush=True)
        try:
            output = None if options.verbose else subprocess.DEVNULL
            status = subprocess.run(
                command, env=environment, stdout=output, stderr=output, check=False, timeout=until - time.time() + 60
            ).returncode
        except subprocess.TimeoutExpired:
            drop_unfinished(options.output)  # another run may have more time
            return True
        ended = unfinished(options.output)
        if not ended:
            return status in (0, 1)
        for line in ended:
            failed = {"session": line["session"], "row": line["row"], "failed": f"the program ended with {status}"}
            with options.output.open("a") as file:
                file.write(json.dumps(failed) + "\n")
    return True


def run(options):
    """The programs that could not be run."""
    programs = {p.name.removeprefix("bench_"): p for p in (options.build / "bench").glob("bench_*") if p.is_file()}
    chosen = options.names or [name for name in ON_CPU if name in programs]
    if unknown := [name for name in chosen if name not in programs]:
        raise SystemExit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(sorted(programs)) or 'none'}")
    if options.fresh and options.output.exists():
        options.output.unlink()
    drop_unfinished(options.output)
    until = time.time() + options.seconds
    failed = []
    for session in range(1, options.sessions + 1):
        for name in chosen:
            if not run_program(programs[name], session, options, until):
                failed.append(name)
    drop_unfinished(options.output)
    return sorted(set(failed))


# ---- the table -------------------------------------------------------------------------------------------------------


def schedule_of(text):
    """ "unroll(4)" of "unroll(4), 12.1 us, of 9 schedules; ..."."""
    return re.split(r"[,;]", text)[0].strip()


def winners_of(log):
    """Schedules that were kept; and whether something was not measured to its end, or tried at all."""
    kept, is_unfinished, is_tried = [], False, False
    for line in log:
        match = LOGGED.search(line)
        if not match:
            continue
        whose, text = match.groups()
        is_tried = True
        is_unfinished = is_unfinished or bool(UNFINISHED.search(text))
        if text.startswith("default"):
            if lost := re.match(r"default, for (.*?) did not win a second time", text):
                kept = [each for each in kept if each != (whose, lost[1])]
            continue
        kept.append((whose, schedule_of(text)))
    return [schedule for _, schedule in dict.fromkeys(kept)], is_unfinished, is_tried


def verdict_of(lines):
    winners, is_unfinished, is_tried = winners_of(lines[0]["log"])
    if winners:
        return ", ".join(f"`{each}`" for each in winners)
    if is_unfinished:
        return "default; not all was measured in time"
    return "default: no candidate gained" if is_tried else "default: one schedule"


def ratio_of(line):
    return statistics.median(standard / tuned for turns in line["sets"] for standard, tuned in turns)


def text_of_seconds(seconds):
    return f"{seconds * 1e6:.4g}"


def rows_of(lines):
    """Lines of one row together, in the order in which rows came; failed ones apart."""
    rows, failed = {}, []
    for line in lines:
        if "sets" in line:
            rows.setdefault(line["row"], []).append(line)
        elif "failed" in line:
            failed.append(line)
    return rows, failed


def markdown(lines):
    rows, failed = rows_of(lines)
    text = ["| row | default, us | default / tuned | what won |", "|---|---|---|---|"]
    for name, measured in rows.items():
        standard = statistics.median(pair[0] for turns in measured[0]["sets"] for pair in turns)
        ratios = " ".join(f"{ratio_of(line):.2f}" for line in measured)
        text.append(f"| {name} | {text_of_seconds(standard)} | {ratios} | {verdict_of(measured)} |")
    for line in failed:
        text.append(f"| {line['row']} | | | failed: {line['failed']} |")
    return "\n".join(text)


def summary(lines):
    rows, failed = rows_of(lines)
    gained = [name for name, measured in rows.items() if winners_of(measured[0]["log"])[0]]
    slower = [name for name, measured in rows.items() if statistics.median(map(ratio_of, measured)) < 0.97]
    text = f"{len(rows)} rows, {len(gained)} of them with winners, {len(failed)} failed"
    return text + (f"; below 0.97: {', '.join(slower)}" if slower else "")


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build/default")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("bench_tuned.jsonl"))
    parser.add_argument("--fresh", action="store_true", help="forget the rows that the file has")
    parser.add_argument("--tune_seconds", type=float, default=0, help="for each version (2)")
    parser.add_argument("--seconds", type=float, default=1e6, help="after these no row is begun")
    parser.add_argument(
        "--sessions", type=int, default=1, help="processes that run each row, the first of which measures"
    )
    parser.add_argument("--gpu", action="store_true", help="the programs of the GPU")
    parser.add_argument("--verbose", action="store_true", help="what the programs print, too")
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="run nothing; print the table of this file")
    parser.add_argument("--benchmark_filter", default=".", help="rows by name, as in Google Benchmark")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if options.gpu:
        options.names += ON_GPU
    return options


def main():
    options = parsed()
    if options.source and not options.source.exists():
        raise SystemExit(f"{options.source}: no such file")
    failed = [] if options.source else run(options)
    lines = lines_of(options.source or options.output)
    print(markdown(lines))
    print("\n" + summary(lines))
    for name in failed:
        print(f"bench_{name} could not be run")
    return 1 if failed or rows_of(lines)[1] else 0


if __name__ == "__main__":
    sys.exit(main())
