#!/usr/bin/env python3
"""Checks that both libraries hold every definition: each .ipp of include/sinter is reached from src.hpp, and header-only
from sinter.hpp.

Usage: implementation_files.py PROJECT_FOLDER
"""
import importlib.machinery
import importlib.util
import pathlib
import re
import sys


def load_amalgamate(path):
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("amalgamate", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def reached_from(root, start):
    """Files that a header includes by way of <sinter/...> or "...", ignoring conditionals; .hpp files lead no further."""
    seen, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.suffix == ".hpp" and path != start:
            continue
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE):
            for candidate in (path.parent / name, root.parent / name):
                if candidate.is_file():
                    waiting.append(candidate.resolve())
                    break
    return seen


def main():
    project = pathlib.Path(sys.argv[1]).resolve()
    root = project / "include" / "sinter"
    tool = load_amalgamate(project / "tools" / "amalgamate")
    files = {path.resolve() for path in root.rglob("*.ipp")}
    missing = [(path, "src.hpp") for path in files - reached_from(root, root / "src.hpp")]
    missing += [(path, "sinter.hpp when header-only")
                for path in files - tool.Amalgamation().reachable((root / "sinter.hpp").resolve(), set())]
    for path, start in sorted(missing):
        print(f"{path.relative_to(root)} is not included from {start}")
    print(f"{len(files)} .ipp files, {len(missing)} not reached")
    return 1 if missing or not files else 0


if __name__ == "__main__":
    sys.exit(main())
