"""Times functions of Python frameworks and writes what Google Benchmark would: one JSON file, for tools/bench.

The rows are chosen by name, from a file with one name in each line; the label of an entry is the peer's name.
"""

import argparse
import json
import math
import os
import pathlib
import sys
import time

# As in bench/comparison.hpp: the time that this process had the processor, on a machine that others use, too.
clock = time.process_time if os.environ.get("BENCH_PROCESSOR_TIME", "0") not in ("", "0") else time.perf_counter
# What Google Benchmark appends to the names of rows that time themselves.
SUFFIXES = ("/manual_time", "/real_time")


def parsed(description, **flags):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="torch,jax", help="torch, jax or both: torch,jax")
    parser.add_argument("--rows", type=pathlib.Path, help="file with names of rows, one in each line; all")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each repetition, at least")
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    return parser.parse_args()


def base_name(name):
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


class Report:
    """Collects entries; `wait(result)` ends when a result is there."""

    def __init__(self, options, **context):
        self.options = options
        self.context = {"is_peer": "yes", **context}
        self.entries = []
        self.given_names = None
        if options.rows:
            self.given_names = {base_name(line): line for line in options.rows.read_text().splitlines()}

    def wants(self, name):
        return self.given_names is None or name in self.given_names

    def names(self):
        return list(self.given_names or [])

    def add_time(self, name, peer, index, seconds, iterations=1):
        full_name = self.given_names[name] if self.given_names else name
        self.entries.append(
            {
                "name": full_name,
                "run_name": full_name,
                "run_type": "iteration",
                "repetition_index": index,
                "iterations": iterations,
                "real_time": seconds * 1e9,
                "cpu_time": seconds * 1e9,
                "time_unit": "ns",
                "label": peer,
            }
        )

    def measure(self, name, peer, make, wait):
        """Times what `make()` gives; returns the seconds of its first call. One that fails does not end the rest."""
        try:
            call = make()
            start = clock()
            wait(call())
            first = clock() - start
            seconds = self.repeat(name, peer, call, wait)
            print(f"{name}: {peer}: {seconds * 1e6:.3f} us", flush=True)
            return first
        except Exception as error:  # whatever a framework may throw
            print(f"{name}: {peer}: {error!r}"[:200], file=sys.stderr, flush=True)
            return None

    def repeat(self, name, peer, call, wait):
        def several(count):
            start = clock()
            for _ in range(count):
                result = call()
            wait(result)
            return clock() - start

        several(2)
        calls = 1
        while (seconds := min(several(calls), several(calls))) < self.options.seconds / 10:
            calls *= 4
        calls = max(1, math.ceil(calls * self.options.seconds / seconds))
        for index in range(self.options.repetitions):
            seconds = several(calls) / calls
            self.add_time(name, peer, index, seconds, calls)
        return seconds

    def write(self):
        self.options.out.write_text(json.dumps({"context": self.context, "benchmarks": self.entries}, indent=1) + "\n")
