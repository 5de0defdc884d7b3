#!/usr/bin/env python3
"""Has the compiler of a configured build read every file of the library, the tests and the examples, without generating code:
a minute or two where a build takes twenty. A file with an error or a warning counts as a failed test.

Usage: syntax_only.py BUILD_FOLDER JUNIT_FILE JOBS. The targets sinter_test_pch and sinter_single_header must have been built.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
from xml.sax.saxutils import quoteattr


def commands(build, project):
    """One command for each file, from those of the build: files that several targets compile are read once."""
    seen = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if file in seen or build in file.parents or project not in file.parents:
            continue
        words = iter(shlex.split(entry["command"]))
        kept = []
        for word in words:
            if word in ("-o", "-c"):
                next(words)
            elif pathlib.Path(word).name != "ccache":
                kept.append(word)
        seen[file] = [*kept, "-fsyntax-only", str(file)]
    return seen


def sampled(files, project):
    """The library, and of the rest one file in SINTER_SAMPLE (default 1: all), beginning at SINTER_SAMPLE_SEED."""
    one_in, seed = (int(os.environ.get(name, default)) for name, default in (("SINTER_SAMPLE", "1"), ("SINTER_SAMPLE_SEED", "0")))
    is_library = {file: project / "cmake" in file.parents for file in files}
    rest = sorted(file for file in files if not is_library[file])
    taken = {file for i, file in enumerate(rest) if (i + seed) % one_in == 0}
    return [(file, files[file]) for file in sorted(files) if is_library[file] or file in taken]


def main():
    build, junit, jobs = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    project = pathlib.Path(__file__).resolve().parents[2]

    def read(item):
        file, command = item
        result = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
        is_clean = result.returncode == 0 and not result.stderr.strip()
        if not is_clean:
            print(f"{file.relative_to(project)}:\n{result.stderr}", flush=True)
        return f'<testcase name={quoteattr("syntax: " + str(file.relative_to(project)))} status="{"run" if is_clean else "fail"}"/>'

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        cases = list(pool.map(read, sampled(commands(build, project), project)))
    junit.write_text("<testsuite>\n" + "\n".join(cases) + "\n</testsuite>\n")


if __name__ == "__main__":
    main()
