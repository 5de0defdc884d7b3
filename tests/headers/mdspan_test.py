#!/usr/bin/env python3
"""Compiles a user's file with std::mdspan, warnings as errors, by each compiler here whose standard library has it; and
links and runs it where that is the library that this build has. Skipped where no compiler has it (GCC 15, libc++ 17).

Usage: mdspan_test.py FILE.cpp COMPILER FLAG... -- LIBRARY...
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
OTHERS = [["g++-15"], ["g++-16"]] + [[f"clang++-{version}", "-stdlib=libc++"] for version in (17, 18, 19, 20, 21)]
PROBE = """#include <mdspan>
#ifndef __cpp_lib_mdspan
#error "no std::mdspan"
#endif
"""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def has_mdspan(command):
    return shutil.which(command[0]) and run([*command, "-std=c++23", "-x", "c++", "-fsyntax-only", "-"], input=PROBE).returncode == 0


def succeeds(what, command):
    result = run(command)
    if result.returncode != 0:
        print(f"{what}: status {result.returncode}: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.returncode == 0


def main():
    file, compiler, *words = sys.argv[1:]
    flags, libraries = words[:words.index("--")], words[words.index("--") + 1:]
    flags += ["-std=c++23", "-DSINTER_SEPARATE_COMPILATION"]
    found = [command for command in ([compiler], *OTHERS) if has_mdspan(command)]
    if not found:
        print("SINTER_SKIPPED: no compiler here has std::mdspan: `apt-get install clang-19 libc++-19-dev` to have it tested")
    passed = []
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder) / "program")
        for command in found:
            name = " ".join(command)
            passed.append(succeeds(name, [*command, *flags, *STRICT, "-fsyntax-only", file]))
            if passed[-1] and "-stdlib=libc++" not in command:
                passed.append(succeeds(name, [*command, *flags, "-O0", file, *libraries, "-o", program]) and succeeds(name, [program]))
    print(f"compiled by {len(found)}, {passed.count(False)} failures")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
