#!/usr/bin/env python3
"""Reads the #include lines of include/sinter and names every edge that points upwards or from one back end to another.

Usage: layering_test.py PROJECT_FOLDER [--self-test]
"""
import pathlib
import re
import sys

# Lowest first; a layer may include what stands in its own row or before it. Back ends alone never include each other.
LAYERS = [
    ["base"], ["tensor"], ["graph"], ["ops"], ["expr"], ["autodiff", "passes"], ["kernel"], ["runtime"],
    ["backend/reference", "backend/x86", "backend/cuda"], ["jit"], ["nn", "optim", "io", "dist"],
]
RANK = {layer: rank for rank, row in enumerate(LAYERS) for layer in row}

# (includer, included): reason. An .ipp may include upwards only if it stands here.
ALLOWED: dict[tuple[str, str], str] = {}

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


def self_test():
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
    stale = [f"{a} -> {b}" for a, b in ALLOWED if not (root / a).exists() or not (root / b).exists()]
    for edge in edges:
        print(edge)
    for entry in stale:
        print(f"the allow-list names an edge that is gone: {entry}")
    print(f"{files} files, {len(edges)} includes against the order of layers")
    return 1 if edges or stale or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
