#!/usr/bin/env bash
# bench/distributed/bundle.sh FOLDER   builds what run.sh needs against build/default/libsinter.a and puts it there, with
# its libraries, for a machine without a compiler: at most 25 MiB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=${1:?usage: bench/distributed/bundle.sh FOLDER}
mkdir -p "$folder/lib"
flags=(-std=c++20 -O2 -DSINTER_SEPARATE_COMPILATION -DSINTER_CUDA -DSINTER_YAML -Iinclude -isystem /usr/include/eigen3)
libraries=(build/default/libsinter.a -ltbb -lasmjit -lyaml-cpp -lrt -ldl -pthread)
link=('-Wl,-rpath,$ORIGIN/lib,--disable-new-dtags' -s)
"${CXX:-g++}" "${flags[@]}" bench/distributed/distributed.cpp "${libraries[@]}" "${link[@]}" -o "$folder/bench_distributed"
"${CXX:-g++}" "${flags[@]}" -Itests tests/main.cpp tests/gpus/*.cpp "${libraries[@]}" "${link[@]}" \
  -o "$folder/sinter_gpus_tests" || echo "no sinter_gpus_tests"
"${CXX:-g++}" "${flags[@]}" -Itests tests/mpi/ranks.cpp "${libraries[@]}" "${link[@]}" -o "$folder/sinter_ranks"
cp tools/launch bench/distributed/{run.sh,ddp.py,overlap.py} "$folder"
for program in "$folder"/bench_distributed "$folder"/sinter_gpus_tests "$folder"/sinter_ranks; do
  [ -x "$program" ] || continue
  ldd "$program" | awk '/libtbb|libasmjit|libyaml/ { print $3 }' | xargs -r -I{} cp -L {} "$folder/lib"
done
du -sh "$folder"
