# What tools/demo, tools/test and tools/bench share: messages, the packages of Debian and Ubuntu, configuring and building.
# Sourced, never run.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
started=$SECONDS

say() { printf '\n==> [%d:%02d] %s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) "$*"; }
fail() {
  printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The number of compilers to run at once: one for each core, as far as there are 2 GB of memory for each.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 2000000)}' /proc/meminfo 2>/dev/null) || true
  [ "${memory:-0}" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "this needs root: run '$*' as root, then start again"
  fi
}

# require PACKAGE...: installs those that are missing.
require() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "no apt-get here; expecting what the Debian packages $* hold to be installed"
    return
  fi
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends)
  local log
  log=$(mktemp)
  # The package lists of a fresh machine are empty or old.
  as_root apt-get update -q >"$log" 2>&1 || { cat "$log" >&2; fail "'apt-get update' failed: is there a network?"; }
  as_root "${install[@]}" "${missing[@]}" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "could not install ${missing[*]}"; }
  rm -f "$log"
}

library_packages=(g++ cmake ninja-build python3 libasmjit-dev libeigen3-dev libtbb-dev libyaml-cpp-dev)

# configure PRESET [OPTION...]
configure() {
  local preset=$1 log
  shift
  log=$(mktemp)
  say "configuring build/$preset"
  (cd "$project" && cmake --preset "$preset" "$@") >"$log" 2>&1 || { cat "$log" >&2; fail "configuring build/$preset failed"; }
  grep -A4 -i 'warning' "$log" || true
  rm -f "$log"
}

# build PRESET [TARGET...]
build() {
  local preset=$1 targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  say "building build/$preset ${*:+($*)}"
  cmake --build "$project/build/$preset" -j "$(build_jobs)" "${targets[@]}" || fail "building build/$preset failed"
}
