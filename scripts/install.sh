# shellcheck shell=bash
# What the scripts share: messages, and the packages that building needs. To be sourced.

# Compiler and libraries; the last three are for tests and benchmarks.
# shellcheck disable=SC2034  # used by the scripts that source this
engine_packages=(g++ cmake ninja-build libdnnl-dev libboost-context-dev libjpeg-dev zlib1g-dev libssl-dev libprotobuf-dev protobuf-compiler
  libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libstb-dev libopenmpi-dev openmpi-bin libgtest-dev libgmock-dev libbenchmark-dev)

say() { printf '%s: %s\n' "$(basename "$0")" "$*"; }

fail() {
  printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# missing_packages NAME...: those that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
  done
}

# install_packages NAME...: installs what is missing, by apt-get, and says so.
install_packages() {
  local missing=() as_root=()
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    [[ -n ${ENGINE_SKIP_INSTALL:-} ]] && return
    fail "there is no apt-get here. Install what these packages of Debian hold: $*; then run it again with" \
      "ENGINE_SKIP_INSTALL=1"
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return
  [[ -n ${ENGINE_SKIP_INSTALL:-} ]] && fail "not installed: ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "not installed, and neither root nor sudo is here to do so: ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  # A list of packages that is old or absent makes the installation fail, and only then is a new one fetched.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null 2>&1 && return
  "${as_root[@]}" apt-get update -qq || fail "apt-get update failed (no network?). Still missing: ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null || fail "apt-get could not install: $(missing_packages "$@" | tr '\n' ' ')"
}

# build_preset NAME TARGET...: configures, with the flags in the array cmake_flags, and builds.
cmake_flags=()
build_preset() {
  local preset=$1 log
  shift
  log=build/$preset/configure.log
  mkdir -p "build/$preset"
  cmake --preset "$preset" "${cmake_flags[@]}" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "cmake could not configure preset $preset; all of its output is in $log"
  }
  cmake --build --preset "$preset" --parallel "$(nproc)" --target "$@" || fail "the build of preset $preset failed"
}
