#!/usr/bin/env python3
"""Checks docs/coming_from.md: what the tables say to write in Sinter compiles.

Usage: coming_from_test.py PROJECT_FOLDER COMPILER FLAG...

Of each row the cell under `Sinter` is taken. Code there is a statement, an expression, a name, a namespace, options
(`.backend = "eager"`), or an environment variable, which is not looked at. A name alone is of the namespace of the cell's
first code, or of sinter.
"""
import pathlib
import re
import subprocess
import sys

HEAD = """#include <sinter/sinter.hpp>
#include <sinter/dist.hpp>
#include <sinter/dlpack.hpp>
#include <sinter/regions.hpp>
#include <Eigen/Dense>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>
using namespace sinter;
struct Model { Variable w, b; };
struct Layer { Tensor w, b; };
"""
# What the code of a section speaks of.
TENSORS = "".join(f"Tensor {name}, " for name in "a b c i j k m mask q r s t v w x y".split()) + "Dim n"
SECTIONS = {
    "torch.compile": f"{TENSORS}, Tensor err, int g, double tol, double rate, Shape shape, Model model",
    "torch.compile's configuration, logs and tools": f"{TENSORS}, int g, Model model",
    "Where PyTorch's own tests go and this library does not": f"{TENSORS}, Tensor z",
    "Accelerate's compilation settings": f"{TENSORS}, Model model",
    "NumPy": f"{TENSORS}, Tensor out, int h, std::vector<float> elements, Shape shape",
    "JAX": f"{TENSORS}, Tensor out, random::Key key, Shape shape, Tensor x0, Tensor y0, Tensor ts",
    "SciPy": f"{TENSORS}, Tensor x0, Tensor y0, Tensor times",
    "MLX": TENSORS,
    "Eigen": f"{TENSORS}, float* ptr, Shape shape, std::shared_ptr<void> owner, DType dtype",
    "libtorch, xtensor, Armadillo and NumCpp": f"{TENSORS}, float* ptr, Model model",
    "torch.linalg, numpy.linalg and Eigen's decompositions": TENSORS,
}
# Declarations in front of code that the pattern is found in, in the place of those.
ONE, TWO = "auto f = [](Tensor p) { return p * 2; };", "auto f = [](Tensor p, Tensor o) { return sum(p * o); };"
INSTEAD = [
    (r"^f[.(]", "auto f = jit::compile([](Tensor p) { return p * 2; });"),
    (r"^f\(m\)|borrow\(m\)|into\(m\)|copy_of\(m\)", "Eigen::MatrixXf m;"),
    (r"MatrixXcf", "using Eigen::MatrixXcf; Tensor z;"),
    (r"grad(<.*>)?\(f", TWO), (r"no_axis", "auto f = [](Tensor p, Layer o) { return p * o.w + o.b; };"),
    (r"(compile|vmap|allow_in_graph)\(f\)|disable\(f[,)]|(aot_function|profile)\(f,", ONE), (r"\(fn\)", ONE.replace("f", "fn", 1)),
    (r"(root|bisect|least_squares|quad)\(f", ONE), (r"minimize\(f", "auto f = [](Tensor p) { return sum(p * p); };"),
    (r"odeint\(f", "auto f = [](Tensor t, Tensor p) { return p * t; };"),
    (r"aot_function", "jit::BackendFunction compiler;"),
    (r"register_backend", "auto fn = [](const Graph& graph, auto&&...) { return jit::compile_graph(graph); };"),
    (r"from_dlpack", "dlpack::ManagedTensorVersioned* managed = nullptr;"),
    (r"^loss", "Tensor loss;"), (r"^w[.]", "Variable w;"), (r"register_hook", "auto f = [](Tensor p) { return p; };"),
    (r"scale = s", "double s = 1;"), (r"topk\(a, k\)", "Dim k;"), (r"fill = v", "Scalar v = 1;"),
]


def spans_of(cell):
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", cell)]


def tables_of(text):
    """For each row of each table its section and the cell under Sinter."""
    section, column = "", None
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if not line.startswith("|"):
            column = None
        elif "Sinter" in cells:
            column = cells.index("Sinter")
        elif column is not None and not line.startswith("|---"):
            yield section, cells[column]


def statement_of(span, scope):
    if re.fullmatch(r"(int|bool)", span):
        return f"(void){span}();"
    if re.fullmatch(r"linalg|jit::", span):
        return f"using namespace sinter::{span.rstrip(':')};"
    if re.fullmatch(r"std::\w+|[A-Z]\w+", span):
        return f"using {span if '::' in span else 'sinter::' + span};"
    if re.fullmatch(r"[a-z_]\w*(::\w+)*", span):
        return f"using sinter::{'' if '::' in span else scope}{span};"
    if re.fullmatch(r"\.\w+", span):
        return f"(void)sizeof(jit::Options::{span[1:]});"
    if span.startswith("."):
        return f"(void)jit::Options{{{span}}};"
    return f"{span.rstrip(';')};"


def statements_of(text):
    for section, cell in tables_of(text):
        spans = spans_of(cell)
        scope = re.match(r"(\w+::)?", spans[0])[0] if spans else ""
        for span in spans:
            if not re.match(r"SINTER_\w+=", span):
                yield section, statement_of(span, scope)


def program_of(statements):
    lines = []
    for number, (section, statement) in enumerate(statements):
        known = "".join(declarations + " " for pattern, declarations in INSTEAD if re.search(pattern, statement))
        lines.append(f"void line_{number}({SECTIONS[section]}) {{ {{ {known}{statement} }} }}")
    return HEAD + "\n".join(lines) + "\n"


def main():
    project, compiler, *flags = sys.argv[1:]
    text = (pathlib.Path(project) / "docs" / "coming_from.md").read_text()
    statements = list(statements_of(text))
    program = program_of(statements)
    result = subprocess.run([compiler, *flags, "-w", "-fsyntax-only", "-x", "c++", "-"],
                            input=program, capture_output=True, text=True)
    lines = program.splitlines()
    problems = [f"does not compile: {lines[number - 1].split('{ {', 1)[1][:-4].strip()}" for number in
                sorted({int(n) for n in re.findall(r"^<stdin>:(\d+):\d+: error", result.stderr, re.MULTILINE)})]
    if result.returncode != 0 and not problems:
        problems.append(result.stderr[:2000])
    print("\n".join(problems))
    print(f"{len(statements)} pieces of code, {len(problems)} problems")
    sys.exit(1 if problems or len(statements) < 200 else 0)


main()
