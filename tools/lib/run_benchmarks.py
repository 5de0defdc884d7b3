"""Runs the benchmark programs, adds what is measured from outside (size, build time, memory), writes bench.json and a table.

Usage: run_benchmarks.py --project FOLDER --build FOLDER [--output FILE] [--readme] [NAME...]

A program prints rows as lines of JSON (bench/row.hpp); its other lines are shown as they come. Exit status 1 if a program
fails, which it does when a result it checks is wrong.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

KEYS = ["name", "shape", "dtype", "device", "threads", "ours", "unit", "peer", "peer_value", "ratio", "limit",
        "share_of_limit", "compile_ms"]


def row(name, ours, unit, limit, shape=""):
    """A row of a figure that has a target and no peer."""
    values = dict.fromkeys(KEYS)
    values.update(name=name, shape=shape, dtype="", device="cpu", threads=1, ours=round(ours, 4), unit=unit, limit=limit,
                  share_of_limit=round(ours / limit, 4))
    return values


def rows_of_program(program):
    """The rows that one benchmark prints, and whether it succeeded."""
    print(f"-- {program.name}", flush=True)
    rows = []
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if not line.startswith("{"):
                print("   " + line.rstrip(), flush=True)
                continue
            values = json.loads(line)
            if set(values) != set(KEYS):
                raise SystemExit(f"{program.name} printed a row with other keys than bench.json has: {line}")
            rows.append(values)
            print("   " + summary(values), flush=True)
    return rows, process.returncode == 0


def compile_seconds(project, flags, source, times):
    """The median time to compile one file."""
    command = ["g++", "-std=c++20", "-O2", f"-I{project / 'include'}", "-isystem", "/usr/include/eigen3", *flags,
               "-c", str(source), "-o", os.devnull]
    seconds = []
    for _ in range(times):
        start = time.monotonic()
        subprocess.run(command, check=True)
        seconds.append(time.monotonic() - start)
    return statistics.median(seconds)


def build_time_rows(project):
    source = project / "examples" / "hello" / "hello.cpp"
    print("-- build times", flush=True)
    return [
        row("build a user's file, sinter::compiled", compile_seconds(project, ["-DSINTER_SEPARATE_COMPILATION"], source, 3),
            "s", 2, "hello.cpp -O2"),
        row("build a user's file, header-only", compile_seconds(project, [], source, 1), "s", 20, "hello.cpp -O2"),
    ]


def size_row(program):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / program.name
        shutil.copy(program, copy)
        subprocess.run(["strip", str(copy)], check=True)
        return row("stripped program", copy.stat().st_size / 1e6, "MB", 1.5, program.name)


def shown(value):
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def summary(values):
    text = f"{values['name']} {values['shape']} {values['dtype']}: {shown(values['ours'])} {values['unit']}"
    if values["peer"]:
        text += f", {values['peer']} {shown(values['peer_value'])}, ratio {shown(values['ratio'])}"
    return text


def print_table(rows):
    heads = ["name", "shape", "dtype", "threads", "ours", "unit", "peer", "peer_value", "ratio", "limit", "share_of_limit",
             "compile_ms"]
    lines = [heads] + [[shown(values[head]) for head in heads] for values in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def update_readme(path, rows):
    """Puts the rows between the marks of README.md."""
    lines = ["| what | shape | threads | ours | peer | ratio | limit or target |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        peer = f"{r['peer']} {shown(r['peer_value'])}" if r["peer"] else ""
        cells = [r["name"], r["shape"], r["threads"], f"{shown(r['ours'])} {r['unit']}", peer,
                 f"{r['ratio']:.2f}" if r["ratio"] else "", shown(r["limit"]) if r["limit"] else ""]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    text = path.read_text()
    new_text = re.sub(r"(<!-- bench -->\n).*?(<!-- /bench -->)", lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.DOTALL)
    if new_text == text and "<!-- bench -->" not in text:
        raise SystemExit(f"{path} has no line <!-- bench -->")
    path.write_text(new_text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--project", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("bench.json"))
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()

    programs = sorted(p for p in (options.build / "bench").glob("bench_*") if p.is_file() and os.access(p, os.X_OK))
    if options.names:
        programs = [p for p in programs if p.name.removeprefix("bench_") in options.names]
    if not programs:
        print("no such benchmark; there are bench/NAME.cpp")
        return 1

    rows, failed = [], []
    for program in programs:
        new_rows, succeeded = rows_of_program(program)
        rows += new_rows
        if not succeeded:
            failed.append(program.name)
    if not options.names:
        rows += build_time_rows(options.project)
        rows.append(size_row(options.build / "examples" / "digits"))

    options.output.write_text("[\n" + ",\n".join("  " + json.dumps({key: r[key] for key in KEYS}) for r in rows) + "\n]\n")
    print()
    print_table(rows)
    print(f"\n{len(rows)} rows in {options.output}")
    if options.readme:
        update_readme(options.project / "README.md", rows)
    for name in failed:
        print(f"{name} FAILED: its figures above may be wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
