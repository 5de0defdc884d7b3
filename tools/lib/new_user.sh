#!/usr/bin/env bash
# What a new user does with a clone of this repository: the demo, an installation, the README's program with
# find_package(sinter), the main suite. Each step's result goes, as a JUnit file, into the folder $SINTER_TEST_RESULTS.
# Usage: new_user.sh [--quick] [OPTION...]; --quick leaves the main suite out, whose ctest gets the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

results=${SINTER_TEST_RESULTS:?names the folder for the results}
mkdir -p "$results"
prefix=$HOME/prefix

# step NAME COMMAND...
step() {
  local name=$1 status=run
  shift
  say "new user: $name"
  ("$@") || status=fail
  echo "<testsuite><testcase name=\"new user: $name\" status=\"$status\"/></testsuite>" >"$results/new_user.${name//[^a-z]/_}.xml"
}

demo() { cd "$HOME" && "$project/tools/demo"; }
install_it() { cmake --install "$project/build/default" --prefix "$prefix" >/dev/null; }
readme_program() {
  python3 "$project/tests/package/readme_test.py" "$project/README.md" "$prefix" "$HOME/readme" g++ cmake Ninja
}

rm -rf "$prefix"
grep PRETTY_NAME /etc/os-release
step "demo" demo
g++ --version | head -n 1
cmake --version | head -n 1
step "install" install_it
step "the program in README.md" readme_program
if [ "${1:-}" != --quick ]; then
  "$project/tools/test" "$@" || true
fi
touch "$results/finished"
