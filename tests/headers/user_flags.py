#!/usr/bin/env python3
"""Compiles a user's file with warnings as errors and without RTTI, by the compiler of this build and by Clang where it is
installed; links it and runs it; and checks what compiling without exceptions, and as C++17, says.

Usage: user_flags.py separate|inline FILE.cpp COMPILER FLAG... -- LIBRARY...
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
OTHER_COMPILERS = ["g++", "clang++-16", "clang++-19"]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def succeeds(what, command):
    result = run(command)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line or "warning" in line]
        print(f"{what}: status {result.returncode}: {' '.join(command)}\n" + "\n".join(lines or [result.stdout, result.stderr]))
    return result.returncode == 0


def others(compiler):
    """The compilers that are installed beside this one: each has warnings of its own."""
    own = pathlib.Path(shutil.which(compiler) or compiler).resolve()
    return [name for name in OTHER_COMPILERS if shutil.which(name) and pathlib.Path(shutil.which(name)).resolve() != own]


def standard_23(compiler):
    """Clang 16 has the name of the draft only."""
    known = run([compiler, "-std=c++23", "-x", "c++", "-fsyntax-only", "/dev/null"]).returncode == 0
    return "-std=c++23" if known else "-std=c++2b"


def says_why(compiler, flags, file, expected):
    """The first error is the one that says what to do, and no others bury it."""
    result = run([compiler, *flags, "-fsyntax-only", file])
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    if result.returncode != 0 and expected in errors[0] and len(errors) == 2:
        return True
    print(f"with {' '.join(flags)}, {compiler} says:\n{result.stderr[:5000]}")
    return False


def main():
    mode, file, compiler, *words = sys.argv[1:]
    flags, libraries = words[:words.index("--")], words[words.index("--") + 1:]
    if mode == "inline":
        compilers = [compiler, *others(compiler)]
        passed = [succeeds("header-only", [name, "-std=c++20", *flags, *STRICT, "-fno-rtti", "-fsyntax-only", file]) for name in compilers]
        return 0 if all(passed) else 1

    flags.append("-DSINTER_SEPARATE_COMPILATION")
    passed = [succeeds("C++20", [compiler, "-std=c++20", *flags, *STRICT, "-fsyntax-only", file])]
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder) / "program")
        passed.append(succeeds("C++23 without RTTI", [compiler, standard_23(compiler), *flags, *STRICT, "-fno-rtti", "-O0",
                                                      file, *libraries, "-o", program]) and succeeds("run", [program]))
    for name in [compiler, *others(compiler)]:
        passed.append(says_why(name, ["-std=c++20", *flags, "-fno-exceptions"], file, "compile without -fno-exceptions"))
        passed.append(says_why(name, ["-std=c++17", *flags], file, "compile with -std=c++20"))
    for other in others(compiler):
        passed.append(succeeds(other, [other, standard_23(other), *flags, *STRICT, "-fno-rtti", "-fsyntax-only", file]))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
