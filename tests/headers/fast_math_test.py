#!/usr/bin/env python3
"""Code of the library means the same in files that are compiled with -ffast-math or its parts. Clang from version 17 on
cannot do that for a file that has no NaN and no infinity: there the library's code is an error that says what to add.

Usage: fast_math_test.py FILE.cpp COMPILER FLAG...
"""
import shutil
import subprocess
import sys
import tempfile

WAYS = [["-O3", "-ffast-math"], ["-O2", "-ffinite-math-only"],
        ["-O2", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-freciprocal-math"],
        ["-O2", "-fno-signed-zeros"]]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def version_of_clang(compiler):
    """0 for another compiler."""
    macros = run([compiler, "-dM", "-E", "-x", "c++", "/dev/null"]).stdout.splitlines()
    return next((int(line.split()[2]) for line in macros if line.startswith("#define __clang_major__")), 0)


def main():
    file, compiler, *flags = sys.argv[1:]
    failures = 0
    for other in [compiler, *filter(shutil.which, ["clang++-16", "clang++-19"])]:
        is_newer_clang = version_of_clang(other) >= 17
        for way in WAYS:
            has_infinities = not any(flag in ("-ffast-math", "-ffinite-math-only") for flag in way)
            if is_newer_clang and not has_infinities:
                text = "#include <sinter/src_core.hpp>\n"
                said = run([other, "-std=c++20", *flags, *way, "-fsyntax-only", "-x", "c++", "-"], input=text)
                if said.returncode == 0 or "add -fno-finite-math-only after -ffast-math" not in said.stderr:
                    failures += 1
                    print(f"{other} {way}: no error that says what to add:\n{said.stderr[:2000]}")
                way = [*way, "-fno-finite-math-only"]
            with tempfile.TemporaryDirectory() as folder:
                made = run([other, "-std=c++20", "-Wall", "-Wextra", *flags, *way, file, "-o", f"{folder}/fast_math"])
                done = run([f"{folder}/fast_math"]) if made.returncode == 0 else made
            if done.returncode != 0 or made.stderr:
                failures += 1
                print(f"{other} {way}: status {done.returncode}\n{done.stdout}{made.stderr[:2000]}")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
