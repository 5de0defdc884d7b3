#!/usr/bin/env python3
"""Measures what Sinter costs the compiler of a user's file, as ratios to the standard headers that sinter.hpp includes itself.

Usage: include_cost.py [--check] [--compiler PROGRAM] [--runs N] [--optimise=-O2] PROJECT_FOLDER [FLAG...]

  --check   exit status 1 when a ceiling is passed in three measurements; else figures alone

Times are the processor time of the compiler, and of each program the median of N runs that alternate with the others', so
that other work on the machine hardly shows. The programs are those of sinter::compiled's users: SINTER_SEPARATE_COMPILATION
is defined.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

FIRST = """#include <sinter/sinter.hpp>
#include <cstdio>
using namespace sinter;
@DECLARATIONS@
int main() {
  auto f = jit::compile([](Tensor x, Tensor w, Tensor b) { return gelu(matmul(x, w) + b); });
  Tensor x = randn({64, 32});
  Tensor y = f(x, randn({32, 16}), zeros({16}));
@STATEMENTS@
  std::printf("%g\\n", item<double>(sum(y)));
}
"""
FURTHER = """  auto g@N@ = jit::compile([](Tensor a, Tensor b) { return tanh(a * @N@.5f) + exp(b); });
  y = g@N@(y, y);
"""
STRUCT = "struct Net@N@ { Tensor w, b, v; };\n"
GRADIENT = """  auto h@N@ = jit::compile(jit::value_and_grad([](const Net@N@& n, Tensor a) { return sum(square(tanh(matmul(a, n.w) + n.b) * n.v)); }));
  auto [loss@N@, slope@N@] = h@N@(Net@N@{randn({32, 16}), zeros({16}), ones({16})}, x);
  y = slope@N@.b;
"""
COUNT = 4   # further functions in a program, so that one stands out of the noise

# figure, its ceiling without and with optimisation, what it is. The first two are ratios to the standard headers, the others
# parts of the first program. The last is about 0.08 without and 0.12 with optimisation.
CEILINGS = {
    "include": (1.8, 1.8, "sinter.hpp alone"),
    "first": (2.6, 2.6, "with a first compiled lambda"),
    "further": (0.10, 0.10, "a further lambda, of that program"),
    "gradient": (0.15, 0.15, "a further one with a struct and value_and_grad"),
}


def ceiling_of(name, level):
    return CEILINGS[name][0 if level == "-O0" else 1]


def numbered(text):
    return "".join(text.replace("@N@", str(i)) for i in range(COUNT))


def program(declarations="", statements=""):
    return FIRST.replace("@DECLARATIONS@", declarations).replace("@STATEMENTS@", statements)


def standard_headers(compiler, flags):
    """Of all files of ours that sinter.hpp reaches."""
    listed = subprocess.run([compiler, *flags, "-x", "c++", "-M", "-"], input="#include <sinter/sinter.hpp>\n",
                            capture_output=True, text=True, check=True).stdout
    files = [word for word in listed.split() if "/sinter/" in word and word.endswith(".hpp")]
    found = {name for path in files for name in re.findall(r"^#include <([a-z_0-9.]+)>", pathlib.Path(path).read_text(), re.MULTILINE)}
    return sorted(found)


def seconds(compiler, flags, source):
    with subprocess.Popen([compiler, *flags, "-c", str(source), "-o", os.devnull], stderr=subprocess.PIPE) as process:
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{source} does not compile:\n{errors.decode()}")
    return usage.ru_utime + usage.ru_stime


def measure(compiler, flags, runs):
    """Seconds by program, and the figures that have ceilings."""
    sources = {
        "standard": "".join(f"#include <{name}>\n" for name in standard_headers(compiler, flags)),
        "include": "#include <sinter/sinter.hpp>\n",
        "first": program(),
        "further": program(statements=numbered(FURTHER)),
        "gradient": program(numbered(STRUCT), numbered(GRADIENT)),
    }
    times = {name: [] for name in sources}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: pathlib.Path(folder) / f"{name}.cpp" for name in sources}
        for name, text in sources.items():
            paths[name].write_text(text)
        for _ in range(runs):
            for name in sources:
                times[name].append(seconds(compiler, flags, paths[name]))
    median = {name: statistics.median(values) for name, values in times.items()}
    figures = {name: median[name] / median["standard"] for name in ("include", "first")}
    figures |= {name: (median[name] - median["first"]) / COUNT / median["first"] for name in ("further", "gradient")}
    return median, figures


def rows(median, figures, level):
    yield f"standard headers   {median['standard']:.2f} s   {level}"
    for name, (_, _, what) in CEILINGS.items():
        cost = median[name] if name in ("include", "first") else (median[name] - median["first"]) / COUNT
        yield f"{name:<9} {cost:8.2f} s   ratio {figures[name]:5.2f}   at most {ceiling_of(name, level):.2f}   {what}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--optimise", default="-O2")
    parser.add_argument("project", type=pathlib.Path)
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    flags = ["-std=c++20", options.optimise, "-DSINTER_SEPARATE_COMPILATION", f"-I{options.project / 'include'}", *options.flags]
    best = {}
    for _ in range(3 if options.check else 1):
        median, figures = measure(options.compiler, flags, options.runs)
        print("\n".join(rows(median, figures, options.optimise)), flush=True)
        best = {name: min(value, best.get(name, value)) for name, value in figures.items()}
        if all(best[name] <= ceiling_of(name, options.optimise) for name in best):
            return 0
    over = [name for name in best if best[name] > ceiling_of(name, options.optimise)]
    print(f"over the ceiling: {', '.join(over)}")
    return 1 if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
