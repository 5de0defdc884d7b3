# `tools/test --cross PROCESSOR`: builds the library and the core of the tests for another processor, on which everything runs
# on the reference back end, and runs them in qemu-user. Sourced, never run.

# make_sysroot FOLDER: TBB, Eigen and Catch2 for arm64, unpacked into the folder. apt's own state stays as it is: the lists of
# the other architecture are kept in the folder, too.
make_sysroot() {
  local folder=$1 log options package
  local packages=(libtbb-dev libtbb12 libtbbmalloc2 libtbbbind-2-5 libeigen3-dev catch2)
  [ -f "$folder/complete" ] && return
  command -v apt-get >/dev/null || fail "the libraries for arm64 come from Debian's archive: this needs apt-get"
  say "fetching ${packages[*]} for arm64 into $folder"
  log=$(mktemp)
  mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
  : >"$folder/apt/status"
  options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$folder/apt" -o "Dir::State::status=$folder/apt/status"
    -o "Dir::Cache=$folder/apt" -o "APT::Sandbox::User=$(id -un)")
  apt-get "${options[@]}" -q update >"$log" 2>&1 || { cat "$log" >&2; fail "could not read the lists of packages for arm64"; }
  (cd "$folder/apt" && apt-get "${options[@]}" -q download "${packages[@]}") >"$log" 2>&1 ||
    { cat "$log" >&2; fail "could not download ${packages[*]} for arm64"; }
  for package in "$folder"/apt/*.deb; do dpkg-deb -x "$package" "$folder"; done
  rm -rf "$log" "$folder/apt"
  touch "$folder/complete"
}

# cross_suite PROCESSOR [OPTION...]: options go to ctest.
cross_suite() {
  local processor=${1:-}
  [ "$processor" = aarch64 ] || fail "unknown processor '$processor': there is aarch64"
  shift
  require g++ cmake ninja-build python3 g++-aarch64-linux-gnu qemu-user
  export SINTER_SYSROOT=${XDG_CACHE_HOME:-$HOME/.cache}/sinter/aarch64
  make_sysroot "$SINTER_SYSROOT"
  stage aarch64 "$@"
}
