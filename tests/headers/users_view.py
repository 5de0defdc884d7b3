#!/usr/bin/env python3
"""Checks what users' files see and hold. With SINTER_SEPARATE_COMPILATION sinter.hpp reaches no header of passes, kernels or
the runtime and none that defines an op, and an object that compiles, differentiates and evaluates holds no op's functions.

Usage: users_view.py PROJECT_FOLDER COMPILER FLAG...
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HIDDEN = re.compile(r"include/sinter/((?:passes|kernel|runtime)/\S+|ops/(?!names\.hpp)\S+|\S+\.ipp)")
PROGRAM = """#include <sinter/sinter.hpp>
using namespace sinter;
struct Net {
  Tensor w, b;
};
float train(const Net& net, Tensor x) {
  auto step = jit::compile(jit::value_and_grad([](const Net& n, Tensor x) { return sum(gelu(matmul(x, n.w) + n.b)); }));
  auto [loss, gradient] = step(net, x);
  Tensor y = eval(exp(x * 2) + where(x > 0, gradient.b, softmax(x, 0)));
  return item<float>(loss + sum(y));
}
"""


def run(command, **more):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr}")
    return result.stdout


def main():
    project, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    flags = ["-std=c++20", "-DSINTER_SEPARATE_COMPILATION", *flags]
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = pathlib.Path(folder) / "user.cpp", pathlib.Path(folder) / "user.o"
        source.write_text(PROGRAM)
        reached = sorted(set(HIDDEN.findall(run([compiler, *flags, "-M", str(source)]))))
        for header in reached:
            print(f"sinter.hpp reaches {header}")
        symbols = []
        if shutil.which("nm"):
            run([compiler, *flags, "-O2", "-c", str(source), "-o", str(compiled)])
            symbols = [line for line in run(["nm", "-C", str(compiled)]).splitlines() if re.search(r"::(vjp|lower|infer|batch)\(", line)]
            for line in symbols:
                print(f"a user's object holds {line}")
    print(f"{len(reached)} headers too many, {len(symbols)} functions of ops")
    return 1 if reached or symbols else 0


if __name__ == "__main__":
    sys.exit(main())
