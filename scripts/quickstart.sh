#!/usr/bin/env bash
# From nothing to a trained ResNet-50: installs what is needed, builds engine_train, trains on the bundled photos, shows
# what the network says about three photos that it has not seen. A second run skips what is done.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
source scripts/install.sh

binary=build/release/bin/engine_train
photos=data/samples/sign_digits
output=runs/quickstart
finished=$output/quickstart.done

began=$SECONDS
install_packages "${engine_packages[@]}"
say "building $binary"
build_preset release engine_train

if [[ -e $finished ]]; then
  say "already trained: $output"
else
  say "training ResNet-50 on the photos in $photos"
  "$binary" --model resnet50 --output-dir "$output" --resume auto
  touch "$finished"
fi

pictures=()
for class in 0 4 7; do
  for picture in "$photos/val/$class/"*; do
    pictures+=("$picture")
    break
  done
done
say "what it says about three validation photos, best guess first (the folder is the right answer):"
"$binary" predict --checkpoint "$output/last.safetensors" "${pictures[@]}"

top1=$(sed -n 's/.*"kind": *"eval".*"val_top1": *\([0-9.]*\).*/\1/p' "$output/metrics.jsonl" | tail -n 1)
say "results are in $output: metrics.jsonl, TensorBoard events, best.safetensors, last.safetensors"
say "done in $((SECONDS - began)) s: $(LC_ALL=C printf '%.2f' "$top1") % of the validation photos are recognised"
