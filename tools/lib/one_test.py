#!/usr/bin/env python3
"""Builds one file of tests with the flags that CMake gives its neighbours, but at -O0 and with a precompiled header of its
own, links it with sinter::compiled, and runs it: seconds where the whole suite takes minutes.

Usage: one_test.py BUILD_FOLDER FILE.cpp [OPTION OF CATCH2...]
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys


def flags_of(build, neighbour):
    """The compiler and the flags of a test, without what concerns its own object file."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"].endswith(neighbour):
            words = iter(shlex.split(entry["command"]))
            compiler = next(words)
            flags = []
            for word in words:
                if word in ("-o", "-c", "-include", "-Xclang", "-include-pch"):
                    next(words)
                elif not word.startswith("-O") and word != "-Winvalid-pch":
                    flags.append(word)
            return compiler, flags
    sys.exit(f"one_test: {build} has no compile command for {neighbour}: configure it with -DSINTER_BUILD_TESTS=ON")


def newest(folder):
    return max(path.stat().st_mtime for path in folder.rglob("*") if path.suffix in (".hpp", ".ipp"))


def run(command, **options):
    if (status := subprocess.run(command, **options).returncode) != 0:
        sys.exit(status)


def main():
    build, file = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    project = pathlib.Path(__file__).resolve().parents[2]
    out = build / "one"
    out.mkdir(exist_ok=True)
    compiler, flags = flags_of(build, "tests/unit/base_test.cpp")
    _, main_flags = flags_of(build, "tests/main.cpp")
    start, header = out / "main.o", out / "test_pch.hpp"
    if not start.exists():
        run([compiler, *main_flags, "-O0", "-c", str(project / "tests/main.cpp"), "-o", str(start)])
    header.write_text('#include "catch.hpp"\n#include <sinter/sinter.hpp>\n')
    compiled_header = pathlib.Path(str(header) + (".gch" if "clang" not in compiler else ".pch"))
    if not compiled_header.exists() or compiled_header.stat().st_mtime < newest(project / "include"):
        run([compiler, *flags, "-O0", "-x", "c++-header", str(header), "-o", str(compiled_header)])
    used = ["-include", str(header)] if "clang" not in compiler else ["-include-pch", str(compiled_header)]
    program = out / file.stem
    libraries = ["-ltbb", "-lasmjit", "-lrt", "-ldl", "-lCatch2"]
    if pathlib.Path("/usr/include/catch2/catch.hpp").exists():
        libraries.remove("-lCatch2")   # Catch2 2 is headers alone
    if "SINTER_YAML:BOOL=ON" in (build / "CMakeCache.txt").read_text():
        libraries.append("-lyaml-cpp")
    if any(flag == "-DSINTER_NO_X86" for flag in flags):
        libraries.remove("-lasmjit")
    run([compiler, *flags, *used, "-O0", "-g0", str(file), str(start), str(build / "libsinter.a"), *libraries, "-pthread", "-o", str(program)])
    os.execv(program, [str(program), *sys.argv[3:]])


if __name__ == "__main__":
    main()
