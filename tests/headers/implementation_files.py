#!/usr/bin/env python3
"""Checks that both libraries hold every definition: each .ipp of include/sinter is reached from src.hpp and,
header-only, from sinter.hpp and the headers of parts that it leaves out; that sinter.hpp does leave them out; and that no
other header includes one, so that declarations never depend on where definitions begin.

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


def is_list(path):
    """src.hpp and the lists of .ipp files that it is made of."""
    return path.name.startswith("src") and path.suffix == ".hpp"


def includes(root, path):
    """The files of ours that a file names, ignoring conditionals."""
    for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE):
        for candidate in (path.parent / name, root.parent / name):
            if candidate.is_file():
                yield candidate.resolve()
                break


def reached_from(root, start):
    """Files included through lists and .ipp files; other headers lead no further."""
    seen, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.suffix == ".ipp" or is_list(path):
            waiting.extend(includes(root, path))
    return seen


def always_in(tool, root, files):
    """Those that sinter.hpp includes header-only, too."""
    conditions = tool.conditions_from([(root / "sinter.hpp").resolve()])
    return sorted(path for path in files if any("defined(SINTER_SEPARATE_COMPILATION)" not in terms for terms in conditions.get(path, ())))


def main():
    project = pathlib.Path(sys.argv[1]).resolve()
    root = project / "include" / "sinter"
    tool = load_amalgamate(project / "tools" / "amalgamate")
    files = {path.resolve() for path in root.rglob("*.ipp")}
    missing = [(path, "src.hpp") for path in files - reached_from(root, root / "src.hpp")]
    missing += [(path, "sinter.hpp and the headers of parts when header-only")
                for path in files - set(tool.conditions_from(tool.umbrellas()))]
    for path, start in sorted(missing):
        print(f"{path.relative_to(root)} is not included from {start}")
    parts = {path for path in files for lists in ("src_dist.hpp", "src_onnx.hpp") if path in reached_from(root, root / lists)}
    surplus = always_in(tool, root, parts)
    for path in surplus:
        print(f"{path.relative_to(root)} is included from sinter.hpp when header-only: headers of parts bring it")
    early = sorted(path for path in root.rglob("*.hpp") if not is_list(path) and files & set(includes(root, path)))
    for path in early:
        print(f"{path.relative_to(root)} includes an .ipp file: list it in one of src_*.hpp instead")
    print(f"{len(files)} .ipp files, {len(missing)} not reached, {len(early)} headers that include one, "
          f"{len(parts)} of parts, {len(surplus)} of them in sinter.hpp header-only")
    return 1 if missing or early or surplus or not files or not parts else 0


if __name__ == "__main__":
    sys.exit(main())
