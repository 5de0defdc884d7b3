#!/usr/bin/env python3
"""tools/fit_costs on entries whose constants are known. Usage: fit_costs_test.py PROJECT"""
import pathlib
import random
import subprocess
import sys
import tempfile

tool = pathlib.Path(sys.argv[1]) / "tools" / "fit_costs"


def run(*arguments):
    return subprocess.run([sys.executable, str(tool), *map(str, arguments)], capture_output=True, text=True)


def expect(holds, found):
    if not holds:
        sys.exit(f"fit_costs: not as expected: {found}")


random.seed(1)
lines = ["sinter tuning 1"]
for number in range(40):
    size, flops = 10 ** random.uniform(3, 8), 10 ** random.uniform(3, 9)
    special = random.choice([0, 10 ** random.uniform(3, 6)])
    seconds = (2e-6 + size / 2e10 + flops / 5e10 + special / 1e9) * random.uniform(0.95, 1.05)
    lines.append(f"0.1; Maker 1; x86 avx2; threads 2; row 3x4; {number:032x} = unroll(2) keep(0); {seconds:.4g} s, "
                 f"{size:.6g} bytes, {flops:.6g} flops, {special:.6g} special")
lines.append("0.1; Maker 1; x86 avx2; threads 2; row 3x4; ff = default")  # of a version that kept no figures
lines.append("0.1; Maker 2; x86 avx2; threads 1; row 3x4; ff = default; 1e-06 s, 10 bytes, 1 flops, 0 special")

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "a.tuning"
    path.write_text("\n".join(lines) + "\nchecksum 0\n")
    found = run(path)
    expect(found.returncode == 0, found)
    expect("Maker 1; x86 avx2; threads 2: 40 kernels" in found.stdout, found.stdout)
    values = {name: float(line.split(": ")[1].split()[0]) for line in found.stdout.splitlines()
              for name in ("a launch", "bytes", "flops", "special") if line.strip().startswith(name + ":")}
    for name, wanted in (("a launch", 2), ("bytes", 2e10), ("flops", 5e10), ("special", 1e9)):
        expect(abs(values[name] / wanted - 1) < 0.1, found.stdout)
    expect("median 2%" in found.stdout or "median 3%" in found.stdout, found.stdout)
    expect("Maker 2" in found.stdout and "too few to fit: 8 are needed" in found.stdout, found.stdout)
    path.write_text("sinter tuning 1\n")
    expect("no entry says what was measured" in run(path).stderr, run(path))
    expect("cannot read" in run(pathlib.Path(folder) / "none").stderr, "a file that is not there")
