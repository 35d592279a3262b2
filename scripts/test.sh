#!/usr/bin/env bash
# Installs what is needed, builds everything of preset release and runs every test.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
source scripts/install.sh

install_packages "${engine_packages[@]}"
say "building"
# shellcheck disable=SC2034  # build_preset reads it
[[ -n ${CI:-} ]] && cmake_flags=(-DENGINE_WARNINGS_AS_ERRORS=ON -DENGINE_PTXAS=OFF)  # its CUDA build has the registers
build_preset release all
ctest --test-dir build/release --output-on-failure --parallel "$(nproc)"
say "done in $SECONDS s: all tests passed"
