#!/usr/bin/env python3
"""What the linker leaves out of a program: builds one that compiles a function, linked as CMake links it, and checks that
no code of parts which it does not use is in it, that the same program with a factorisation has that, and how large the
first is without its symbols.

Usage: program_size.py CEILING COMPILER FLAG... -- LIBRARY...   CEILING in bytes; 0: the size is shown alone
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """#include <sinter/sinter.hpp>
#include <iostream>
using namespace sinter;
int main() {
  auto f = jit::compile([](Tensor x, Tensor w) { return gelu(matmul(x, w)) + 1; });
  std::cout << f(ones({2, 3}), ones({3, 2}))@MORE@ << "\\n";
}
"""
MORE = "linalg::svd(ones({3, 3})).s"   # linalg, of which Eigen computes singular values

# Names in the code of a part, and what the part is. The table of ops, which programs that read names at run time need, leads to
# all of linear algebra and Fourier transforms.
UNUSED = {
    r"ops_detail::op_table": "the table of all ops",
    r"fft_detail::": "Fourier transforms",
    r"BDCSVD|JacobiSVD": "factorisations",
    r"ops_detail::compute_small_": "small systems",
    r"GraphExport|OnnxModel": "ONNX",
    r"GgufReader|SafeTensors": "files of weights",
}


def build(folder, name, more, compiler, flags, libraries):
    source, program = folder / f"{name}.cpp", folder / name
    source.write_text(PROGRAM.replace("@MORE@", f" << {more}" if more else ""))
    command = [compiler, "-std=c++20", "-O2", "-DNDEBUG", "-DSINTER_SEPARATE_COMPILATION", *flags, str(source), "-Wl,--gc-sections",
               *libraries, "-o", str(program)]
    subprocess.run(command, check=True)
    subprocess.run([str(program)], check=True, stdout=subprocess.DEVNULL)
    return program


def parts_in(program):
    names = subprocess.run(["nm", "-C", str(program)], capture_output=True, text=True, check=True).stdout
    return {what for pattern, what in UNUSED.items() if re.search(pattern, names)}


def stripped_size(program):
    subprocess.run(["strip", str(program)], check=True)
    return program.stat().st_size


def main():
    ceiling, compiler, *words = sys.argv[1:]
    if not shutil.which("nm") or not shutil.which("strip"):
        print("SINTER_SKIPPED: nm and strip are needed")
        return 0
    flags, libraries = words[:words.index("--")], words[words.index("--") + 1:]
    with tempfile.TemporaryDirectory() as folder:
        plain = build(pathlib.Path(folder), "plain", "", compiler, flags, libraries)
        unused = parts_in(plain)
        if unused:
            print(f"a program that does not use them has: {', '.join(sorted(unused))}")
        found = "factorisations" in parts_in(build(pathlib.Path(folder), "with_more", MORE, compiler, flags, libraries))
        if not found:
            print("the program with a factorisation has none: this test looks for the wrong names")
        size = stripped_size(plain)
        print(f"a stripped program: {size / 1e6:.2f} MB, at most {int(ceiling) / 1e6:.2f}")
    fits = int(ceiling) == 0 or size <= int(ceiling)
    return 0 if not unused and found and fits else 1


if __name__ == "__main__":
    sys.exit(main())
