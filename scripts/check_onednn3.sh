#!/bin/bash
# Builds what uses oneDNN against version 3.2 in place of the distribution's 2.x and runs its tests; the other kernels
# are those of build/release. The library comes as two PyPI wheels, which pip downloads unless they lie in the folder
# $ONEDNN3_WHEELS. All that is made lies under build/onednn3.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
source scripts/install.sh

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

build_preset release engine-kernels | tail -1

# The objects of what sees oneDNN's headers come before the library that has them for the distribution's.
mapfile -t sources < <(grep -rlE '#include .*(oneapi/dnnl|onednn_api\.h)' kernels --include='*.cpp')
sources+=(tests/support/tolerance.cpp)
for test in "${tests[@]}"; do sources+=("tests/kernels/${test}_test.cpp"); done
# compile SOURCE: into object_of SOURCE.
object_of() { printf '%s/objects/%s.o' "$build" "${1//\//-}"; }
compile() {
  c++ -std=c++20 -O1 -fno-math-errno -march=native -fopenmp -I. -isystem "$root/include" -c "$1" -o "$(object_of "$1")"
}
export build root
export -f compile object_of
mkdir -p "$build/objects"
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'compile "{}"'
objects=()
for source in "${sources[@]}"; do objects+=("$(object_of "$source")"); done
c++ -fopenmp "${objects[@]}" build/release/kernels/libengine-kernels.a \
  -L"$root/lib" -Wl,-rpath,"$root/lib" -l:libdnnl.so.3 -lgtest_main -lgtest -o "$build/tests"
libraries=$(ldd "$build/tests" | grep -F libdnnl)
[[ $libraries == *"$root/lib/libdnnl.so.3"* && $libraries != *libdnnl.so.2* ]] ||
  fail "the tests load another oneDNN: $libraries"
OMP_WAIT_POLICY=passive "$build/tests" --gtest_brief=1
