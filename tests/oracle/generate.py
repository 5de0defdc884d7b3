#!/usr/bin/env python3
"""Writes cases/*.txt: what every function must give, by PyTorch, NumPy and SciPy. See README.md.

Usage: generate.py [CATEGORY...]
"""
import importlib
import pathlib
import sys
import warnings

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
CATEGORIES = [path.stem.removeprefix("functions_") for path in sorted(FOLDER.glob("functions_*.py"))]


def write_differences(rows):
    """The page of the differences that are meant."""
    lines = ["# Where results differ from PyTorch, NumPy and SciPy", "",
             "Each public function is compared with them, by value, dtype, shape and gradient (`tests/oracle`). These are the",
             "differences that are meant; elsewhere results agree within the tolerances of `tests/oracle/cases/`. This page is",
             "written by `tests/oracle/generate.py`.", "", "| function | difference |", "|---|---|"]
    lines += [f"| `{name.replace('linalg.', 'linalg::')}` | {row.differs.replace('|', chr(92) + '|')} |"
              for name, row in sorted(rows.items())]
    (FOLDER.parent.parent / "docs" / "differences.md").write_text("\n".join(lines) + "\n")


def main():
    sys.path.insert(0, str(FOLDER))
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    from rows import text_of_row
    failed, differences = [], {}
    for category in sys.argv[1:] or CATEGORIES:
        rows = importlib.import_module(f"functions_{category}").ROWS
        texts = []
        for row in rows:
            try:
                texts.append(text_of_row(row))
                if row.differs:
                    differences[row.name] = row
            except Exception as error:
                failed.append(f"{category}: {row.name}: {type(error).__name__}: {error}")
        path = FOLDER / "cases" / f"{category}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(texts) + "\n")
        print(f"{category}: {len(rows)} functions, {sum(t.count(chr(10)) for t in texts)} cases, "
              f"{path.stat().st_size / 1000:.0f} kB")
    if not sys.argv[1:]:
        write_differences(differences)
    return "\n".join(failed) or 0


if __name__ == "__main__":
    sys.exit(main())
