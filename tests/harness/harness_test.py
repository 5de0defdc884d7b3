#!/usr/bin/env python3
"""Tests of the tests: each harness must be able to fail.

Usage: harness_test.py PROJECT_FOLDER COMPILER
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROJECT, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2]


def load(path):
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(pathlib.Path(path).name.replace(".py", ""), str(PROJECT / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class InFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_script(self, script, *arguments):
        return subprocess.run([sys.executable, PROJECT / script, *map(str, arguments)], capture_output=True, text=True,
                              check=False)


class Examples(InFolder):
    def outcome(self, printed, expected, *options):
        self.write("expected.txt", expected)
        result = self.run_script("tests/examples/run_example.py", *options, self.folder / "expected.txt",
                                 self.folder / "work", "/bin/printf", printed)
        return result.returncode, result.stdout

    def test_same(self):
        self.assertEqual(self.outcome(r"a (b)\n3 ms \n", "a (b)\n{{[0-9]+}} ms\n")[0], 0)

    def test_any_lines(self):
        self.assertEqual(self.outcome(r"a\nb\nc\n", "a\n{{...}}\nc\n")[0], 0)
        self.assertEqual(self.outcome(r"a\nc\n", "a\n{{...}}\nc\n")[0], 0)

    def test_difference_is_named(self):
        status, output = self.outcome(r"a\nb\n", "a\nc\n")
        self.assertEqual(status, 1)
        self.assertIn("line 2: want 'c', got 'b'", output)

    def test_missing_and_surplus_lines(self):
        self.assertEqual(self.outcome(r"a\n", "a\nb\n")[0], 1)
        self.assertEqual(self.outcome(r"a\nb\n", "a\n")[0], 1)

    def test_first_lines(self):
        self.assertEqual(self.outcome(r"a\nb\nc\n", "a\nb\n", "--begins")[0], 0)
        self.assertEqual(self.outcome(r"a\nb\n", "a\nb\n", "--begins")[0], 0)
        self.assertEqual(self.outcome(r"a\nc\nb\n", "a\nb\n", "--begins")[0], 1)
        self.assertEqual(self.outcome(r"a\n", "a\nb\n", "--begins")[0], 1)

    def test_failing_program(self):
        self.write("expected.txt", "")
        result = self.run_script("tests/examples/run_example.py", self.folder / "expected.txt", self.folder, "/bin/false")
        self.assertEqual(result.returncode, 1)

    def test_missing_expectation(self):
        result = self.run_script("tests/examples/run_example.py", self.folder / "none.txt", self.folder, "/bin/true")
        self.assertEqual(result.returncode, 1)


class CompileFail(InFolder):
    def status(self, text):
        path = self.write("case.cpp", text)
        return self.run_script("tests/compile_fail/check.py", path, COMPILER).returncode

    def test_expected_message(self):
        self.assertEqual(self.status(
            '// expect: say this\n#ifdef SINTER_COMPILE_FAIL\nstatic_assert(false, "say this");\n#endif\n'), 0)

    def test_other_message(self):
        self.assertEqual(self.status(
            '// expect: say that\n#ifdef SINTER_COMPILE_FAIL\nstatic_assert(false, "say this");\n#endif\n'), 1)

    def test_compiles(self):
        self.assertEqual(self.status("// expect: x\n#ifdef SINTER_COMPILE_FAIL\nint a;\n#endif\n"), 1)

    def test_fails_for_another_reason(self):
        self.assertEqual(self.status("// expect: error\n#ifdef SINTER_COMPILE_FAIL\nint a = b;\n#endif\nint c = d;\n"), 1)

    def test_no_expectation(self):
        self.assertEqual(self.status("#ifdef SINTER_COMPILE_FAIL\nint a = b;\n#endif\n"), 1)


class Amalgamate(InFolder):
    def setUp(self):
        super().setUp()
        self.tool = load("tools/amalgamate")
        self.tool.ROOT = self.folder / "include" / "sinter"
        self.write("include/sinter/base/config.hpp",
                   '#pragma once\n#define SINTER_VERSION_STRING "1.2.3"\n')

    def amalgamated(self, **files):
        for name, text in files.items():
            self.write(f"include/sinter/{name.replace('__', '/').replace('_hpp', '.hpp').replace('_ipp', '.ipp')}", text)
        return self.tool.amalgamated()

    def test_each_file_once_after_what_it_includes(self):
        text = self.amalgamated(
            sinter_hpp='#include "a/x.hpp"\n#include <sinter/a/y.hpp>\n#include "a/x.ipp"\n',
            a__x_hpp='#pragma once\n#include <vector>\nint x;\n',
            a__x_ipp='#pragma once\n#include "x.hpp"\n#include "y.hpp"\nint x_body;\n',
            a__y_hpp='#include "../base/config.hpp"\n#include <vector>\nint y;\n')
        lines = [line for line in text.splitlines() if line.startswith(("int", "#include"))]
        self.assertEqual(lines, ["#include <vector>", "int x;", "int y;", "int x_body;"])

    def test_conditions_of_several_includers(self):
        text = self.amalgamated(
            sinter_hpp='#ifdef A\n#include "a/x.ipp"\n#endif\n#if defined(B)\n#include "a/y.ipp"\n#endif\nint last;\n',
            a__x_ipp='#include "both.hpp"\n#ifndef NO_Z\n#include "z.hpp"\n#endif\n#include <map>\nint x;\n',
            a__y_ipp='#include "both.hpp"\n#include <map>\nint y;\n', a__both_hpp='int both;\n', a__z_hpp='#include <map>\nint z;\n')
        lines = [line for line in text.splitlines() if line.startswith(("int", "#if", "#end", "#include"))]
        self.assertEqual(lines, ["#if defined(A) || defined(B)", "int both;", "#endif",
                                 "#if !defined(NO_Z) && defined(A)", "#include <map>", "int z;", "#endif",
                                 "#if defined(A)", "#include <map>", "int x;", "#endif",
                                 "#if defined(B)", "#include <map>", "int y;", "#endif", "int last;"])

    def test_one_unconditional_includer_is_enough(self):
        text = self.amalgamated(
            sinter_hpp='#ifndef SINTER_NO_X86\n#include "a/x.hpp"\n#endif\n#include "a/y.hpp"\n',
            a__x_hpp='#include "y.hpp"\nint x;\n', a__y_hpp='int y;\n')
        self.assertLess(text.index("int y;"), text.index("#if !defined(SINTER_NO_X86)"))
        self.assertLess(text.index("#if !defined(SINTER_NO_X86)"), text.index("int x;"))
        self.assertEqual(text.count("int y;"), 1)

    def test_includes_at_the_end(self):
        text = self.amalgamated(sinter_hpp='#include "a/x.hpp"\n', a__x_hpp='int x;\n#include "y.hpp"\n',
                                a__y_hpp='#include "x.hpp"\nint y;\n')
        self.assertLess(text.index("int x;"), text.index("int y;"))

    def test_includes_between_code_are_refused(self):
        with self.assertRaisesRegex(self.tool.Problem, "between its code"):
            self.amalgamated(sinter_hpp='int a;\n#include "a/x.hpp"\nint b;\n', a__x_hpp='int x;\n')

    def test_missing_header_is_named(self):
        with self.assertRaisesRegex(self.tool.Problem, "gone.hpp"):
            self.amalgamated(sinter_hpp='#include "a/gone.hpp"\n')


class ContinuousIntegration(InFolder):
    STUBS = """
        set -euo pipefail
        project=$1 results=$2 library_packages=()
        say() { echo "==> $*"; }
        require() { :; }
        main_suite() { echo main; }
        stage() { echo "stage $* in groups of ${SINTER_TEST_GROUP:-1}"; }
        rotating_stage() { echo "rotating $*"; }
        syntax_suite() { echo "syntax $*"; }
        distro_suite() { echo "distro $*"; }
        sleep() { command sleep 0.05; }
        . "$project/tools/lib/ci.sh"
        """

    def run_ci(self, configuration, changes=""):
        result = subprocess.run(["bash", "-c", self.STUBS + changes + "\nci_suite", "bash", PROJECT, self.folder], text=True,
                                capture_output=True, check=False, env={**os.environ, "SINTER_CI_CONFIGURATION": configuration})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_one_configuration_in_full_and_the_others_read(self):
        output = self.run_ci("clang19")
        for line in ("main", "syntax clang", "syntax reference", "rotating clang19"):
            self.assertIn(f"\n{line}\n", "\n" + output)
        self.assertNotIn("syntax clang19", output)
        self.assertRegex(output, r"minutes per stage\n +0.0  GCC, main suite\n")
        self.assertIn("distro trixie", self.run_ci("trixie"))
        for sanitizer in ("asan", "tsan"):
            self.assertIn(f"\nstage {sanitizer} -LE fuzz in groups of 16\n", self.run_ci(sanitizer))

    def test_every_second_configuration_is_the_address_sanitizer(self):
        met = [self.run_ci("", f"commit_number() {{ echo {commit}; }}") for commit in range(12)]
        self.assertEqual(sum("stage asan" in output for output in met), 6)
        for name in ("stage tsan", "rotating clang\n", "rotating clang19", "distro trixie", "rotating header-only",
                     "rotating reference"):
            self.assertEqual(sum(name in output for output in met), 1, name)

    def test_late_configurations_are_left_out(self):
        output = self.run_ci("clang", "ci_last_start=0")
        self.assertNotIn("rotating clang", output)
        self.assertIn("clang, in full (of asan clang clang19 header-only reference trixie tsan): left out after 0 minutes",
                      output)

    def test_what_runs_too_long_is_stopped(self):
        output = self.run_ci("clang", "ci_end=0; rotating_stage() { command sleep 1000 & command sleep 1000; }")
        self.assertIn("which had begun: left out after 0 minutes", output)

    def test_failures_are_counted_and_the_rest_goes_on(self):
        output = self.run_ci("clang", "main_suite() { exit 1; }")
        self.assertIn("rotating clang", output)
        self.assertTrue((self.folder / "GCC__main_suite.does_not_build").exists())


class Groups(InFolder):
    """Of a program that takes the place of one of Catch2's."""
    PROGRAM = """#!/usr/bin/env python3
import os, re, sys
specification = sys.argv[-1]
is_group = "xml" in sys.argv
names = [re.sub(r"\\\\(.)", r"\\1", name) for name in re.split(r"(?<!\\\\),", specification)]
status = 0
for name in names:
    if is_group: print(f'<TestCase name="{name.replace("&", "&amp;")}" filename="a.cpp">', flush=True)
    if name == "ends the process" or (name == "ends it after others" and is_group): os.abort()
    if name == "skips": print("SINTER_SKIPPED: no GPU")
    is_good = name != "fails" and not (name == "fails after others" and is_group)
    if not is_good: status = 1
    if is_group: print(f'<OverallResult success="{str(is_good).lower()}"/>', flush=True)
    elif not is_good: print("what it says")
if is_group and "leaks" in names: status = 23
sys.exit(status)
"""

    def outcome(self, *names):
        program = self.write("program", self.PROGRAM)
        program.chmod(0o755)
        result = self.run_script("tools/lib/run_group.py", 20, program, "--", *names)
        lines = [line.partition(" ")[2] for line in result.stdout.splitlines() if line.startswith("SINTER_GROUP ")]
        return result.returncode, result.stdout, lines

    def test_all_pass_or_are_skipped(self):
        status, _, lines = self.outcome("a & b", r"a\, b", "skips", "c")
        self.assertEqual((status, lines), (0, ["passed a & b", "passed a, b", "skipped skips: no GPU", "passed c"]))

    def test_what_fails_runs_by_itself(self):
        status, output, lines = self.outcome("a", "fails", "fails after others", "b")
        self.assertEqual((status, sorted(lines)), (1, ["failed fails", "passed a", "passed b",
                                                       "passed fails after others"]))
        self.assertIn("what it says", output)

    def test_the_end_of_the_process_is_no_end(self):
        status, _, lines = self.outcome("a", "ends the process", "b", "ends it after others", "c")
        self.assertEqual((status, sorted(lines)), (1, ["failed ends the process", "passed a", "passed b", "passed c",
                                                       "passed ends it after others"]))

    def test_a_failure_of_all_together(self):
        status, output, lines = self.outcome("a", "leaks")
        self.assertEqual((status, lines[-1]), (1, "failed a and 1 more, together"))
        self.assertIn("exit status 23", output)


class Counting(InFolder):
    def test_counts_and_names(self):
        self.write("default.1.xml", """<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail"/>
            <testcase name="c" status="notrun"><system-out>SINTER_SKIPPED: no GPU</system-out></testcase></testsuite>""")
        self.write("tsan.does_not_build", "")
        result = self.run_script("tools/lib/count_tests.py", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.splitlines(), ["skipped  default: c: no GPU", "FAILED   default: b",
                                                      "FAILED   tsan: does not build", "1 passed, 2 failed, 1 skipped"])

    def test_members_of_a_group_count(self):
        self.write("asan.1.xml", """<testsuite>
            <testcase name="unit: group 1 of 2" status="fail"><system-out>what it said
SINTER_GROUP passed a: b
SINTER_GROUP skipped c: no GPU
SINTER_GROUP failed d</system-out></testcase>
            <testcase name="unit: group 2 of 2" status="fail"><system-out>stopped</system-out></testcase></testsuite>""")
        result = self.run_script("tools/lib/count_tests.py", self.folder)
        self.assertEqual(result.stdout.splitlines(), ["skipped  asan: c: no GPU", "FAILED   asan: d",
                                                      "FAILED   asan: unit: group 2 of 2",
                                                      "1 passed, 2 failed, 1 skipped"])

    def test_nothing_ran(self):
        self.assertEqual(self.run_script("tools/lib/count_tests.py", self.folder).returncode, 1)


class BenchmarkRows(InFolder):
    """bench.json from files of Google Benchmark."""

    def setUp(self):
        super().setUp()
        self.tool = load("tools/lib/benchmark_rows.py")

    def file(self, name, entries, **context):
        benchmarks = [{"run_type": "iteration", "time_unit": "us", **entry} for entry in entries]
        self.write(name, json.dumps({"context": context, "benchmarks": benchmarks}))

    def rows(self):
        return self.tool.rows_of_folder(self.folder)[0]

    def test_medians_of_repetitions_and_ratio(self):
        name = "softmax/64x1024/f32/manual_time"
        self.file("kernels.1.json", [{"name": name, "label": "Eigen", "real_time": t, "items_per_second": 65536e6 / t, "ratio": r,
                                      "peer_seconds": t * r * 1e-6, "limit": 4e9} for t, r in ((10, 2.0), (20, 1.5), (11, 1.9))])
        row, = self.rows()
        self.assertEqual(list(row), self.tool.KEYS)
        self.assertEqual([row[key] for key in ("name", "shape", "dtype", "device", "threads", "unit", "peer", "ratio", "note")],
                         ["softmax", "64x1024", "f32", "cpu", 1, "Gelem/s", "Eigen", 1.9, None])
        self.assertAlmostEqual(row["ours"], 65.536 / 11, 3)
        self.assertAlmostEqual(row["peer_value"], 65.536 / 20.9, 3)
        self.assertEqual(row["limit"], 4)

    def test_peer_of_another_process_is_compared_by_round(self):
        for number, ours, theirs in ((1, 10, 20), (2, 100, 300), (3, 10, 40)):   # the second round met other work
            self.file(f"products.{number}.json", [{"name": "matmul/8x8x8/f32", "real_time": ours}])
            self.file(f"onednn.{number}.json", [{"name": "matmul/8x8x8/f32", "label": "oneDNN", "real_time": theirs}], is_peer="yes")
        row, = self.rows()
        self.assertEqual([row[key] for key in ("ours", "unit", "peer", "peer_value", "ratio")], [10, "us", "oneDNN", 40, 3])

    def test_threads_of_the_benchmark_are_compared_with_one(self):
        self.file("overhead.1.json", [{"name": f"call/16/f32/real_time/threads:{n}", "real_time": t, "calls": 1e6 / t} for n, t in ((1, 4), (2, 2))])
        one, two = self.rows()
        self.assertEqual([one["threads"], one["peer"]], [1, None])
        self.assertEqual([two["threads"], two["peer"], two["ratio"], two["unit"]], [2, "one thread", 2, "Mcalls/s"])

    def test_missing_op_has_a_note_and_no_figure(self):
        self.file("movement.1.json", [{"name": "sort/8/f32", "error_occurred": True, "error_message": "no such op yet: sort", "real_time": 0}])
        row, = self.rows()
        self.assertEqual([row["ours"], row["ratio"], row["note"]], [None, None, "no such op yet: sort"])
        self.assertIn("| sort | 8 | 1 | no such op yet: sort |", self.tool.markdown([row], []))

    def test_aggregates_and_empty_files_do_not_count(self):
        self.file("kernels.1.json", [{"name": "exp/8/f32", "real_time": 2}, {"name": "exp/8/f32_mean", "run_type": "aggregate", "real_time": 9}])
        self.write("gpu.1.json", "")
        self.assertEqual([row["ours"] for row in self.rows()], [2])


class Layering(InFolder):
    def test_upward_edge_is_named(self):
        self.write("include/sinter/base/a.hpp", '#include "../jit/b.hpp"\n')
        self.write("include/sinter/jit/b.hpp", "")
        result = self.run_script("tests/unit/layering_test.py", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("base/a.hpp:1: includes jit/b.hpp: base stands below jit", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
