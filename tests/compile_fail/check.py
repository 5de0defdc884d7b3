#!/usr/bin/env python3
"""Compiles a program that must not compile and looks for the message that its user should read.

Usage: check.py FILE COMPILER FLAG...

The file holds lines `// expect: REGEX`; each must match one line of the compiler's errors (`// expect-gcc:` and
`// expect-clang:` hold for one compiler). What must not compile stands between `#ifdef SINTER_COMPILE_FAIL` and `#endif`,
and the harness also checks that the file compiles without it: a file that fails for another reason (a typing error, a
renamed function) proves nothing.
"""
import pathlib
import re
import subprocess
import sys


def compile_source(compiler, flags, source, extra):
    command = [compiler, "-fsyntax-only", *flags, *extra, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    source, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    text = source.read_text()
    family = "clang" if "clang" in pathlib.Path(compiler).name else "gcc"
    expected = re.findall(rf"^\s*//\s*expect(?:-{family})?:\s*(.+?)\s*$", text, re.MULTILINE)
    if not expected:
        print(f"{source}: no line '// expect: REGEX'")
        return 1
    if not re.search(r"#\s*if(def\s+|.*defined\s*\(?\s*)SINTER_COMPILE_FAIL", text):
        print(f"{source}: put what must not compile between '#ifdef SINTER_COMPILE_FAIL' and '#endif'")
        return 1

    control = compile_source(compiler, flags, source, [])
    if control.returncode != 0:
        print(f"{source}: does not compile even without the part that must not:\n{control.stderr}")
        return 1
    result = compile_source(compiler, flags, source, ["-DSINTER_COMPILE_FAIL"])
    if result.returncode == 0:
        print(f"{source}: compiles, but must not")
        return 1
    # A line of source quoted under a message holds the text of the static_assert too; only messages count.
    messages = [line for line in result.stderr.splitlines() if re.search(r"\b(error|note|required)\b", line)]
    missing = [regex for regex in expected if not any(re.search(regex, line) for line in messages)]
    for regex in missing:
        print(f"{source}: no message matches: {regex}")
    if missing:
        print(f"the compiler said:\n{result.stderr}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
