#!/usr/bin/env python3
"""Tests of what bench/comparison.hpp adds to Google Benchmark: a wrong result stops a row before it is timed, ...

Usage: bench_test.py PROJECT_FOLDER COMPILER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROJECT, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(PROJECT / "tools/lib"))
import run_benchmarks  # noqa: E402

PROGRAM = """
#include "comparison.hpp"
#include <cstdio>
#include <vector>
#include <thread>

int calls_of_wrong = 0;

int main(int argc, char** argv) {
  const std::vector<float> peer = {1, 2, 3}, same = peer, other = {1, 2.5f, 3};
  bench::add("right/3/f32", [&](benchmark::State& state) {
    if (!bench::agree(state, same, peer, 0)) return;
    const auto sleep = [](int us) { return [us] { std::this_thread::sleep_for(std::chrono::microseconds(us)); }; };
    bench::alternate(state, "slow", sleep(200), sleep(2000));
    bench::count_items(state, 3);
    bench::set_limit(state, 1e6);
  });
  bench::add("steps/3/f32", [&](benchmark::State& state) {
    bench::time_alone(state, [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, 10);
  });
  bench::add("wrong/3/f32", [&](benchmark::State& state) {
    if (!bench::agree(state, other, peer, 1e-3)) return;
    bench::alternate(state, "peer", [&] { ++calls_of_wrong; }, [] {});
  });
  bench::add("NaN/1/f32", [&](benchmark::State& state) {
    const float nan[] = {std::nanf("")};
    if (!bench::agree(state, nan, nan, 1)) return;
    bench::time_alone(state, [&] { ++calls_of_wrong; });
  });
  for (const char* name : {"sum over {0,1} of [a.b]*(c+d)^2|e?$/3/f32", "sum over {0,1}/3/f32"})
    bench::add(name, [](benchmark::State& state) { bench::time_alone(state, [] {}); });
  bench::add_missing("sort/3/f32", "sort");
  const int status = bench::run(argc, argv);
  std::printf("calls of wrong: %d\\n", calls_of_wrong);
  return status;
}
"""


def compiled(folder):
    """The program, or None where Google Benchmark is not installed."""
    source, program = folder / "program.cpp", folder / "program"
    source.write_text("#include <benchmark/benchmark.h>\n")
    if (
        subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", source], capture_output=True, check=False).returncode
        != 0
    ):
        return None
    source.write_text(PROGRAM)
    subprocess.run(
        [
            COMPILER,
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-I",
            PROJECT / "bench",
            source,
            "-o",
            program,
            "-lbenchmark",
            "-pthread",
        ],
        check=True,
    )
    return program


class Layer(unittest.TestCase):
    def run_rows(self, chosen, repetitions=3):
        out = FOLDER / "out.json"
        result = subprocess.run(
            [
                PROGRAM_PATH,
                f"--benchmark_filter={chosen}",
                f"--benchmark_repetitions={repetitions}",
                "--benchmark_min_time=0.01",
                f"--benchmark_out={out}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        entries = [e for e in json.loads(out.read_text())["benchmarks"] if e["run_type"] == "iteration"]
        return result, entries

    def test_a_wrong_result_is_not_timed(self):
        result, entries = self.run_rows("wrong")
        self.assertEqual(result.returncode, 1)
        self.assertTrue(entries[0]["error_occurred"])
        self.assertEqual(entries[0]["error_message"], "wrong result: element 1 is 2.5 instead of 2")
        self.assertIn("calls of wrong: 0\n", result.stdout)

    def test_nan_is_wrong(self):
        result, entries = self.run_rows("NaN")
        self.assertEqual(result.returncode, 1)
        self.assertIn("calls of wrong: 0\n", result.stdout)

    def test_ratio_of_each_repetition(self):
        result, entries = self.run_rows("right")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(entries), 3)
        for entry in entries:
            self.assertEqual(entry["label"], "slow")
            self.assertGreater(entry["peer_seconds"], 2e-3)
            self.assertAlmostEqual(entry["items_per_second"] * entry["real_time"] * 1e-9, 3, 3)
        # Asleep ten times as long; other work on the machine adds to both, but hardly to all repetitions alike.
        self.assertGreater(max(entry["ratio"] for entry in entries), 2)

    def test_steps_share_the_time_of_a_call(self):
        result, entries = self.run_rows("steps")
        self.assertEqual(result.returncode, 0, result.stderr)
        times = [entry["real_time"] for entry in entries]
        self.assertGreater(min(times), 5e5)   # a tenth of 5 ms, in ns
        self.assertLess(min(times), 4e6)

    def test_missing_op_says_so(self):
        result, entries = self.run_rows("sort")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(entries[0]["error_message"], "no such op yet: sort")

    def test_filter_of_names_with_special_characters(self):
        """tools/bench names the rows that it runs."""
        names = ["sum over {0,1} of [a.b]*(c+d)^2|e?$/3/f32/manual_time", "sum over {0,1}/3/f32/manual_time"]
        for chosen in (names, names[:1]):
            result, entries = self.run_rows(run_benchmarks.exactly(chosen), 1)
            self.assertEqual([entry["name"] for entry in entries], chosen, result.stderr)

    def test_filter(self):
        _, entries = self.run_rows("ri.ht", 1)
        self.assertEqual([entry["name"] for entry in entries], ["right/3/f32/manual_time"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as holder:
        FOLDER = pathlib.Path(holder)
        PROGRAM_PATH = compiled(FOLDER)
        if PROGRAM_PATH is None:
            print("SINTER_SKIPPED: Google Benchmark (libbenchmark-dev) is not installed")
            sys.exit(0)
        unittest.main(argv=[sys.argv[0]])
