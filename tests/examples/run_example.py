#!/usr/bin/env python3
"""Runs an example and compares what it prints with its expected text.

Usage: run_example.py [--begins] EXPECTED WORK_FOLDER PROGRAM [ARGUMENT...]

With --begins, the program may print more lines after those.

Lines are compared without trailing blanks. In the expected text `{{REGEX}}` stands for what varies (a time, an address),
and a line that holds nothing but `{{...}}` for any number of lines.
"""
import os
import pathlib
import re
import subprocess
import sys

ANY_LINES = "{{...}}"


def line_pattern(line):
    parts = re.split(r"\{\{(.*?)\}\}", line.rstrip())
    return "".join(re.escape(p) if i % 2 == 0 else f"(?:{p})" for i, p in enumerate(parts))


def text_pattern(text):
    lines = text.rstrip().splitlines()
    return "".join(r"(?:.*\n)*?" if line.strip() == ANY_LINES else line_pattern(line) + r"\n" for line in lines)


def first_difference(expected, actual):
    """Where the longest matching beginning of the expected text ends."""
    lines = expected.rstrip().splitlines()
    for count in range(len(lines), -1, -1):
        match = re.match(text_pattern("\n".join(lines[:count])) if count else "", actual)
        if match:
            rest = actual[match.end():].splitlines()
            wanted = lines[count] if count < len(lines) else "the end"
            return f"line {actual[:match.end()].count(chr(10)) + 1}: want {wanted!r}, got {rest[0] if rest else 'the end'!r}"
    return "nothing matches"


def main():
    arguments = sys.argv[1:]
    more = f"\n{ANY_LINES}" if arguments[0] == "--begins" else ""
    expected_path, folder, *command = arguments[1:] if more else arguments
    expected_path, folder = pathlib.Path(expected_path), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False, stdin=subprocess.DEVNULL,
                            env={**os.environ, "LC_ALL": "C"})
    actual = "".join(line.rstrip() + "\n" for line in result.stdout.rstrip().splitlines())
    if result.returncode != 0:
        print(f"{command[0]} ended with status {result.returncode}; it printed:\n{actual}")
        return 1
    if not expected_path.exists():
        print(f"{expected_path} is missing; the example printed:\n{actual}")
        return 1
    expected = expected_path.read_text().rstrip() + more
    if re.fullmatch(text_pattern(expected), actual):
        return 0
    print(f"{command[0]} does not print {expected_path}: {first_difference(expected, actual)}\nit printed:\n{actual}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
