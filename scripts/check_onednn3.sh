#!/bin/bash
# Builds the kernels against oneDNN 3.2 in place of the distribution's 2.x and runs the tests of what uses it. The
# library comes as two PyPI wheels, which pip downloads unless they lie in the folder $ONEDNN3_WHEELS. All that is made
# lies under build/onednn3.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2023.2.0
build=$PWD/build/onednn3
root=$build/root
wheels=${ONEDNN3_WHEELS:-$build/wheels}
tests=(conv2d conv2d_algorithms gemm matmul)

mkdir -p "$build"
if ! compgen -G "$wheels/onednn_devel_cpu_gomp-$version-*.whl" >/dev/null; then
  python3 -m pip download --quiet --no-deps --dest "$wheels" \
    "onednn-cpu-gomp==$version" "onednn-devel-cpu-gomp==$version"
fi
rm -rf "$root"
mkdir -p "$root"
for wheel in "$wheels"/onednn_*"cpu_gomp-$version"-*.whl; do
  python3 -m zipfile -e "$wheel" "$root"
done
cp -r "$root"/onednn_*.data/data/* "$root"

cmake -S . -B "$build/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DENGINE_ONEDNN_ROOT="$root" >"$build/configure.log"
ninja -C "$build/tree" engine-kernels | tail -1

sources=(tests/support/tolerance.cpp)
for test in "${tests[@]}"; do sources+=("tests/kernels/${test}_test.cpp"); done
c++ -std=c++20 -O1 -march=native -fopenmp -I. "${sources[@]}" "$build/tree/kernels/libengine-kernels.a" \
  -L"$root/lib" -Wl,-rpath,"$root/lib" -l:libdnnl.so.3 -lgtest_main -lgtest -o "$build/tests"
ldd "$build/tests" | grep -F "$root/lib/libdnnl.so.3" >/dev/null || { echo "the tests load another oneDNN" >&2; exit 1; }
OMP_WAIT_POLICY=passive "$build/tests" --gtest_brief=1
