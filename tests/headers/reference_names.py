#!/usr/bin/env python3
"""Checks that sinter.hpp alone declares every name that the tables of docs/reference.md begin their rows with: a program that
says `using sinter::NAME;` for each compiles. The section on graphs and plans names a header of its own, and so do some rows.

Usage: reference_names.py PROJECT_FOLDER COMPILER FLAG...
"""
import pathlib
import re
import subprocess
import sys

NAMESPACES = ("jit::", "tree::", "cuda::", "linalg::", "solvers::", "random::", "fft::")
# Rows about members of an object, and operators; fields of options are members too.
MEMBER = re.compile(r"^(?:x|f|u|v|s|d|w|loss|g)(?:\.|\(|$)|^std::|^[^A-Za-z]")
NAME = re.compile(r"^((?:jit::|tree::|cuda::|linalg::|solvers::|random::|fft::)?[A-Za-z_]\w*)(.*)$", re.DOTALL)


def names_in_span(span):
    """The names that a piece of code in a table stands for."""
    if MEMBER.match(span) or span.startswith("SINTER_"):
        return []
    if re.fullmatch(r"[a-z_0-9]+(?: [a-z_0-9]+)+", span):   # `exp log sqrt`
        return span.split()
    match = NAME.match(span)
    if not match or (match[2] and match[2][0] not in "({< :,"):
        return []
    return [match[1]]


def names_of_reference(text):
    names = {}
    section, is_member_table = "", False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("|") or section == "Graphs and plans" or "`<sinter/" in line:
            continue
        if number < len(lines) and lines[number].startswith("|---"):   # the head of a table
            head = line.split("|")[1].strip()
            is_member_table = head not in ("name", "function", "class")
            continue
        if is_member_table:
            continue
        cell = line.replace("\\|", "").split("|")[1]
        for span in re.findall(r"`([^`]+)`", cell):
            for name in names_in_span(span):
                names.setdefault(name, number)
    return names


def program(names):
    lines = ["#include <sinter/sinter.hpp>"]
    lines += [f"namespace n{number}_{index} {{\n#line {number} \"docs/reference.md\"\nusing sinter::{name};\n}}"
              for index, (name, number) in enumerate(sorted(names.items()))]
    return "\n".join(lines) + "\nint main() {}\n"


def main():
    project, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    names = names_of_reference((project / "docs" / "reference.md").read_text())
    result = subprocess.run([compiler, "-fsyntax-only", "-x", "c++", *flags, "-DSINTER_SEPARATE_COMPILATION", "-"],
                            input=program(names), capture_output=True, text=True, check=False)
    print(result.stderr)
    print(f"{len(names)} names: {' '.join(sorted(names))}")
    return 1 if result.returncode != 0 or len(names) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
