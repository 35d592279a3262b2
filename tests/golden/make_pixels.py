#!/usr/bin/env python3
"""Writes pixels/: what Pillow and torchvision make of a few pictures. The tests of data/ compare with it.

Needs pillow, torch and torchvision, and the cases unpacked: make_pixels.py FOLDER, where FOLDER holds what is in
tests/cases/hand.tar.gz. Made with Pillow 13.0, torchvision 0.29.
"""

import json
import os
import sys

import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PHOTO = "samples/sign_digits/train/0/IMG_1118.JPG"
OTHER = "samples/sign_digits/train/7/" + sorted(os.listdir(os.path.join(ROOT, "data/samples/sign_digits/train/7")))[0]
LARGE = "cases/H-IMG-12/size_640x427.jpg"
SQUARE = "cases/H-IMG-03/control_full.jpg"


def path_of(name, cases):
    kind, rest = name.split("/", 1)
    return os.path.join(ROOT, "data/samples", rest) if kind == "samples" else os.path.join(cases, "hand", rest)


def read(name, mode, cases):
    return Image.open(path_of(name, cases)).convert("L" if mode == "gray" else "RGB")


def decoded():
    return [{"kind": "decode", "source": source, "mode": mode} for source, mode in ((PHOTO, "rgb"), (OTHER, "gray"))]


def centred():
    """Resize(resize) and CenterCrop(crop)."""
    sizes = [
        (LARGE, "rgb", 256, 224),
        (SQUARE, "rgb", 72, 64),
        (PHOTO, "rgb", 64, 64),
        (PHOTO, "rgb", 73, 64),
        (PHOTO, "gray", 31, 28),
        (OTHER, "rgb", 130, 65),
    ]
    return [
        {"kind": "center", "source": s, "mode": mode, "resize": resize, "crop": crop} for s, mode, resize, crop in sizes
    ]


def boxed():
    """resized_crop() of a box [top, left, height, width]."""
    boxes = [
        (LARGE, "rgb", [13, 57, 300, 411], 64),
        (LARGE, "rgb", [0, 0, 427, 640], 48),
        (PHOTO, "rgb", [20, 31, 47, 39], 64),
        (OTHER, "gray", [50, 2, 33, 90], 28),
        (SQUARE, "rgb", [511, 511, 1, 1], 8),
    ]
    return [{"kind": "box", "source": s, "mode": mode, "box": box, "crop": crop} for s, mode, box, crop in boxes]


def result_of(entry, cases):
    image = read(entry["source"], entry["mode"], cases)
    if entry["kind"] == "center":
        image = functional.center_crop(functional.resize(image, entry["resize"]), entry["crop"])
    elif entry["kind"] == "box":
        image = functional.resized_crop(image, *entry["box"], [entry["crop"], entry["crop"]])
    return image


def crop_statistics(width, height, count=20000):
    """Mean and standard deviation of RandomResizedCrop's top, left, height and width."""
    torch.manual_seed(0)
    image = Image.new("L", (width, height))
    draws = [transforms.RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)]
    values = torch.tensor(draws, dtype=torch.float64)
    return {
        "width": width,
        "height": height,
        "draws": count,
        "mean": values.mean(0).tolist(),
        "std": values.std(0).tolist(),
    }


def main():
    cases = sys.argv[1]
    folder = os.path.join(HERE, "pixels")
    os.makedirs(folder, exist_ok=True)
    entries = decoded() + centred() + boxed()
    for number, entry in enumerate(entries):
        entry["result"] = f"{number:02d}.png"
        result_of(entry, cases).save(os.path.join(folder, entry["result"]), optimize=True)
    sizes = [
        [w, h, *reversed(functional._compute_resized_output_size((h, w), [256]))]
        for w, h in ((640, 427), (500, 375), (375, 500), (100, 100), (256, 256), (1, 9), (333, 334), (4000, 3))
    ]
    document = {
        "pictures": entries,
        "resized_sizes": sizes,
        "crops": [crop_statistics(500, 375), crop_statistics(100, 100)],
    }
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")


main()
