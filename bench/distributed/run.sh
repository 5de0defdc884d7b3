#!/usr/bin/env bash
# bench/distributed/run.sh [FOLDER]   all of it on this machine's first two GPUs, in under 500 s: correctness first, then
# speed, then one table. The folder has what bundle.sh packs (default: that of this file). Each part has a time limit,
# and what does not fit any more is left out and named. PYTHON names the Python that has PyTorch (python3).
set -u
here=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")}" && pwd)
python=${PYTHON:-python3}
begin=$SECONDS
limit=${LIMIT:-490}
work=$(mktemp -d)
log=$work/log
failed=()

# NVLink multicast can put the GPUs of a shared host out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export SINTER_CACHE_DIR=$work/cache PYTHONUNBUFFERED=1 OMP_NUM_THREADS=8
nvidia=$("$python" -c 'import nvidia, os; print(" ".join(nvidia.__path__))' 2>/dev/null)
libraries=$here/lib:/usr/local/cuda/lib64
for folder in $nvidia; do
  for each in "$folder"/nccl/lib "$folder"/cu13/lib "$folder"/cuda_nvrtc/lib "$folder"/cublas/lib; do
    [ -d "$each" ] && libraries=$libraries:$each
  done
done
torchrun=("$python" -m torch.distributed.run --standalone)

# part NAME SECONDS COMMAND...: what it prints goes to the log and here.
part() {
  local name=$1 seconds=$2 left=$((limit - (SECONDS - begin)))
  shift 2
  [ "$seconds" -lt "$left" ] || seconds=$left
  if [ "$seconds" -lt 8 ]; then
    echo "LEFT OUT $name: no time" | tee -a "$log"
    failed+=("$name")
    return
  fi
  local from=$SECONDS
  echo "== $name (at $((SECONDS - begin)) s)"
  timeout -k 5 "$seconds" "$@" >"$work/out" 2>&1
  local status=$?
  tail -c 6000 "$work/out"
  cat "$work/out" >>"$log"
  if [ $status -ne 0 ]; then
    echo "FAILED $name: status $status after $((SECONDS - from)) s" | tee -a "$log"
    failed+=("$name")
  fi
}
ours() { part "$1" "$2" env LD_LIBRARY_PATH="$libraries:${LD_LIBRARY_PATH:-}" "${@:3}"; }
peer() { part "$1" "$2" "${torchrun[@]}" --nproc-per-node "$3" "$here/ddp.py" "${@:4}"; }

nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
ours "losses on 2 GPUs and on 1" 60 "$here/bench_distributed" check
ours "tests for several GPUs" 110 "$here/sinter_gpus_tests"
ours "all_reduce" 40 "$here/bench_distributed" all_reduce
ours "sinter tf32" 120 "$here/bench_distributed" train --precision tf32 --trace "$work/trace.json"
[ -f "$work/trace.json" ] && part "overlap" 20 "$python" "$here/overlap.py" "$work/trace.json"
peer "ddp tf32 on 1" 50 1 --precision tf32
peer "ddp tf32 on 2" 50 2 --precision tf32
ours "sinter f32" 90 "$here/bench_distributed" train --precision f32 --steps 8
peer "ddp f32 on 1" 40 1 --precision f32 --steps 8
peer "ddp f32 on 2" 40 2 --precision f32 --steps 8
ours "sinter tf32 without overlap" 70 env SINTER_DIST_OVERLAP=0 "$here/bench_distributed" train --precision tf32
[ -x "$here/sinter_gpu_tests" ] && ours "tests for one GPU" 60 "$here/sinter_gpu_tests"

echo
echo "== results after $((SECONDS - begin)) s"
grep -E "^(check:|all_reduce|sinter |ddp|overlap:|All tests passed|test cases:|assertions:|FAILED|LEFT OUT)" "$log"
"$python" - "$log" <<'PYTHON'
import re, sys
rates = {}
text = open(sys.argv[1]).read()
for name, precision, ranks, rate in re.findall(r"^(sinter|ddp) (\w+) (\d+): (\d+) tokens/s", text, re.M):
    rates.setdefault((name, precision), {}).setdefault(int(ranks), []).append(float(rate))
print()
print("| what | 1 GPU, tokens/s | 2 GPUs | efficiency | 2 GPUs, of PyTorch's |")
print("|---|---|---|---|---|")
for (name, precision), by_ranks in rates.items():
    for i, label in enumerate(["", " without overlap"]):
        one, two = by_ranks.get(1, []), by_ranks.get(2, [])
        if len(one) <= i or len(two) <= i:
            continue
        peer = rates.get(("ddp", precision), {}).get(2)
        share = f"{two[i] / peer[0]:.2f}" if peer else ""
        print(f"| {name} {precision}{label} | {one[i]:.0f} | {two[i]:.0f} | {two[i] / 2 / one[i]:.1%} | {share} |")
PYTHON
rm -rf "$work"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'not well: %s\n' "${failed[@]}"
  exit 1
fi
