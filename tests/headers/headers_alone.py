#!/usr/bin/env python3
"""Compiles each header by itself, as declarations; prints the first error of each that fails. The definitions (src*.hpp)
need all of them, so they compile header-only: those that sinter.hpp brings, and those that headers of parts bring.

Usage: headers_alone.py FOLDER COMPILER FLAG...
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

SEPARATE = "-DSINTER_SEPARATE_COMPILATION"


PARTS = ["dist.hpp", "export_cpp.hpp", "onnx.hpp"]   # with definitions of their own, header-only


def first_error(compiler, flags, *headers):
    included = [word for header in headers for word in ("-include", str(header))]
    command = [compiler, "-fsyntax-only", "-x", "c++", *flags, *included, "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    return f"{', '.join(map(str, headers))}: {errors[0] if errors else result.stderr}"


def main():
    root, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    headers = sorted(root.rglob("*.hpp"))
    jobs = [([*flags, SEPARATE], header) for header in headers if not header.name.startswith("src")]
    jobs += [(flags, root / "sinter.hpp"), (flags, *(root / name for name in PARTS))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(filter(None, pool.map(lambda job: first_error(compiler, *job), jobs)))
    print("\n".join(errors))
    print(f"{len(headers)} headers, {len(errors)} failures")
    return 1 if errors or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
