#!/usr/bin/env python3
"""Follows README.md as a new user would: takes its first C++ program and its first CMake block, and builds and runs them
against the installed package.

Usage: readme_test.py README PREFIX BUILD_FOLDER CXX_COMPILER CMAKE GENERATOR

The CMake block may leave out cmake_minimum_required and project, which every project has already.
"""
import pathlib
import re
import shutil
import subprocess
import sys


def first_block(text, language):
    match = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if not match:
        raise SystemExit(f"README.md holds no ```{language} block")
    return match[1]


def main():
    readme, prefix, folder = (pathlib.Path(argument) for argument in sys.argv[1:4])
    compiler, cmake, generator = sys.argv[4:7]
    text = readme.read_text()
    lists = first_block(text, "cmake")
    source = re.search(r"add_executable\(\s*(\w+)\s+([\w.]+)", lists)
    if not source:
        raise SystemExit("the CMake block of README.md has no add_executable(name file.cpp)")
    if "project(" not in lists:
        lists = "project(readme LANGUAGES CXX)\n" + lists
    if "cmake_minimum_required" not in lists:
        lists = "cmake_minimum_required(VERSION 3.22)\n" + lists

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(lists)
    (folder / source[2]).write_text(first_block(text, "cpp"))
    for command in (
            [cmake, "-S", folder, "-B", folder / "build", "-G", generator, f"-DCMAKE_CXX_COMPILER={compiler}",
             f"-DCMAKE_PREFIX_PATH={prefix}"],
            [cmake, "--build", folder / "build"],
            [folder / "build" / source[1]]):
        result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(result.stdout)
        if result.returncode != 0:
            print(f"status {result.returncode}: {' '.join(map(str, command))}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
