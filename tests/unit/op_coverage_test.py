#!/usr/bin/env python3
"""Checks docs/op_coverage.md: the code of its tables compiles, names of the list are declared, and the counts are those
of the rows.

Usage: op_coverage_test.py PROJECT_FOLDER COMPILER FLAG...
"""
import pathlib
import re
import subprocess
import sys

HEAD = """#include <sinter/sinter.hpp>
#include <cmath>
#include <optional>
#include <vector>
using namespace sinter;
void every_line(Tensor x, Tensor y, Tensor z, Tensor a, Tensor v, Tensor w, Tensor u, Tensor i, Tensor mask,
                Tensor image, Tensor grid, Tensor kernel, Tensor columns, Tensor lines, Tensor taps, Tensor q, Tensor k,
                Shape shape, Scalar s, std::vector<Tensor> parts) {
"""
# Where the names of PyTorch's list are declared that are in a namespace.
NAMESPACES = {"linalg": "linalg::", "signal": "window::", "fft": "fft::"}
IN_LINALG = {"cholesky_inverse", "cholesky_solve", "lu", "lu_solve", "matrix_exp", "svd"}   # not in PyTorch


def code_of(row):
    """The statements of a table's second cell."""
    cells = re.split(r"(?<!\\)\|", row)
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", cells[2])] if len(cells) > 4 else []


def names_of(row):
    return row.split("|")[1].split()


def tables_of(section):
    """The rows of each table but its head."""
    tables, lines = [], section.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("|---"):
            rows = []
            while number + 1 < len(lines) and lines[number + 1].startswith("|"):
                number += 1
                rows.append(lines[number])
            tables.append(rows)
    return tables


def declaration(name):
    """A use of what PyTorch calls so."""
    parts = name.split(".")
    scope = "linalg::" if name in IN_LINALG else NAMESPACES.get(parts[0], "") if len(parts) > 1 else ""
    return f"using sinter::{scope}{parts[-1]};"


def main():
    project, compiler, *flags = sys.argv[1:]
    text = (pathlib.Path(project) / "docs" / "op_coverage.md").read_text()
    summary, torch, onnx = re.split(r"^## (?:PyTorch|ONNX)$", text, flags=re.MULTILINE)
    same = re.search(r"```text\n(.*?)```", torch, re.DOTALL)[1].split()
    problems = []

    def check_counts(row, counts, names):
        wanted = [int(cell) for cell in row.split("|")[2:-1] if cell.strip()]
        if wanted != [sum(counts), *counts]:
            problems.append(f"{row}: the tables have {[sum(counts), *counts]}")
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            problems.append(f"named twice: {' '.join(sorted(twice))}")

    count = lambda rows: sum(len(names_of(row)) for row in rows)
    totals = tables_of(summary)[0]
    rows_of_torch, rows_of_onnx = tables_of(torch), tables_of(onnx)
    all_names = lambda tables: [name for rows in tables for row in rows for name in names_of(row)]
    check_counts(totals[0], [len(same), *map(count, rows_of_torch)], same + all_names(rows_of_torch))
    check_counts(totals[1], list(map(count, rows_of_onnx)), all_names(rows_of_onnx))

    statements = [code for rows in rows_of_torch + rows_of_onnx for row in rows for code in code_of(row)]
    declared = sorted({declaration(name) for name in same})
    body = [f"  {{ {code}; }}\n" for code in statements] + [f"  {{ {use} }}\n" for use in declared]
    program = HEAD + "".join(body) + "}\n"
    result = subprocess.run([compiler, *flags, "-w", "-fsyntax-only", "-x", "c++", "-"],
                            input=program, capture_output=True, text=True)
    lines = program.splitlines()
    for number in sorted({int(n) for n in re.findall(r"^<stdin>:(\d+):\d+: error", result.stderr, re.MULTILINE)}):
        problems.append(f"does not compile: {lines[number - 1].strip()}")
    if result.returncode != 0 and not problems:
        problems.append(result.stderr[:2000])
    print("\n".join(problems))
    print(f"{len(statements)} lines of code, {len(declared)} names, {len(problems)} problems")
    sys.exit(1 if problems or len(statements) < 150 or len(declared) < 300 else 0)


main()
