#!/usr/bin/env python3
"""Links object files of one program that were compiled fully inline with some that were compiled separately: it must fail,
and the linker's message must name the reason.

Usage: mixing_test.py COMPILER INLINE_OBJECT... -- SEPARATE_OBJECT... -- LIBRARY...
"""
import pathlib
import subprocess
import sys
import tempfile


def objects_of(words):
    """Object files by the stem of their sources; CMake may give the list as one argument."""
    files = [pathlib.Path(file) for word in words for file in word.split(";")]
    return {file.name.split(".")[0]: str(file) for file in files}


def fails_with(compiler, objects, libraries, expected):
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([compiler, *objects, *libraries, "-pthread", "-o", f"{folder}/program"], capture_output=True,
                                text=True, check=False)
    if result.returncode != 0 and expected in result.stderr:
        return True
    print(f"{objects}: status {result.returncode}, expected '{expected}' in:\n{result.stderr}")
    return False


def main():
    compiler, *words = sys.argv[1:]
    first, second = [i for i, word in enumerate(words) if word == "--"]
    inline, separate = objects_of(words[:first]), objects_of(words[first + 1:second])
    libraries = words[second + 1:]
    parts = [separate[name] for name in ("core", "kernel", "backends", "jit")]
    passed = [
        # A type of Sinter in what the files share: the name that is missing says how each side was compiled.
        fails_with(compiler, [separate["first"], *parts], libraries, "_sep::Tensor const&)"),
        fails_with(compiler, [inline["first"]], libraries, "_inl::Tensor const&)"),
        # Nothing is shared.
        fails_with(compiler, [inline["first"], inline["second"], *parts], libraries, "SINTER_SEPARATE_COMPILATION"),
        fails_with(compiler, [separate["first"], *parts, inline["second"]], libraries, "SINTER_SEPARATE_COMPILATION"),
    ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
