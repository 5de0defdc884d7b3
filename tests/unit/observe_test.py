#!/usr/bin/env python3
"""What the example `observe` writes: its timeline is JSON as Python reads it, tools/trace_diff compares two of them, and its page
works in a browser (Chromium, where there is one).

Usage: observe_test.py files|browser PROJECT_FOLDER PROGRAM WORK_FOLDER
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

PROJECT, PROGRAM, FOLDER = (pathlib.Path(path) for path in sys.argv[2:5])
problems = []


def check(holds, what):
    if not holds:
        problems.append(what)


def run(command, status=0, **settings):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                            timeout=240, env={**os.environ, **settings})
    check(result.returncode == status, f"{command[0]} ended with {result.returncode}, not {status}:\n{result.stdout[-2000:]}")
    return result.stdout


def check_timeline(path):
    events = json.loads(path.read_text(encoding="utf-8"))
    spans = [event for event in events if event["ph"] == "X"]
    for event in spans:
        check(event["dur"] >= 0 and event["ts"] >= 0 and event["name"] and event["cat"], f"a span without its fields: {event}")
    kernels = [event for event in spans if event["cat"] == "kernel"]
    check(len({event["name"] for event in kernels}) >= 2, "the timeline has no two kernels")
    for kernel in kernels:
        check(kernel["args"]["bytes"] > 0 and re.search(r"observe\.cpp:\d+", kernel["args"]["line"]), f"a kernel without bytes or line: {kernel}")
        check(any(mark["cat"] == "user" and mark["ts"] <= kernel["ts"] and kernel["ts"] + kernel["dur"] <= mark["ts"] + mark["dur"] + 0.01
                  for mark in spans), "a kernel stands outside all steps")
    lines = path.read_text().splitlines()
    check(lines[0] == "[" and lines[-1] == "]" and len(lines) == len(events) + 2, "not one event a line")
    return events


def check_differences(before):
    tool = PROJECT / "tools/trace_diff"
    check("same" in run([tool, before, before]), "a timeline differs from itself")
    events = json.loads(before.read_text())
    for event in events:
        if event["ph"] == "X" and event["cat"] == "kernel":
            event["dur"] = 2 * event["dur"] + 1000
    events.append({"ph": "X", "pid": 1, "tid": 1, "cat": "kernel", "name": "a <new> one", "ts": 1, "dur": 2})
    slower = FOLDER / "slower.json"
    slower.write_text(json.dumps(events)[:-1] + ",")   # as after a crash: no bracket at the end
    text = run([tool, before, slower, "--svg", FOLDER / "diff.svg", "--category", "kernel"])
    check(re.search(r"\+\d+ % .*kernel: .*observe\.cpp", text) and "new" in text, f"the slower kernels are not told:\n{text}")
    check("compile" not in text, "--category shows others, too")
    picture = (FOLDER / "diff.svg").read_text()
    check(picture.startswith("<svg") and "a &lt;new&gt; one" in picture, "no picture, or names that are not escaped")
    (FOLDER / "bad.json").write_text("{\"a\": 1}")
    check("is no timeline" in run([tool, before, FOLDER / "bad.json"], status=1), "a file that is no timeline is taken")
    check("cannot be read" in run([tool, before, FOLDER / "missing.json"], status=1), "a missing file is taken")


def check_picture(run_file):
    tool, drawn = PROJECT / "tools/trace_picture", FOLDER / "run.svg"
    run([tool, run_file, drawn, "--mark", "step 1"])
    text = drawn.read_text()
    check(text.startswith("<svg") and "step 1" in text and "kernel: " in text and "step 2" not in text, "the picture of a step is not right")
    run([tool, run_file, drawn, "--category", "compile"])
    check("compile: " in drawn.read_text() and "kernel: " not in drawn.read_text(), "--category draws others, too")
    check("no mark 'step 9'" in run([tool, run_file, drawn, "--mark", "step 9"], status=1), "a mark that is not there is taken")
    check("no span of these" in run([tool, run_file, drawn, "--category", "nothing"], status=1), "no span is drawn as a picture")
    check("is no timeline" in run([tool, FOLDER / "bad.json", drawn], status=1), "a file that is no timeline is drawn")
    check("cannot be written" in run([tool, run_file, "/nowhere/run.svg"], status=1), "a picture that cannot be written is no fault")


def check_replay():
    """The instruction log of the example, run again by tools/replay."""
    log = FOLDER / "observe.log"
    run([PROGRAM, FOLDER], SINTER_INSTRUCTION_LOG=str(log))
    lines = [line for line in log.read_text().splitlines() if not line.startswith("#")]
    check(len(lines) > 10 and all(re.match(r"time=\d+ took=\d+ thread=\d+ graph=\d+ step=\d+ device=cpu ", line) for line in lines),
          f"lines of the log are not as they should be: {lines[:3]}")
    build = next((folder for folder in PROGRAM.parents if (folder / "libsinter.a").exists()), None)
    if build is None or not (build / "compile_commands.json").exists():
        return   # the tool asks for both
    tool = [PROJECT / "tools/replay", "--build", build]
    number = re.search(r" graph=(\d+)", lines[-1])[1]
    table = run([*tool, log, "--graph", number, "--repeat", "2"])
    check(re.search(r"logged us +again us", table) and re.search(r"\d+\.\d+ +\d+\.\d+ +\d+\.\d\d +all runs of [1-9]", table),
          f"no table of times:\n{table}")
    check("takes a whole number from 1 on, not 'x'" in run([*tool, log, "--repeat", "x"], status=1), "--repeat x is taken")
    check("no line has graph=99999" in run([*tool, log, "--graph", "99999"], status=1), "a graph that is not there is taken")
    bad = FOLDER / "bad.log"
    bad.write_text("# comment\n" + lines[0] + "\nnonsense\n")
    check(f"{bad}:3: this is no instruction" in run([*tool, bad], status=1), "a bad line is taken")
    check("cannot be read" in run([*tool, FOLDER / "missing.log"], status=1), "a missing log is taken")


def check_page(browser):
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
              f"--user-data-dir={FOLDER}/profile", "--window-size=1280,1500", "--virtual-time-budget=3000"]
    page = f"file://{FOLDER}/observe.html"
    dom = run(common + ["--dump-dom", page])
    check('data-ready="yes"' in dom, "the program of the page did not come to its end")
    for what, pattern in (("the graph", r'class="picture on".*class="box'), ("kernels with times", r'<tr class="row.*?GFLOP|class="bar"'),
                          ("the code of a kernel", r"Its loop nest and code"), ("the user's line", r"observe\.cpp"),
                          ("the roofline", r"<circle"), ("memory", r"kernels \d+ to \d+: made by"), ("borders", r"a kernel has one|why they are two")):
        check(re.search(pattern, dom, re.DOTALL), f"the page does not show {what}")
    shot = FOLDER / "page.png"
    run(common + [f"--screenshot={shot}", page])
    size = shot.stat().st_size if shot.exists() else 0
    check(20_000 < size < 2_000_000, f"the screenshot has {size} bytes: an empty page?")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    browser = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
    if sys.argv[1] == "browser" and browser is None:
        print("SINTER_SKIPPED: no Chromium here: `apt-get install chromium` to have the page of explain() looked at")
        return 0
    run([PROGRAM, FOLDER])
    if sys.argv[1] == "browser":
        check_page(browser)
    else:
        check_timeline(FOLDER / "observe.json")
        check_differences(FOLDER / "observe.json")
        check_picture(FOLDER / "observe.json")
        check_replay()
    print("\n".join(problems) or "right")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
