#!/usr/bin/env python3
"""Makes the golden files beside this script with PyTorch on the CPU; README.md describes them.

    python3 -m venv DIR && DIR/bin/pip install torch torchvision safetensors
    DIR/bin/python tests/golden/make_golden.py [PART ...]

Parts: ops, optimizers, schedules, models, trajectories, torch_files; all by default. Some minutes on 2 cores.
"""

import argparse
import time

import torch

from maker import models, ops, optimizers, schedules, torch_files, trajectories

PARTS = {
    "ops": ops.make,
    "optimizers": optimizers.make,
    "schedules": schedules.make,
    "models": models.make,
    "trajectories": trajectories.make,
    "torch_files": torch_files.make,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {sorted(unknown)}, expected some of {list(PARTS)}")
    torch.set_num_threads(options.threads)
    for name in options.parts or PARTS:
        start = time.time()
        PARTS[name]()
        print(f"{name}: {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
