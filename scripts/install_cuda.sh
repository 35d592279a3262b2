#!/usr/bin/env bash
# The CUDA toolkit, cuDNN and NCCL from PyPI, for machines that have none: 2 GB in a virtual environment of their own,
# which nothing else is changed by. No GPU and no driver is needed to build with it.
#
#   scripts/install_cuda.sh [FOLDER]             everything, by default into build/cuda-toolkit
#   scripts/install_cuda.sh --headers [FOLDER]   only the headers of cudnn-frontend (1 MB), which toolkits do not have,
#                                                by default into build/cuda-headers
#
# cmake --preset cuda finds both by itself; another FOLDER is named with -DENGINE_CUDA_ROOT=FOLDER. A second run finds
# everything there and changes nothing.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
source scripts/install.sh

# One release of the toolkit; drivers from 580 on run what it builds.
readonly toolkit=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-cccl==13.0.85
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-nvrtc==13.0.88 nvidia-nvjitlink==13.0.88 nvidia-nvml-dev==13.0.87
  nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56 nvidia-nccl-cu13==2.28.9)
readonly frontend=nvidia-cudnn-frontend==1.23.0

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' scripts/install_cuda.sh
  exit "$1"
}

# install_headers FOLDER: unpacks the wheel's headers.
install_headers() {
  local folder=$1 wheels
  if [[ -f $folder/$frontend && -f $folder/include/cudnn_frontend.h ]]; then
    say "$frontend is already in $folder"
    return
  fi
  python3 -m pip --version >/dev/null 2>&1 || install_packages python3 python3-pip
  say "bringing the headers of $frontend into $folder"
  wheels=$(mktemp -d)
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$wheels" "$frontend" ||
    fail "pip could not download $frontend (no network?)"
  python3 -m zipfile -e "$wheels"/nvidia_cudnn_frontend-*.whl "$wheels/unpacked"
  mkdir -p "$folder"
  cp -r "$wheels/unpacked/include" "$folder"
  touch "$folder/$frontend"
  rm -rf "$wheels"
}

# install_toolkit FOLDER: the virtual environment.
install_toolkit() {
  local folder=$1 nvcc
  if ! [[ -x $folder/bin/python ]]; then
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3 python3-venv
    say "making a virtual environment in $folder"
    python3 -m venv "$folder" || fail "python3 -m venv failed; on Debian and Ubuntu the package python3-venv has it"
  fi
  say "bringing ${toolkit[*]} $frontend"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "${toolkit[@]}" "$frontend" ||
    fail "pip could not install them (no network, or less than 3 GB free?)"
  nvcc=$(compgen -G "$folder/lib/python3*/site-packages/nvidia/cu13/bin/nvcc") || fail "the wheels have brought no nvcc"
  "$nvcc" --version | tail -n 2 | head -n 1
  say "$(du -sh "$folder" | cut -f 1) in $folder"
}

main() {
  local what=toolkit default=build/cuda-toolkit folder shown
  case ${1:-} in
    --headers)
      what=headers default=build/cuda-headers
      shift
      ;;
    -h | --help) usage 0 ;;
    -*) usage 2 >&2 ;;
  esac
  (($# <= 1)) || usage 2 >&2
  folder=${1:-$default}
  [[ $# -eq 0 || $folder == /* ]] || folder=$here/$folder
  "install_$what" "$folder"
  shown=""
  (($# == 0)) || shown=" -DENGINE_CUDA_ROOT=$folder"
  say "next: cmake --preset cuda$shown && cmake --build --preset cuda"
}

main "$@"
