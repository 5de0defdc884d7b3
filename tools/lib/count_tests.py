"""Adds up the JUnit files of ctest, names what failed, and ends with 'N passed, N failed, N skipped'.

Usage: count_tests.py FOLDER. Exit status 1 if anything failed or nothing passed.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def main():
    folder = pathlib.Path(sys.argv[1])
    passed, failed, skipped = 0, [], []
    for path in sorted(folder.glob("*.xml")):
        preset = path.name.split(".")[0]
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            label = f"{preset}: {case.get('name')}"
            if members := [line.split(" ", 2)[1:] for line in (case.findtext("system-out") or "").splitlines()
                           if line.startswith("SINTER_GROUP ")]:   # of run_group.py
                passed += sum(outcome == "passed" for outcome, _ in members)
                failed += [f"{preset}: {name}" for outcome, name in members if outcome == "failed"]
                skipped += [f"{preset}: {name}" for outcome, name in members if outcome == "skipped"]
                if case.get("status") == "fail" and all(outcome != "failed" for outcome, _ in members):
                    failed.append(label)
            elif case.get("status") == "run":
                passed += 1
            elif case.get("status") == "fail":
                failed.append(label)
            else:
                output = case.findtext("system-out") or ""
                reasons = [line for line in output.splitlines() if line.startswith("SINTER_SKIPPED:")]
                skipped.append(f"{label}: {reasons[0][len('SINTER_SKIPPED:'):].strip() if reasons else 'not run'}")
    failed += [f"{path.stem}: does not build" for path in sorted(folder.glob("*.does_not_build"))]
    for line in skipped:
        print(f"skipped  {line}")
    for line in failed:
        print(f"FAILED   {line}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
