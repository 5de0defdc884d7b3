#!/usr/bin/env python3
"""Compiles a user's file with std::mdspan, warnings as errors, links it with this build and runs it: by this build's
compiler, with a small stand-in for std::mdspan where its standard library has none (before GCC 15), and by a newer GCC.
And has the newest Clang with libc++ (17 or later) read the file, which no build here links with.

Usage: mdspan_test.py FILE.cpp COMPILER FLAG... -- LIBRARY...
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
NEWER = [["g++-16"], ["g++-15"]]
READERS = [[f"clang++-{version}", "-stdlib=libc++"] for version in (21, 20, 19, 18, 17)]
STAND_IN = pathlib.Path(__file__).parent / "mdspan_stand_in"
PROBE = """#include <mdspan>
#ifndef __cpp_lib_mdspan
#error "no std::mdspan"
#endif
"""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def has_mdspan(command):
    return shutil.which(command[0]) and run([*command, "-std=c++2b", "-x", "c++", "-fsyntax-only", "-"], input=PROBE).returncode == 0


def succeeds(what, command):
    result = run(command)
    if result.returncode != 0:
        print(f"{what}: status {result.returncode}: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.returncode == 0


def main():
    file, compiler, *words = sys.argv[1:]
    flags, libraries = words[:words.index("--")], words[words.index("--") + 1:]
    flags += ["-std=c++2b", "-DSINTER_SEPARATE_COMPILATION"]
    own = [compiler] if has_mdspan([compiler]) else [compiler, "-isystem", str(STAND_IN)]
    builders = [own] + [command for command in NEWER if compiler not in command and has_mdspan(command)][:1]
    passed = []
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder) / "program")
        for command in builders:
            name = " ".join(command)
            passed.append(succeeds(name, [*command, *flags, *STRICT, "-O0", file, *libraries, "-o", program]) and
                          succeeds(name, [program]))
    for command in [command for command in READERS if has_mdspan(command)][:1]:
        passed.append(succeeds(" ".join(command), [*command, *flags, *STRICT, "-fsyntax-only", file]))
    print(f"{len(passed)} compilers, {passed.count(False)} failures")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
