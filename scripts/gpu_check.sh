#!/usr/bin/env bash
# Everything that needs a real GPU, in under eight minutes, and one table at the end: the device tests, a short
# training, the kernels' benchmarks against the copy bandwidth, whole training steps against PyTorch on the same card,
# and compute-sanitizer on the kernels' tests.
#
#   scripts/gpu_check.sh                 on a machine with a GPU; builds preset cuda where it is not built
#   scripts/gpu_check.sh --bundle DIR    on any machine: packs what a machine with a GPU needs, at most 60 MiB, to be
#                                        run there as DIR/gpu_check.sh, which unpacks the rest; nothing has to be
#                                        installed there but bash, tar and gzip
#
# Uses the PyTorch of `python3` where there is one (PYTHON names another interpreter) and compute-sanitizer where it is;
# what is missing is said in the table. Exit status 1 where a test failed or a fault was found, 2 without a GPU. Results
# go to DIR/results of a bundle, else to build/gpu-check.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

readonly time_limit=470      # seconds for all of it
readonly bundle_limit_mib=60
readonly chip=90             # what a bundle is built for: H100, H200
readonly copy_share=0.9      # of the copy bandwidth, for kernels bound by memory
python=${PYTHON:-python3}

say() { printf 'gpu_check.sh: %s\n' "$*"; }
fail() {
  say "error: $*" >&2
  exit 1
}

# The GPU's name, memory and driver, or why there is none; not the driver's own text, which has several lines.
gpu_name() {
  timeout 8 nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null | head -n 1
}

# Test programs with tests that use the device.
device_test_programs() {
  grep -rlE 'tests/support/(device|accelerator)\.h' tests --include='*.cpp' --include='*.h' |
    grep -v '_emulated' | cut -d/ -f2 | sort -u | grep -vE '^(support|emulator|dist)$' | sed 's/^/tests_/'
}

kernel_benchmarks() {
  local source
  for source in bench/*_bench.cpp; do
    source=${source##*/}
    case $source in data_pipeline_bench.cpp | all_reduce_bench.cpp) ;; *) echo "bench_${source%_bench.cpp}" ;; esac
  done
}

# --- packing ------------------------------------------------------------

# copy_libraries DIR PROGRAM...: the shared libraries that they need, but those of glibc, the driver and CUDA.
copy_libraries() {
  local folder=$1 library
  shift
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
    case ${library##*/} in
      libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libresolv.so.* | ld-linux*) ;;
      libcuda.so.* | libnvidia-* | libcudart.so.* | libcudnn* | libcublas* | libnccl* | libnvrtc* | libnvJitLink*) ;;
      *) cp -L "$library" "$folder" ;;
    esac
  done
}

bundle() {
  local target=$1 build=build/gpu-bundle programs=() program size parts
  mkdir -p "$target"
  [[ -z $(ls -A "$target") || -e $target/gpu_check.sh ]] || fail "$target is neither empty nor a bundle"
  mkdir -p build
  mapfile -t programs < <(echo engine_train; device_test_programs; kernel_benchmarks)
  say "building ${#programs[@]} programs for sm_$chip in $build"
  cmake --preset cuda -B "$build" -DCMAKE_CUDA_ARCHITECTURES="$chip-real" -DENGINE_CPU_ARCH=x86-64-v3 \
    -DENGINE_SHARED_KERNELS=ON -DENGINE_UNITY_BUILD=ON >build/gpu-bundle.log 2>&1 ||
    fail "cmake could not configure; see build/gpu-bundle.log"
  cmake --build "$build" --parallel "$(nproc)" --target "${programs[@]}" >>build/gpu-bundle.log 2>&1 ||
    fail "the build failed; see build/gpu-bundle.log"
  rm -rf "${target:?}/bin" "${target:?}/lib" "${target:?}/test-data"
  parts=$(mktemp -d)
  mkdir "$parts/bin" "$parts/lib" "$parts/test-data"
  for program in "${programs[@]}"; do
    cp "$build/bin/$program" "$parts/bin"
  done
  copy_libraries "$parts/lib" "$parts"/bin/*
  strip --strip-unneeded "$parts"/bin/* "$parts"/lib/*
  # What tests read, where test_data_dir() of tests/support looks for it.
  find tests/golden tests/cases -type f ! -name '*.cpp' ! -name '*.py' ! -path '*/.*' \
    -exec cp --parents -t "$parts/test-data" '{}' +
  tar -czf "$target/parts.tar.gz" -C "$parts" bin lib test-data
  rm -rf "$parts"
  cp scripts/gpu_check.sh bench/compare_pytorch_cuda.py "$target"
  [[ ! -e $build/ptxas.json ]] || cp "$build/ptxas.json" "$target"
  size=$(du -sm --apparent-size "$target" | cut -f 1)
  say "$size MiB in $target; run $target/gpu_check.sh on the machine with the GPU"
  ((size <= bundle_limit_mib)) || fail "a bundle may have $bundle_limit_mib MiB"
}

# --- running ------------------------------------------------------------

rows=()
failed=0
# row WHAT RESULT WANTED: a line of the table. WANTED may be empty.
row() {
  rows+=("$1"$'\t'"$2"$'\t'"$3")
  printf -- '-- %s: %s\n' "$1" "$2"
}

# limited SECONDS COMMAND...: stops it after so long, or when the time for everything is over.
limited() {
  local seconds=$1 left=$((time_limit - SECONDS))
  shift
  ((left >= seconds)) || seconds=$((left > 1 ? left : 1))
  timeout --kill-after=5 "$seconds" "$@"
}

# Where the libraries lie that CUDA brings: those of the toolkit, or of PyTorch's wheels.
cuda_library_folders() {
  printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda/lib
  "$python" - 2>/dev/null <<'PYTHON' || true
import glob, site, sysconfig
for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}:
    print("\n".join(glob.glob(f"{place}/nvidia/*/lib")))
PYTHON
}

# For our programs alone: the libraries of a bundle are not PyTorch's business. In the source tree the programs know
# where theirs are.
library_path=${LD_LIBRARY_PATH:-}
set_library_path() {
  local folder
  [[ -d $root/lib ]] || return 0
  library_path=$root/lib
  while read -r folder; do
    [[ ! -d $folder ]] || library_path+=:$folder
  done < <(cuda_library_folders)
}

# ours SECONDS PROGRAM...: as limited, for a program of this project.
ours() { LD_LIBRARY_PATH=$library_path limited "$@"; }

# counted LOG: "12 passed, 3 skipped, 1 failed" of a GoogleTest log.
counted() {
  awk '/^\[  PASSED  \] [0-9]+ test/ {p = $4}
       /^\[  SKIPPED \] [0-9]+ test/ {s = $4}
       /^\[  FAILED  \] [0-9]+ test/ {f = $4}
       END {printf "%d passed, %d skipped, %d failed", p, s, f}' "$1"
}

run_tests() {
  local program name log
  for program in "${tests[@]}"; do
    name=${program##*/}
    log=$results/$name.log
    if ours 150 "$program" --gtest_brief=0 >"$log" 2>&1; then
      row "$name" "$(counted "$log")" "0 failed"
    else
      row "$name" "exit $?, $(counted "$log"), see $log" "0 failed"
      failed=1
    fi
  done
}

# sanitize TOOL: compute-sanitizer on the kernels' device tests.
sanitize() {
  local tool=$1 log=$results/$1.log status=0
  ours 75 compute-sanitizer --tool "$tool" --error-exitcode 99 "$root/bin/tests_kernels" \
    --gtest_filter='*Device*' >"$log" 2>&1 || status=$?
  if grep -q 'Device not supported\|Unable to find injection\|not supported on this' "$log"; then
    row "compute-sanitizer $tool" "refuses this machine" ""
  elif ((status == 124 || status == 137)); then
    row "compute-sanitizer $tool" "time was up after $(grep -c '^\[       OK' "$log" || true) clean tests" "0 errors"
  elif ((status != 0)); then
    row "compute-sanitizer $tool" "exit $status: $(grep 'SUMMARY' "$log" | tail -n 1)" "0 errors"
    failed=1
  else
    row "compute-sanitizer $tool" "0 errors, $(counted "$log")" "0 errors"
  fi
}

run_sanitizers() {
  if ! command -v compute-sanitizer >/dev/null; then
    row "compute-sanitizer" "not on this machine" ""
    return
  fi
  sanitize memcheck
  sanitize racecheck
}

run_training() {
  local log=$results/train.log output
  output=$(mktemp -d)
  if ours 60 "$root/bin/engine_train" --model resnet50 --dataset synthetic --device cuda --batch-size 64 --steps 20 \
    --output-dir "$output/run" >"$log" 2>&1; then
    row "engine_train, ResNet-50, 20 steps" "$(tail -n 1 "$log" | cut -c 1-46)" "exit 0"
  else
    row "engine_train, ResNet-50, 20 steps" "exit $?: $(grep -m 1 'error' "$log" | cut -c 1-80 || true)" "exit 0"
    failed=1
  fi
  rm -rf "$output"
}

# The device's benchmarks have "/cuda_" in their names and say themselves how often they run, about a minute in all.
# Those bound by memory report of_copy, their share of the bandwidth of a copy on this card (above 1 where its L2 cache
# holds what they move), convolutions and matrix products tflops.
run_benchmarks() {
  local program name result wanted
  mkdir -p "$results/bench"
  for program in "$root"/bin/bench_*; do
    name=${program##*/}
    [[ -x $program ]] || continue
    case $name in bench_train_step | bench_data_pipeline | bench_all_reduce) continue ;; esac
    ours 30 "$program" --benchmark_filter=/cuda_ --benchmark_format=json \
      >"$results/bench/$name.json" 2>/dev/null || row "$name" "stopped or failed" ""
  done
  if ! command -v "$python" >/dev/null; then
    row "kernel benchmarks" "see $results/bench (no $python to read them)" ""
    return
  fi
  while IFS=$'\t' read -r name result wanted; do
    row "$name" "$result" "$wanted"
  done < <("$python" - "$copy_share" "$results"/bench/*.json <<'PYTHON'
import json, sys
for path in sys.argv[2:]:
    try:
        entries = json.load(open(path))["benchmarks"]
    except (ValueError, KeyError):
        continue  # it has none for a device
    for entry in entries:
        name = entry["name"].split("/iterations:")[0]
        if "of_copy" in entry:
            print(f"{name}\t{entry['of_copy']:.2f} of the copy bandwidth\tat least {sys.argv[1]}")
        elif "tflops" in entry:
            print(f"{name}\t{entry['tflops']:.1f} TFLOP/s\t")
        elif entry.get("error_occurred"):
            print(f"{name}\tfailed: {' '.join(entry['error_message'].split())[:60]}\t")
PYTHON
  )
}

compare_with_pytorch() {
  local name result wanted log=$results/compare.log
  limited 200 "$python" "$compare" --binary "$root/bin/bench_train_step" --json "$results/compare.json" \
    --library-path "$library_path" --table "$results/compare.tsv" >"$log" 2>&1 ||
    row "against PyTorch" "stopped or failed, see $log" ""
  [[ -e $results/compare.tsv ]] || return 0
  while IFS=$'\t' read -r name result wanted; do
    row "$name" "$result" "$wanted"
  done <"$results/compare.tsv"
}

# Columns of a width that fits, from lines with tabs.
aligned() {
  awk -F '\t' '{for (i = 1; i <= 2; ++i) if (length($i) > w[i]) w[i] = length($i); line[NR] = $0}
       END {
         for (n = 1; n <= NR; ++n) {
           split(line[n], f, "\t")
           printf "%-*s  %-*s  %s\n", w[1], f[1], w[2], f[2], f[3]
         }
       }'
}

build_here() {
  local programs=()
  mapfile -t programs < <(echo engine_train; device_test_programs; kernel_benchmarks)
  say "building ${#programs[@]} programs in build/cuda; this is not part of the eight minutes"
  cmake --preset cuda >/dev/null || fail "cmake could not configure preset cuda"
  cmake --build --preset cuda --parallel "$(nproc)" --target "${programs[@]}" >/dev/null || fail "the build failed"
  SECONDS=0
}

check() {
  local gpu
  gpu=$(gpu_name) || true
  if [[ -z $gpu ]]; then
    say "no NVIDIA GPU answers here (nvidia-smi is missing or finds none), so there is nothing to check" >&2
    exit 2
  fi
  if [[ -f $here/parts.tar.gz ]]; then
    [[ -d $here/bin ]] || tar -xzf "$here/parts.tar.gz" -C "$here" || fail "$here/parts.tar.gz could not be unpacked"
    root=$here results=$here/results compare=$here/compare_pytorch_cuda.py
    tests=("$root"/bin/tests_*)
  else
    cd "$here/.."
    root=$PWD/build/cuda results=$PWD/build/gpu-check compare=$PWD/bench/compare_pytorch_cuda.py
    [[ -x $root/bin/tests_kernels && -x $root/bin/bench_train_step ]] || build_here
    mapfile -t tests < <(device_test_programs | sed "s|^|$root/bin/|")
  fi
  mkdir -p "$results"
  set_library_path
  say "$gpu"
  run_tests
  run_training
  run_benchmarks
  compare_with_pytorch
  run_sanitizers
  {
    printf '\n%s, %s, %d s\n' "$gpu" "$("$root/bin/engine_train" --version 2>/dev/null || true)" "$SECONDS"
    printf '%s\n' $'what\tfound\twanted' "${rows[@]}" | aligned
  } | tee "$results/table.txt"
  exit "$failed"
}

case ${1:-} in
  "") check ;;
  --bundle)
    [[ $# -eq 2 && -f $here/../CMakePresets.json ]] || fail "expected --bundle DIR, in the source tree"
    mkdir -p "$2"
    target=$(cd "$2" && pwd)
    cd "$here/.."
    bundle "$target"
    ;;
  -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
  *) fail "unknown argument $1; expected nothing, or --bundle DIR" ;;
esac
