#!/usr/bin/env bash
# bench/distributed/run.sh [FOLDER]   all of it on this machine's GPUs (two, or four where there are as many): correctness
# first, then speed, then one table. The folder has what bundle.sh packs (default: that of this file). Each part has a time
# limit, and what does not fit any more is left out and named. Environment: LIMIT seconds for all of it (490), GPUS (2 or
# 4), SHORT=1 for TF32 alone, PYTHON names the Python that has PyTorch (python3).
set -u
here=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")}" && pwd)
python=${PYTHON:-python3}
begin=$SECONDS
limit=${LIMIT:-490}
short=${SHORT:-}
work=$(mktemp -d)
log=$work/log
failed=()
there=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
gpus=${GPUS:-$((there >= 4 ? 4 : 2))}

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

# The same losses from threads with a GPU each, from processes, and from those of torchrun.
equal_losses() {
  {
    timeout -k 5 60 "$here/bench_distributed" losses "$gpus"
    timeout -k 5 60 "$here/launch" --processes -n "$gpus" "$here/bench_distributed" losses
    timeout -k 5 60 "${torchrun[@]}" --nproc-per-node "$gpus" --no-python "$here/bench_distributed" losses
  } >"$work/losses" 2>&1
  grep -v -e '^\*\*\*' -e OMP_NUM "$work/losses"
  [ "$(grep -c '^losses on' "$work/losses")" -eq 3 ] && [ "$(grep '^losses on' "$work/losses" | sort -u | wc -l)" -eq 1 ] &&
    echo "check: losses of threads, processes and torchrun's processes are equal to the last digit"
}
# faults SECONDS-EACH-RANK-WAITS: one rank of the processes goes wrong; the others must say so, and end.
faults() {
  local bad=0 from=$SECONDS fault says
  while IFS='|' read -r fault says; do
    SINTER_DIST_TIMEOUT=$1 timeout -k 5 30 "$here/launch" --processes -n "$gpus" "$here/sinter_ranks" $fault --nccl >"$work/fault" 2>&1
    local status=$?
    if [ $status -eq 0 ] || [ $status -ge 124 ] && [ $status -lt 130 ] || ! grep -q "$says" "$work/fault"; then
      echo "fault $fault: status $status"
      tail -c 1500 "$work/fault"
      bad=1
    fi
  done <<FAULTS
mismatch 4|the calls of the ranks differ
kind 6|the calls of the ranks differ
throw 5|has failed: disk full
die 3|rank $((gpus - 1)) has failed: its process has ended
die 14|rank $((gpus - 1)) has failed: its process has ended
stop 10|rank $((gpus - 1)) did not come
FAULTS
  [ $bad -eq 0 ] && echo "check: 6 faults of processes with a GPU each are found, in $((SECONDS - from)) s together"
}
own_part() {  # a function of this file, each command of which has a time limit, with the libraries
  local name=$1 function=$2
  shift 2
  echo "== $name (at $((SECONDS - begin)) s)"
  if (export LD_LIBRARY_PATH="$libraries:${LD_LIBRARY_PATH:-}"; "$function" "$@") >"$work/out" 2>&1; then :; else
    echo "FAILED $name" >>"$work/out"
    failed+=("$name")
  fi
  tail -c 6000 "$work/out"
  cat "$work/out" >>"$log"
}

# What is not timed runs beside the next parts: beside NAME SECONDS COMMAND..., then join NAME.
beside() {
  echo "== $1 (at $((SECONDS - begin)) s, beside the next parts)"
  (LD_LIBRARY_PATH="$libraries:${LD_LIBRARY_PATH:-}" timeout -k 5 "$2" "${@:3}" >"$work/beside" 2>&1; echo $? >"$work/beside.status") &
}
join() {
  wait
  tail -c 6000 "$work/beside"
  cat "$work/beside" >>"$log"
  [ "$(cat "$work/beside.status")" = 0 ] && return
  echo "FAILED $1: status $(cat "$work/beside.status")" | tee -a "$log"
  failed+=("$1")
}

nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
beside "tests for several GPUs" 110 "$here/sinter_gpus_tests"
ours "losses on $gpus GPUs and on 1" 60 "$here/bench_distributed" check "$gpus"
ours "processes" 40 "$here/launch" --processes -n "$gpus" "$here/sinter_ranks" check --nccl
own_part "equal losses" equal_losses
own_part "faults" faults 3
join "tests for several GPUs"
ours "all_reduce" 40 "$here/bench_distributed" all_reduce "$gpus"
ours "sinter tf32" 120 "$here/bench_distributed" train --ranks "1,$gpus" --precision tf32 --trace "$work/trace.json"
[ -f "$work/trace.json" ] && part "overlap" 20 "$python" "$here/overlap.py" "$work/trace.json"
ours "sinter tf32 as graphs" 60 "$here/bench_distributed" train --ranks "1,$gpus" --precision tf32 --graphs
peer "ddp tf32 on 1" 50 1 --precision tf32
peer "ddp tf32 on $gpus" 50 "$gpus" --precision tf32
if [ -z "$short" ]; then
  ours "sinter f32" 90 "$here/bench_distributed" train --ranks "1,$gpus" --precision f32 --steps 8
  peer "ddp f32 on 1" 40 1 --precision f32 --steps 8
  peer "ddp f32 on $gpus" 40 "$gpus" --precision f32 --steps 8
  ours "sinter tf32 without overlap" 70 env SINTER_DIST_OVERLAP=0 "$here/bench_distributed" train --ranks "1,$gpus" --precision tf32
  [ -x "$here/sinter_gpu_tests" ] && ours "tests for one GPU" 60 "$here/sinter_gpu_tests"
fi

echo
echo "== results after $((SECONDS - begin)) s"
grep -E "^(check:|ok with|losses on|operations under|all_reduce|sinter |ddp|overlap:|All tests passed|test cases:|assertions:|FAILED|LEFT OUT)" "$log"
"$python" - "$log" "$gpus" <<'PYTHON'
import re, sys
rates = {}
text, gpus = open(sys.argv[1]).read(), int(sys.argv[2])
for name, precision, ranks, rate in re.findall(r"^(sinter|ddp) (\w+) (\d+): (\d+) tokens/s", text, re.M):
    rates.setdefault((name, precision), {}).setdefault(int(ranks), []).append(float(rate))
print()
print(f"| what | 1 GPU, tokens/s | {gpus} GPUs | efficiency | {gpus} GPUs, of PyTorch's |")
print("|---|---|---|---|---|")
for (name, precision), by_ranks in rates.items():
    for i, label in enumerate(["", " without overlap"]):
        one, several = by_ranks.get(1, []), by_ranks.get(gpus, [])
        if len(one) <= i or len(several) <= i:
            continue
        peer = rates.get(("ddp", precision), {}).get(gpus)
        share = f"{several[i] / peer[0]:.2f}" if peer else ""
        print(f"| {name} {precision}{label} | {one[i]:.0f} | {several[i]:.0f} | {several[i] / gpus / one[i]:.1%} | {share} |")
PYTHON
rm -rf "$work"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'not well: %s\n' "${failed[@]}"
  exit 1
fi
