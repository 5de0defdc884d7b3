#!/usr/bin/env python3
"""Runs the benchmark programs, and those of peers, in rounds; adds what is measured from outside (build times, program
size); writes bench.json and a table (benchmark_rows.py).

Usage: run_benchmarks.py [OPTION...] [--benchmark_...] [NAME...]

Names select programs: `kernels` is bench/kernels.cpp. Options of Google Benchmark go to the programs;
--benchmark_filter holds for everything. Exit status 1 if a program fails, which it does when a result it checks is
wrong.
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
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import benchmark_rows  # noqa: E402

PROJECT = pathlib.Path(__file__).resolve().parents[2]
# In each round; a peer in another process runs between two rounds of ours.
DEFAULT_FLAGS = ["--benchmark_repetitions=3", "--benchmark_min_time=0.05", "--benchmark_display_aggregates_only=true"]
# Libraries that every system brings itself, in a version that fits it.
SYSTEM_LIBRARIES = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so)")


def wants(filter_text, name):
    """Whether --benchmark_filter chooses a row that no program of Google Benchmark makes."""
    if filter_text.startswith("-"):
        return not re.search(filter_text[1:], name)
    return bool(re.search(filter_text, name))


def exactly(names):
    """A filter for these rows. The library's expressions are POSIX's extended ones, where ] and } must not be escaped."""
    return "^(" + "|".join(re.sub(r"([\[.^$*+?{()|\\])", r"\\\1", name) for name in names) + ")$"


def listed(program, filter_text):
    """The rows of a program that the filter chooses; the reason is printed where a program has none."""
    result = subprocess.run(
        [program, "--benchmark_list_tests=true", f"--benchmark_filter={filter_text}"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in result.stderr.splitlines():
        if "Failed to match" not in line:
            print(f"-- {program.name}: {line}", flush=True)
    return result.stdout.splitlines() if result.returncode == 0 else []


def run_program(command, title):
    """Whether it succeeded."""
    print(f"\n-- {title}", flush=True)
    return subprocess.run([str(word) for word in command], check=False).returncode == 0


# ---- what is measured from outside -----------------------------------------------------------------------------------


def compile_seconds(flags, source, times):
    """The median time to compile one file."""
    command = [
        "g++",
        "-std=c++20",
        "-O2",
        f"-I{PROJECT / 'include'}",
        "-isystem",
        "/usr/include/eigen3",
        *flags,
        "-c",
        str(source),
        "-o",
        os.devnull,
    ]
    seconds = []
    for _ in range(times):
        start = time.monotonic()
        subprocess.run(command, check=True)
        seconds.append(time.monotonic() - start)
    return statistics.median(seconds)


def stripped_bytes(program):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / program.name
        subprocess.run(["strip", "-o", str(copy), str(program)], check=True)
        return copy.stat().st_size


def outside_entries(build, filter_text):
    """Rows in the form of Google Benchmark. A machine without the sources, or the program, has none of them."""
    source, program = PROJECT / "examples/hello/hello.cpp", build / "examples/digits"
    entries = []
    builds = [
        ("build a user's file, sinter::compiled/hello.cpp -O2", ["-DSINTER_SEPARATE_COMPILATION"], 3, 2),
        ("build a user's file, header-only/hello.cpp -O2", [], 1, 20),
    ]
    for name, flags, times, limit in builds:
        if wants(filter_text, name) and source.exists() and shutil.which("g++"):
            print(f"-- {name}", flush=True)
            entries.append(
                {"name": name, "real_time": compile_seconds(flags, source, times), "time_unit": "s", "limit": limit}
            )
    name = "stripped program/digits"
    if wants(filter_text, name) and program.exists() and shutil.which("strip"):
        entries.append(
            {"name": name, "real_time": 0, "time_unit": "s", "bytes": stripped_bytes(program), "limit": 1.5e6}
        )
    return entries


def measure_outside(options, raw):
    """Whether all succeeded."""
    entries = outside_entries(options.build, options.benchmark_filter)
    if entries:
        (raw / "outside.1.json").write_text(json.dumps({"context": {}, "benchmarks": entries}, indent=1))
    script = PROJECT / "tools/lib/include_cost.py"
    if script.exists() and wants(options.benchmark_filter, "cost of including"):
        return run_program([sys.executable, script, PROJECT], "cost of including")
    return True


# ---- programs --------------------------------------------------------------------------------------------------------


def programs_of(options):
    """Programs of ours with the rows that were chosen, and programs of peers with those of the same names."""

    def found(prefix):
        paths = sorted(p for p in (options.build / "bench").glob(prefix + "*") if p.is_file() and os.access(p, os.X_OK))
        return {p.name.removeprefix(prefix): p for p in paths}

    ours = found("bench_")
    if unknown := set(options.names) - set(ours):
        known = ", ".join(ours) or "none: build them first"
        raise SystemExit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {known}")
    chosen, peers = {}, {}
    for name, path in ours.items():
        rows = listed(path, options.benchmark_filter) if not options.names or name in options.names else []
        if rows:
            chosen[name] = path, rows
    all_rows = {row for _, rows in chosen.values() for row in rows}
    for name, path in found("peer_").items():
        rows = [row for row in listed(path, options.benchmark_filter) if row in all_rows]
        if rows:
            peers[name] = path, rows
    return chosen, peers


def python_flags(flags):
    """What the scripts of PyTorch and JAX understand of Google Benchmark's flags, in their words."""
    names = {"--benchmark_repetitions": "--repetitions", "--benchmark_min_time": "--seconds"}
    for flag in flags:
        name, _, value = flag.partition("=")
        if name in names:
            yield f"{names[name]}={value.removesuffix('s')}"


def python_peers(options, ours, raw, number):
    """Whether the scripts for PyTorch and JAX succeeded."""
    if not options.peers:
        return True
    succeeded = True
    for name, script in (("cpu", "bench/peers/frameworks.py"), ("gpu", "bench/gpu_peers.py")):
        is_gpu = name == "gpu"
        rows = [row for program, (_, names) in ours.items() if program.startswith("gpu") == is_gpu for row in names]
        if not rows:
            continue
        chosen = raw / f"rows_of_{name}.txt"
        chosen.write_text("\n".join(rows) + "\n")
        out = raw / f"{name}_frameworks.{number}.json"
        command = [
            options.python,
            PROJECT / script,
            "--peers",
            options.peers,
            "--rows",
            chosen,
            "--out",
            out,
            *python_flags(options.flags),
        ]
        succeeded = run_program(command, f"{options.peers} ({name}), round {number}") and succeeded
    return succeeded


def measure(options, raw):
    """Fills the folder with files; gives the names of what failed."""
    raw.mkdir(parents=True, exist_ok=True)
    for old in raw.glob("*.json"):
        old.unlink()
    ours, peers = programs_of(options)
    failed = []
    for number in range(1, options.rounds + 1):
        for name, (path, rows) in [*ours.items(), *peers.items()]:
            out = raw / f"{name}.{number}.json"
            command = [
                path,
                *DEFAULT_FLAGS,
                *options.flags,
                f"--benchmark_filter={exactly(rows)}",
                f"--benchmark_out={out}",
                "--benchmark_out_format=json",
            ]
            succeeded = run_program(command, f"{name}, round {number} of {options.rounds}")
            if not succeeded or not out.exists() or out.stat().st_size == 0:
                failed.append(name)
        if not python_peers(options, ours, raw, number):
            failed.append("PyTorch or JAX")
    if not options.names and not measure_outside(options, raw):
        failed.append("cost of including")
    return sorted(set(failed))


# ---- another machine -------------------------------------------------------------------------------------------------


def shared_libraries(program):
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not SYSTEM_LIBRARIES.match(match[1]):
            yield match[1], pathlib.Path(match[2])


def write_bundle(options):
    """An archive with the programs, their libraries and this script, for a machine without network or compiler."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "sinter-bench"
        programs = root / "build/default/bench"
        (programs / "lib").mkdir(parents=True)
        for path in (options.build / "bench").iterdir():
            if not re.match("(bench|peer)_", path.name) or not os.access(path, os.X_OK):
                continue
            for name, library in shared_libraries(path):
                shutil.copy(library, programs / "lib" / name)
            subprocess.run(["strip", "-o", programs / path.name, path], check=True)
        for script in [
            "tools/lib/run_benchmarks.py",
            "tools/lib/benchmark_rows.py",
            "tools/lib/tuned_rows.py",
            "bench/gpu_peers.py",
            *(p.relative_to(PROJECT) for p in (PROJECT / "bench/peers").glob("*.py")),
        ]:
            (root / script).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / script, root / script)
        with tarfile.open(options.bundle, "w:xz") as archive:
            archive.add(root, root.name)
    print(f"{options.bundle}: unpack it, then python3 sinter-bench/tools/lib/run_benchmarks.py")


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--build", type=pathlib.Path, default=PROJECT / "build/default", help="where the programs were built"
    )
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("bench.json"))
    parser.add_argument(
        "--raw", type=pathlib.Path, help="folder for the files of Google Benchmark (BUILD/bench/results)"
    )
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="run nothing; read the files of this folder")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md and docs/performance.md")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="", help="also torch, jax or both: torch,jax")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch or JAX")
    parser.add_argument(
        "--bundle", type=pathlib.Path, help="run nothing; write an archive for another machine, FILE.tar.xz"
    )
    parser.add_argument("--benchmark_filter", default=".", help="rows by name, as in Google Benchmark")
    parser.add_argument("--benchmark_list_tests", nargs="?", const="true", default="false", help="only list the rows")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options, options.flags = parser.parse_known_args()
    for flag in options.flags:
        if not flag.startswith("--benchmark_"):
            parser.error(f"unknown option {flag}")
        if flag.startswith("--benchmark_out"):
            parser.error(f"{flag}: every run writes its own file; use --raw FOLDER, or run the program itself")
    return options


def main():
    options = parsed()
    if options.bundle:
        write_bundle(options)
        return 0
    if options.benchmark_list_tests != "false":
        for _, rows in programs_of(options)[0].values():
            print("\n".join(rows))
        return 0
    raw = options.source or options.raw or options.build / "bench/results"
    failed = [] if options.source else measure(options, raw)
    rows, contexts = benchmark_rows.rows_of_folder(raw)
    if not rows:
        print(f"no rows in {raw}; --benchmark_list_tests prints the names there are")
        return 1
    options.output.write_text(benchmark_rows.text_of(rows))
    print()
    benchmark_rows.print_table(rows)
    print(f"\n{len(rows)} rows in {options.output}, from {raw}")
    if options.readme:
        benchmark_rows.update_documents(PROJECT, rows, contexts)
    wrong = [row["name"] for row in rows if row["note"] and "no such op yet" not in row["note"]]
    for name in dict.fromkeys([*failed, *wrong]):
        print(f"{name} FAILED: see above")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
