#!/usr/bin/env bash
# Installs what is needed, builds everything of preset release and runs every test.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
source scripts/install.sh

install_packages "${engine_packages[@]}"
say "building"
build_preset release all
ctest --test-dir build/release --output-on-failure
