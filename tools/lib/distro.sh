# What a new user does on another distribution: `tools/test --distro NAME` makes a root folder of that distribution with
# debootstrap, and there, from a fresh copy of this working tree, runs the demo, installs, builds the README's program with
# find_package(sinter), and runs the main suite. Sourced, never run; new_user.sh is what runs inside.
# The root folders are kept in ${XDG_CACHE_HOME:-~/.cache}/sinter, outside the working tree, so that only the first run
# downloads; the copy of the tree and its builds are made anew each time.

known_distros="trixie (Debian 13), noble (Ubuntu 24.04)"
# Ubuntu's keys are no package of Debian: they come from Ubuntu, and must be the file of this checksum.
ubuntu_archive=http://archive.ubuntu.com/ubuntu
ubuntu_keyring=ubuntu-keyring_2023.11.28.1_all.deb
ubuntu_keyring_sha256=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8

# fetch_ubuntu_keyring FOLDER: prints the path of the keys of Ubuntu's archive, which it unpacks into the folder.
fetch_ubuntu_keyring() {
  wget -q -O "$1/keyring.deb" "$ubuntu_archive/pool/main/u/ubuntu-keyring/$ubuntu_keyring" || fail "cannot download $ubuntu_keyring"
  echo "$ubuntu_keyring_sha256  $1/keyring.deb" | sha256sum --check --status || fail "$ubuntu_keyring has another checksum than expected"
  dpkg-deb -x "$1/keyring.deb" "$1/keyring"
  echo "$1/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg"
}

# make_root DISTRO ROOT: a minimal root folder of the distribution, unless it is there already.
make_root() {
  local distro=$1 root=$2 log downloads keyring bootstrap=(debootstrap --variant=minbase)
  [ -f "$root.complete" ] && return
  require debootstrap debian-archive-keyring wget
  say "making a root folder of $distro in $root"
  log=$(mktemp)
  downloads=$(mktemp -d)
  case "$distro" in
    trixie) bootstrap+=(trixie "$root" http://deb.debian.org/debian) ;;
    # Named by its script, because debootstrap of Debian 12 is older than this release of Ubuntu.
    noble)
      keyring=$(fetch_ubuntu_keyring "$downloads")
      bootstrap+=(--components=main,universe "--keyring=$keyring" noble "$root" "$ubuntu_archive" /usr/share/debootstrap/scripts/gutsy)
      ;;
  esac
  as_root rm -rf "$root"   # what an interrupted run left
  mkdir -p "$(dirname "$root")"
  as_root "${bootstrap[@]}" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "debootstrap could not make $root"; }
  rm -rf "$log" "$downloads"
  touch "$root.complete"
}

# copy_tree ROOT: the tracked files of the working tree, with its changes, as /root/sinter; nothing else of it.
copy_tree() {
  local target=$1/root/sinter
  as_root rm -rf "$target"
  as_root mkdir -p "$target"
  if git -C "$project" rev-parse --git-dir >/dev/null 2>&1; then
    (cd "$project" && git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
      tar -c --null --files-from=-) | as_root tar -x -C "$target" --no-same-owner
  else   # a released archive
    tar -c -C "$project" --exclude=./build . | as_root tar -x -C "$target" --no-same-owner
  fi
}

# in_root ROOT COMMAND...: runs a command there, with /proc and /dev where this machine lets us mount them, and with nothing
# of our environment but proxies and what steers the tests.
in_root() {
  local root=$1 name kept=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  shift
  for name in http_proxy https_proxy no_proxy SINTER_FUZZ_SECONDS SINTER_FUZZ_ROUNDS SINTER_FUZZ_FIRST SINTER_FUZZ_SEED; do
    [ -z "${!name:-}" ] || kept+=("$name=${!name}")
  done
  as_root cp /etc/resolv.conf "$root/etc/resolv.conf"
  # shellcheck disable=SC2016
  local enter='root=$1; shift
    mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc" 2>/dev/null || echo "no /proc in $root: mounts are not allowed here"
    mount --rbind /dev "$root/dev" 2>/dev/null || true
    exec chroot "$root" env -i "$@"'
  # In a mount namespace of its own nothing stays mounted, however this ends.
  if as_root unshare --mount true 2>/dev/null; then
    as_root unshare --mount sh -c "$enter" sh "$root" "${kept[@]}" "$@"
  else
    as_root chroot "$root" env -i "${kept[@]}" "$@"
  fi
}

# distro_suite DISTRO [--quick] [OPTION...]: leaves the results in $results. --quick: without the main suite, whose ctest
# gets the options.
distro_suite() {
  local distro=${1:-} root file
  [ $# -eq 0 ] || shift
  case "$distro" in trixie | noble) ;; *) fail "unknown distribution '$distro': there are $known_distros" ;; esac
  root=${XDG_CACHE_HOME:-$HOME/.cache}/sinter/$distro
  mkdir -p "$(dirname "$root")"
  exec 9>"$root.lock"
  flock --nonblock 9 || { say "waiting for another run in $root"; flock 9; }
  make_root "$distro" "$root"
  copy_tree "$root"
  as_root rm -rf "$root/root/results"
  in_root "$root" SINTER_TEST_RESULTS=/root/results bash /root/sinter/tools/lib/new_user.sh "$@" </dev/null || true
  for file in "$root"/root/results/*; do
    [ ! -f "$file" ] || cp "$file" "$results/$distro.${file##*/}"
  done
  # An environment that broke off before its first result must not pass for one without failures.
  [ -f "$root/root/results/finished" ] || touch "$results/$distro.broke_off.does_not_build"
}
