#!/usr/bin/env python3
"""Compiles each header by itself, as declarations only and header-only; prints the first error of each that fails.

Usage: headers_alone.py FOLDER COMPILER FLAG...
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

MODES = {"separate": ["-DSINTER_SEPARATE_COMPILATION"], "header-only": []}


def first_error(compiler, flags, header, mode):
    command = [compiler, "-fsyntax-only", "-x", "c++", *flags, *MODES[mode], "-include", str(header), "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    return f"{header} ({mode}): {errors[0] if errors else result.stderr}"


def main():
    root, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    headers = sorted(root.rglob("*.hpp"))
    jobs = [(header, mode) for header in headers for mode in MODES if header.name != "src.hpp" or mode == "separate"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(filter(None, pool.map(lambda job: first_error(compiler, flags, *job), jobs)))
    print("\n".join(errors))
    print(f"{len(headers)} headers, {len(errors)} failures")
    return 1 if errors or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
