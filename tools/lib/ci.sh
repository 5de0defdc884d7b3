# `tools/test --ci`: what every change must pass, in about an hour on two cores. Sourced, never run.
#
# Each run: every test with GCC, of long tables every third row (tools/test without --ci takes all of them). Of the
# other configurations one runs in full, in every second run on average the address and undefined-behaviour sanitizers,
# and the compilers of the others read a part of the files; which ones, and which rows are taken, moves with the commit,
# so that all are met in time. (When the sanitizers of both kinds ran each time, a run on two cores ended within the
# first of them, and what stood after them was never met.)

ci_aim=60          # minutes that a run should take on a machine of two cores
ci_last_start=65   # from then on no configuration is begun
ci_end=78          # a configuration that still runs then is stopped

# commit_number: changes with each commit, and is the same for each run of one.
commit_number() { echo $((16#$(git -C "$project" rev-parse HEAD 2>/dev/null | cut -c1-6 || echo 0))); }
ci_minutes() { echo $((($(date +%s) - ci_started) / 60)); }

# timed NAME COMMAND...: notes how long it took. It runs in a subshell: what fails there is counted, and the rest goes on.
timed() {
  local name=$1 begin
  shift
  begin=$(date +%s)
  ("$@") || touch "$results/${name//[^a-zA-Z0-9]/_}.does_not_build"
  awk -v seconds="$(($(date +%s) - begin))" -v name="$name" 'BEGIN {printf "%6.1f  %s\n", seconds / 60, name}' >>"$results/minutes"
}

# left_out NAME: notes that a stage did not run, or not to its end.
left_out() {
  say "left out after $(ci_minutes) minutes: $1"
  printf '     -  %s: left out after %s minutes\n' "$1" "$(ci_minutes)" >>"$results/minutes"
}

# in_time NAME COMMAND...: timed, unless it is too late to begin; stopped when the run must end, and then it does not count.
in_time() {
  local name=$1 process
  if [ "$(ci_minutes)" -ge $ci_last_start ]; then
    left_out "$name"
    return
  fi
  set -m   # a process group of its own, so that what it started can be stopped with it
  timed "$@" &
  process=$!
  set +m
  while kill -0 $process 2>/dev/null; do
    if [ "$(ci_minutes)" -ge $ci_end ]; then
      kill -TERM -- -$process 2>/dev/null || true
      sleep 1
      kill -KILL -- -$process 2>/dev/null || true
      left_out "$name, which had begun"
      break
    fi
    sleep 1
  done
  wait $process 2>/dev/null || true
}

# configuration NAME: one of those that rotate, in full. A process with a sanitizer takes half a second to start, so
# several tests share one; each has run alone in the main suite.
configuration() {
  case "$1" in
    asan | tsan) SINTER_TEST_GROUP=${SINTER_TEST_GROUP:-16} stage "$1" -LE fuzz ;;
    trixie) distro_suite trixie ;;
    *) rotating_stage "$1" ;;
  esac
}

ci_suite() {
  local configurations=(asan clang asan tsan asan clang19 asan trixie asan header-only asan reference) all chosen name
  ci_started=$(date +%s)
  chosen=${SINTER_CI_CONFIGURATION:-${configurations[$(($(commit_number) % ${#configurations[@]}))]}}
  require "${library_packages[@]}" catch2 clang-16 clang-19
  SINTER_SAMPLE=${SINTER_SAMPLE:-3}
  SINTER_SAMPLE_SEED=$(commit_number)
  export SINTER_SAMPLE SINTER_SAMPLE_SEED
  timed "GCC, main suite" main_suite
  all=$(printf '%s\n' "${configurations[@]}" | LC_ALL=C sort -u | tr '\n' ' ')
  in_time "$chosen, in full (of ${all% })" configuration "$chosen"
  for name in clang clang19 reference; do
    [ "$name" = "$chosen" ] || in_time "$name, reading files" syntax_suite "$name"
  done
  say "minutes per stage"
  cat "$results/minutes"
  printf '%6s  in all (the aim is %s)\n' "$(ci_minutes)" $ci_aim
}
