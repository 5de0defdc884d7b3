#!/usr/bin/env python3
"""docs/environment.md names each variable that the code reads and each topic that it logs, and no others; the macros that users
set, and the fields of options and statistics, stand in docs/reference.md.

Usage: environment_test.py PROJECT_FOLDER
"""
import pathlib
import re
import sys

# Functions that read a variable of the environment, and the lists of names that one of them is given.
READS = re.compile(r'\b(?:getenv|environment|is_set|is_switched_on|count_of_environment|number_from_environment|text_from)\(\s*"(\w+)"')
READ_LISTS = re.compile(r"for \(const char\* variable : \{([^}]*)\}\)")
LOGS = re.compile(r'\b(?:note|warn|is_logged)\("(\w+)"')
# Structs whose fields users read or set.
STRUCTS = {"jit/options.hpp": ("Options", "Stats"), "jit/lazy/lazy.hpp": ("LazyStats",), "tensor/storage.hpp": ("MemoryStats",),
           "base/context.hpp": ("Context",)}
FIELD = re.compile(r"^  [\w:<>][\w:<>, ]*? (\w+)(?:\s*=[^;]*)?;", re.MULTILINE)
SET_BY_TOOLS = {"SINTER_LONG_FUZZ_SECONDS"}
PASSED_BY_TESTS = ("SINTER_STUB_", "SINTER_TEST_")   # from a test to a process that it starts
SET_BY_TESTS = {"SINTER_UPDATE_GOLDEN", "TMPDIR", "CXX"}   # of CONTRIBUTING.md's concern, or the system's


def texts(folder, *endings):
    return [path.read_text() for path in sorted(folder.rglob("*")) if path.suffix in endings]


def variables_read(sources):
    found = set()
    for text in sources:
        found.update(READS.findall(text))
        for names in READ_LISTS.findall(text):
            found.update(re.findall(r'"(\w+)"', names))
    return found


def first_column(table):
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def fields(project):
    for path, names in STRUCTS.items():
        text = (project / "include/sinter" / path).read_text()
        for name in names:
            body = re.search(rf"^struct {name} \{{\n(.*?)^\}};", text, re.MULTILINE | re.DOTALL)[1]
            for field in FIELD.findall(body):
                yield name, field
    for path in sorted((project / "include/sinter/expr").glob("*.hpp")):   # options of functions
        for name, body in re.findall(r"^struct ((?!Capture)\w+Options) \{\n(.*?)^\};", path.read_text(), re.MULTILINE | re.DOTALL):
            for field in FIELD.findall(body):
                yield name, field


def compare(what, found, documented):
    problems = [f"{what} {name} is not in docs/environment.md" for name in sorted(found - documented)]
    return problems + [f"docs/environment.md has {what} {name}, which nothing uses" for name in sorted(documented - found)]


def main():
    project = pathlib.Path(sys.argv[1])
    include = texts(project / "include", ".hpp", ".ipp")
    page = (project / "docs" / "environment.md").read_text()
    variables, topics = page.split("Log topics:")
    topics, tests = topics.split("Of the tests only")

    read = variables_read(include)
    in_words = {name for name in ("XDG_CACHE_HOME", "HOME", "CUDA_HOME", "CUDA_PATH") if re.search(rf"\b{name}\b", variables)}
    problems = compare("the variable", read, first_column(variables) | in_words)
    read_by_tests = variables_read(texts(project / "tests", ".hpp", ".cpp")) - read - SET_BY_TESTS
    read_by_tests = {name for name in read_by_tests if not name.startswith(PASSED_BY_TESTS)}
    problems += compare("the variable of the tests", read_by_tests, set(re.findall(r"`(SINTER_\w+)", tests)) - SET_BY_TOOLS)

    context = (project / "include/sinter/base/context.ipp").read_text()
    known = set(re.findall(r'"(\w+)"', re.search(r"log_topics\[\] = \{([^}]*)\}", context)[1]))
    problems += compare("the topic", known, first_column(topics))
    logged = set(name for text in include for name in LOGS.findall(text))
    problems += [f"the topic {name} is logged, but not in log_topics" for name in sorted(logged - known)]
    problems += [f"log_topics has {name}, which nothing logs" for name in sorted(known - logged)]

    macros = set(re.findall(r"ifn?def (SINTER_\w+)", "".join(include)))
    reference = (project / "docs" / "reference.md").read_text()
    problems += [f"the macro {name} is not in docs/reference.md" for name in sorted(macros) if f"`{name}`" not in reference]
    all_fields = list(fields(project))
    problems += [f"{name}::{field} is not in docs/reference.md" for name, field in all_fields if not re.search(rf"[`.]{field}\b", reference)]
    print("\n".join(problems) if problems else f"{len(read)} variables, {len(known)} topics, {len(macros)} macros, {len(all_fields)} fields")
    return 1 if problems or not read or not known or not macros or len(all_fields) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
