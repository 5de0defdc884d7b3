#!/usr/bin/env python3
"""Follows docs/howto/add_a_dtype.md: applies its diff of two files to a copy of the include folder and has the compiler read
a program that uses the new dtype, with all warnings as errors; without one part of the diff PROBE does not compile. Or
builds that program with the parts of the library that meet its dtype, and runs it for two instruction sets; the other
parts, which the linker wants, are those of LIBRARY. That takes minutes of processor time.

Usage: toy_dtype_test.py read|run PROJECT PROGRAM.cpp COMPILER FLAG... -- LIBRARY...
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror"]
PARTS = ["core", "ops", "expr", "jit", "kernel", "passes", "reference", "runtime", "io"]
PROBE = """#include <sinter/tensor/dtype.hpp>
using namespace sinter;
static_assert(dtype_of<float16_e6m9>() == DType::f16e6m9);
std::size_t size_of_element(DType dtype) { return visit_dtype(dtype, [](auto x) { return sizeof x; }); }
"""


def hunks_of(page):
    """(file, lines before, lines after) of each hunk of the page's diff."""
    diff = re.search(r"```diff\n(.*?)```", page.read_text(), re.S).group(1)
    found, file = [], None
    for line in diff.splitlines():
        if line.startswith("--- "):
            file = line[4:]
        elif line.startswith("@@"):
            found.append((file, [], []))
        elif found:
            kind, rest = line[:1] or " ", line[1:]
            if kind not in " +-":
                sys.exit(f"neither context nor a change: {line}")
            before, after = found[-1][1:]
            if kind != "+":
                before.append(rest)
            if kind != "-":
                after.append(rest)
    return found


def apply(hunks, folder):
    for file, before, after in hunks:
        path, old = folder / file, "\n".join(before) + "\n"
        text = path.read_text()
        if text.count(old) != 1:
            sys.exit(f"{file} has {text.count(old)} times\n{old}")
        path.write_text(text.replace(old, "\n".join(after) + "\n"))


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def copy_of(project, folder, hunks):
    shutil.copytree(project / "include", folder / "include")
    apply(hunks, folder)
    return ["-I" + str(folder / "include")]


def build(root, project, program, compile_command, libraries):
    """The program and the parts of the library, side by side, as root / "program"."""
    parts = PARTS + ([] if "-DSINTER_NO_X86" in compile_command else ["x86"])
    sources = [program] + [project / f"cmake/compiled/{part}.cpp" for part in parts]
    objects = [str(root / f"{source.stem}.o") for source in sources]

    def compiled(number):
        flags = ["-DSINTER_SEPARATE_COMPILATION", "-c", str(sources[number]), "-o", objects[number]]
        return run([*compile_command, *flags])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(compiled, range(len(sources))):
            if result.returncode != 0:
                sys.exit(result.stdout + result.stderr)
    linked = run([compile_command[0], "-pthread", *objects, *libraries, "-o", str(root / "program")])
    if linked.returncode != 0:
        sys.exit(linked.stdout + linked.stderr)


def main():
    action, project, program, compiler, *words = sys.argv[1:]
    project = pathlib.Path(project)
    flags, libraries = words[:words.index("--")], words[words.index("--") + 1:]
    hunks = hunks_of(project / "docs/howto/add_a_dtype.md")
    files = {file for file, _, _ in hunks}
    if len(files) != 2:
        sys.exit(f"the howto touches {sorted(files)}: two files are promised")
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        needed = [hunk for hunk in range(len(hunks)) if hunks[hunk][0].endswith("dtype.hpp")]
        for left_out in needed if action == "read" else []:
            include = copy_of(project, root / f"without{left_out}", hunks[:left_out] + hunks[left_out + 1:])
            if run([compiler, *STRICT, *include, *flags, "-fsyntax-only", "-x", "c++", "-"], input=PROBE).returncode == 0:
                sys.exit(f"compiles without hunk {left_out} of the howto's diff")
        include = copy_of(project, root / "whole", hunks)
        if action == "read":
            known = run([compiler, *STRICT, *include, *flags, "-DSINTER_SEPARATE_COMPILATION", "-fsyntax-only", program])
            if known.returncode != 0:
                sys.exit(known.stderr)
            return
        build(root, project, pathlib.Path(program), [compiler, "-std=c++20", "-O0", *include, *flags], libraries)
        environment = {name: value for name, value in os.environ.items() if name != "SINTER_ISA"}
        for isa in [{}, {"SINTER_ISA": "avx2"}]:
            result = run([str(root / "program"), str(root / "saved.safetensors")], env={**environment, **isa})
            if result.returncode != 0:
                sys.exit(f"{isa}: status {result.returncode}\n{result.stdout}{result.stderr}")
    print(f"{len(hunks)} hunks in {len(files)} files: a dtype")


if __name__ == "__main__":
    main()
