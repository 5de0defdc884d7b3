#!/usr/bin/env python3
"""Reads include/sinter and names what does not stand where the order of layers and files wants it: #include lines that
point upwards or from one back end to another, .ipp files without a header beside them, functions marked SINTER_DECL
that nothing declares, those that are defined in another layer than the one that declares them, unless listed, and
calls of standard algorithms that newer compilers warn of in users' files.

Usage: layering_test.py PROJECT_FOLDER
"""
import collections
import pathlib
import re
import sys

# Lowest first; a layer may include what stands in its own row or before it. Back ends alone never include each other.
LAYERS = [
    ["base"], ["tensor"], ["graph"], ["ops"], ["expr"], ["autodiff", "passes"], ["kernel"], ["runtime"],
    ["backend/reference", "backend/x86", "backend/cuda"], ["jit"], ["solvers", "nn", "optim", "io", "dist"],
]
RANK = {layer: rank for rank, row in enumerate(LAYERS) for layer in row}

# (includer, included): reason. An .ipp may include upwards only if it stands here.
ALLOWED: dict[tuple[str, str], str] = {}

# What a lower layer declares and an upper one defines: (declared in, defined in): names. A name of several overloads is
# listed where none of them is declared in the layer that defines it.
DEFINED_ABOVE = {
    # Tensors have handles below, and record, evaluate and differentiate above.
    ("tensor", "expr"): """
        Tensor::Tensor Tensor::at Tensor::zero
        Tensor::operator+= Tensor::operator-= Tensor::operator*= Tensor::operator/=
        SlotRef::SlotRef SlotRef::operator=
        SlotRef::operator+= SlotRef::operator-= SlotRef::operator*= SlotRef::operator/=
        SlotRef::maximum SlotRef::minimum SlotRef::now SlotRef::become
        Variable::Variable Variable::set Variable::value Variable::at VariableSlot::of_this_thread
        Variable::operator+= Variable::operator-= Variable::operator*= Variable::operator/=
        In::In In::tensor Index::Index
        Scalar::number Scalar::of_dim tensor_detail::read_floating tensor_detail::read_integer
        Predicate::operator_bool operator! operator& operator| tensor_detail::compare tensor_detail::complex_number""",
    ("ops tensor", "expr"): "operator+ operator- operator* operator/",   # of Scalars; ops has those of Vals
    # Users see figures of the code cache; what files it has is the runtime's business.
    ("base", "runtime"): "code_cache_stats write_code_cache",
    ("tensor", "autodiff"): "Variable::grad Variable::requires_grad Variable::zero_grad release_tape_leaf",
    ("tensor", "graph"): "retain_pending_node release_pending_node",   # which a value holds
    ("tensor", "jit"): "find_device_memory",               # the table of back ends is the uppermost
    # What recording calls: the table of ops, host operations, the tape.
    ("graph", "ops"): "find_op graph_detail::input_op graph_detail::constant_op graph_detail::reshape_op",
    ("graph", "expr"): "run_host_op record_complex",
    ("graph", "autodiff"): "tape_leaf put_on_tape",
    # Evaluation compiles.
    ("graph", "jit"): "evaluation_mutex",
    ("runtime", "jit"): "log_instruction",                 # scopes are the jit layer's
    ("graph passes", "jit"): "evaluate",   # of values; passes have one of literals
}

# Folders whose .ipp files do not all have headers yet: the checks of headers and definitions leave them out.
WITHOUT_HEADER = ["kernel/", "backend/x86/nest/"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(sinter/[^>]+)>)')


def layer_of(path):
    """The layer of a path relative to include/sinter; None for the umbrella headers at the top."""
    folders = path.split("/")[:-1]
    if not folders:
        return None
    return "/".join(folders[:2]) if folders[0] == "backend" and len(folders) > 1 else folders[0]


def included_path(root, includer, text):
    """What an #include means, relative to include/sinter; None if it is no header of Sinter."""
    if text.startswith("sinter/"):
        return text[len("sinter/"):]
    beside = (root / includer).parent / text
    for candidate in (beside, root / text):
        if candidate.exists():
            return candidate.resolve().relative_to(root.resolve()).as_posix()
    return None


def complaint(includer, included):
    """Why this edge is wrong, or None."""
    source, target = layer_of(includer), layer_of(included)
    if source is None or (includer, included) in ALLOWED:
        return None
    if target is None:
        return "nothing inside a layer includes an umbrella header"
    for layer in (source, target):
        if layer not in RANK:
            return f"'{layer}' is not a layer"
    if RANK[target] > RANK[source]:
        return f"{source} stands below {target}"
    if source != target and source.startswith("backend/") and target.startswith("backend/"):
        return "back ends never include each other"
    return None


def wrong_edges(root):
    edges, files = [], 0
    for path in sorted(p for suffix in ("hpp", "ipp") for p in root.rglob("*." + suffix)):
        files += 1
        includer = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            included = match and included_path(root, includer, match[1] or match[2])
            if not included:
                if match and match[1]:
                    edges.append(f"{includer}:{number}: includes \"{match[1]}\", which does not exist")
                continue
            reason = complaint(includer, included)
            if reason:
                edges.append(f"{includer}:{number}: includes {included}: {reason}")
    return edges, files


def without_header(texts):
    """Of files by path: .ipp files that have no .hpp beside them, or do not include it."""
    for path in sorted(path for path in texts if path.endswith(".ipp")):
        header = path[:-len("ipp")] + "hpp"
        if header not in texts:
            yield f"{path} has no header beside it that declares what it defines"
        elif f"#include <sinter/{header}>" not in texts[path]:
            yield f"{path} does not include {header}"


# libstdc++ gives these a temporary buffer, by a function that C++17 deprecated: Clang 19 warns of it in users' files.
WARNED_OF = re.compile(r"\b(?:stable_sort|stable_partition|inplace_merge|get_temporary_buffer)\s*\(")


def warned_of(texts):
    """Of files by path: lines that call an algorithm with a temporary buffer."""
    for path in sorted(texts):
        for number, line in enumerate(texts[path].splitlines(), 1):
            call = WARNED_OF.search(NOISE.sub(" ", line))
            if call:
                yield f"{path}:{number}: {call[0]}...): Clang warns of its temporary buffer; see base/sort_few.hpp"


# ---- declarations and definitions

# Comments, texts, characters and lines of the preprocessor.
NOISE = re.compile(r"//[^\n]*|/\*.*?\*/"
                   r'|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                   r"|'(?:\\.|[^'\\\n])+'"
                   r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"SINTER_NAMESPACE_BEGIN|SINTER_NAMESPACE_END|[(){};]")
NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)$")
CLASS = re.compile(r"^(?!enum|friend)(?:template\b.*\s)?(?:class|struct|union)\s+(?:\[\[\w+\]\]\s*|alignas\(\w+\)\s*)*"
                   r"(\w+)(?:\s+final)?\s*(?::.*)?$", re.DOTALL)
FUNCTION = re.compile(r"((?:\w+::)*(?:operator\s*(?:\(\s*\)|[^\w\s(]+|[\w:]+)|~?\w+))\s*\(")
ACCESS = re.compile(r"^(?:(?:public|private|protected)\s*:\s*)+")
NO_FUNCTION = re.compile(r"SINTER_[A-Z_]+|alignas|requires|decltype|noexcept|static_assert")


def functions(text):
    """(qualified name, whether it is marked SINTER_DECL) of every function that namespaces and classes have."""
    text = NOISE.sub(" ", text)
    scopes, begin, depth = [], 0, 0
    for mark in MARK.finditer(text):
        if mark[0] in "()":
            depth += 1 if mark[0] == "(" else -1
        if mark[0] in "()" or depth > 0:
            continue
        statement, begin = ACCESS.sub("", text[begin:mark.start()].strip()), mark.end()
        if mark[0] == "}" and scopes:
            scopes.pop()
        if mark[0] not in "{;":
            continue
        scope = NAMESPACE.search(statement) or CLASS.match(statement) if mark[0] == "{" else None
        if scope:
            scopes.append((scope[1], statement.find("namespace") < 0))
            continue
        names = [m[1] for m in FUNCTION.finditer(statement) if not NO_FUNCTION.fullmatch(m[1])]
        if names and None not in [name for name, _ in scopes]:
            outer = [name for name, is_class in scopes if not (is_class and statement.startswith("friend"))]
            yield "::".join([*outer, re.sub(r"\s+", "_", names[0])]), "SINTER_DECL" in statement
        if mark[0] == "{":
            scopes.append((None, False))   # a body, whose inside is nobody's business


def wrong_definitions(texts, listed):
    """Of files by path: definitions that nothing declares, and those in other layers than their declarations, unless
    listed; also what is listed in vain."""
    declared, defined = collections.defaultdict(set), collections.defaultdict(set)
    for path, text in texts.items():
        for name, is_definition in functions(text):
            (defined if is_definition else declared)[name].add(path)
    allowed = {(name, *layers) for layers, names in listed.items() for name in names.split()}
    faults, found = [], set()
    for name, paths in sorted(defined.items()):
        below = {layer_of(path) for path in declared[name]}
        for path in sorted(paths):
            if not below:
                faults.append(f"{path}: {name} is declared nowhere: mark it inline, or declare it in the header")
            elif layer_of(path) not in below:
                found.add((name, " ".join(sorted(below)), layer_of(path)))
    faults += [f"{name} is declared in {below} and defined in {layer}: declare it there, or list it in DEFINED_ABOVE"
               for name, below, layer in sorted(found - allowed)]
    faults += [f"DEFINED_ABOVE lists {name} as declared in {below} and defined in {layer}, which it is not"
               for name, below, layer in sorted(allowed - found)]
    return faults


def self_test():
    test_edges()
    test_headers()
    test_definitions()
    code = {"a/x.ipp": "// std::stable_sort(x)\nf();\n  std::stable_partition(a, b, c);\n"}
    assert [line.split(": ")[0] for line in warned_of(code)] == ["a/x.ipp:3"]


def test_headers():
    beside = {"a/x.hpp": "", "a/x.ipp": "#include <sinter/a/x.hpp>\n", "b/y.hpp": ""}
    assert list(without_header(beside)) == []
    assert list(without_header({**beside, "a/y.ipp": ""})) == [
        "a/y.ipp has no header beside it that declares what it defines"]
    assert list(without_header({**beside, "b/y.ipp": "#include <sinter/a/x.hpp>\n"})) == [
        "b/y.ipp does not include b/y.hpp"]


def test_definitions():
    header = """
        namespace a_detail {
        void helper(int count = f({}));
        }  // namespace a_detail
        template <class T> class Box final : public Base<T> {
         public:
          Box() : value_{1} { call(); }
          SINTER_MACRO(<, less)
          explicit operator bool() const;
          friend Box operator+(const Box& a, const Box& b);
          [[nodiscard]] int at(int i) &;   // not at_end(
          struct Part { void name(); };
        };
        class [[nodiscard]] Guard { Guard(); };
        """
    names = "a_detail::helper Box::Box Box::operator_bool operator+ Box::at Box::Part::name Guard::Guard"
    assert list(functions(header)) == [(name, False) for name in names.split()]
    source = """
        #define SINTER_MAKE(x) SINTER_DECL void x()
        SINTER_DECL std::vector<Box::Part>
        Box::at(int i) & { return g(i, '{', "}"); }
        namespace a_detail { SINTER_DECL void helper(int count) {} }
        inline void own() {}
        SINTER_DECL Guard::Guard() = default;
        """
    assert list(functions(source)) == [
        ("Box::at", True), ("a_detail::helper", True), ("own", False), ("Guard::Guard", True)]
    texts = {"tensor/box.hpp": header, "expr/box.ipp": source}
    names = {("tensor", "expr"): "Box::at a_detail::helper Guard::Guard"}
    assert wrong_definitions(texts, names) == []
    assert len(wrong_definitions(texts, {("tensor", "expr"): "Box::at Guard::Guard"})) == 1
    assert len(wrong_definitions(texts, {**names, ("tensor", "graph"): "Box::at"})) == 1
    assert len(wrong_definitions({"tensor/box.hpp": header, "tensor/box.ipp": source}, {})) == 0
    assert wrong_definitions({"a/b.ipp": "SINTER_DECL void f() {}"}, {})[0].startswith("a/b.ipp: f is declared nowhere")


def test_edges():
    assert complaint("graph/graph.hpp", "jit/call/guards.hpp") == "graph stands below jit"
    assert complaint("backend/x86/emit.ipp", "backend/reference/run.hpp") == "back ends never include each other"
    assert complaint("runtime/plan.hpp", "backend/x86/emit.hpp") == "runtime stands below backend/x86"
    assert complaint("passes/pipeline.hpp", "autodiff/grad.hpp") is None
    assert complaint("base/error.hpp", "sinter.hpp")
    assert complaint("jit/backends.ipp", "backend/x86/backend.hpp") is None
    assert complaint("tensor/shape.hpp", "base/hash.hpp") is None
    assert complaint("sinter.hpp", "jit/compile.hpp") is None


def main():
    self_test()
    root = pathlib.Path(sys.argv[1]) / "include" / "sinter"
    edges, files = wrong_edges(root)
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.[hi]pp")}
    warnings = list(warned_of(texts))
    texts = {path: text for path, text in texts.items()
             if path.endswith(".hpp") or not path.startswith(tuple(WITHOUT_HEADER))}
    faults = [*without_header(texts), *wrong_definitions(texts, DEFINED_ABOVE)]
    stale = [f"{a} -> {b}" for a, b in ALLOWED if not (root / a).exists() or not (root / b).exists()]
    for line in edges + faults + warnings:
        print(line)
    for entry in stale:
        print(f"the allow-list names an edge that is gone: {entry}")
    print(f"{files} files, {len(edges)} includes against the order of layers, {len(faults)} definitions out of place")
    return 1 if edges or faults or warnings or stale or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
