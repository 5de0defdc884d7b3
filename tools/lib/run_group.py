"""Runs many test cases of a Catch2 program in one process, where the start of a process is what takes the time (with
sanitizers half a second, more than most tests). What fails there, or ends the process, is run once more by itself, as
it is without groups, and that result counts.

Usage: run_group.py SECONDS COMMAND... -- SPECIFICATION...
SECONDS is the limit of one test; a specification is a name as Catch2's command line takes it. For each test a line
'SINTER_GROUP passed|skipped|failed NAME[: reason]' is printed, which count_tests.py adds up. Exit status 1 if one
failed.
"""
import html
import re
import subprocess
import sys

EVENT = re.compile(r'<TestCase name="([^"]*)"|(SINTER_SKIPPED: .*)|<OverallResult success="(true|false)"')
LIMITS = 2   # of one test, which all tests of a process get together


def name_of(specification):
    return re.sub(r"\\(.)", r"\1", specification)


def execute(command, seconds):
    """The exit status (of what had to be stopped: None), and all that was printed."""
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                check=False, timeout=seconds)
        return result.returncode, result.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace") + f"\nstopped after {seconds} seconds\n"


def together(command, seconds, specifications):
    """Runs them in one process. Returns what passed or was skipped there ({specification: line}), what has to be run by
    itself, what was not reached, and, where the process failed and no test did, how it ended."""
    status, output = execute([*command, "-r", "xml", ",".join(specifications)], LIMITS * seconds)
    by_name = {name_of(specification): specification for specification in specifications}
    done, alone, current, reason = {}, [], None, None
    for name, skip, success in EVENT.findall(output):
        if name:
            current, reason = by_name.get(html.unescape(name)), None
        elif skip:
            reason = skip.partition(":")[2].strip()
        elif current is not None:
            if success == "false":
                alone.append(current)
            else:
                line = name_of(current)
                done[current] = f"skipped {line}: {reason}" if reason else f"passed {line}"
            current = None
    if current is not None:   # the process ended in it
        alone.append(current)
    left = [each for each in specifications if each not in done and each not in alone]
    how = f"exit status {status}:\n{output}" if status != 0 and not alone else None
    return done, alone, left, how


def by_itself(command, seconds, specification):
    status, output = execute([*command, specification], seconds)
    name = name_of(specification)
    if skip := re.search("SINTER_SKIPPED: (.*)", output):
        return f"skipped {name}: {skip[1].strip()}"
    if status == 0 and "No test" not in output:   # matches, or ran, as the versions of Catch2 say it
        return f"passed {name}"
    print(output)
    return f"failed {name}"


def main():
    separator = sys.argv.index("--")
    seconds, command, left = float(sys.argv[1]), sys.argv[2:separator], sys.argv[separator + 1:]
    lines = []
    while left:
        asked = left
        done, alone, left, how = together(command, seconds, asked)
        if how is not None or len(left) == len(asked):   # it fails without a test that fails: none of this counts
            done, alone, left = {}, asked, []
        again = [by_itself(command, seconds, specification) for specification in alone]
        if how is not None and not any(line.startswith("failed") for line in again):
            print(f"each passes by itself, but not all together: {how}")
            again.append(f"failed {name_of(asked[0])} and {len(asked) - 1} more, together")
        lines += [*done.values(), *again]
    for line in lines:
        print(f"SINTER_GROUP {line}")
    return 1 if any(line.startswith("failed") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
