#!/usr/bin/env python3
"""Weights both ways between torchvision and a built engine_train; run by hand, the figures belong in bench/RESULTS.md.

    python3 -m venv DIR && DIR/bin/pip install torch torchvision safetensors
    DIR/bin/python tests/golden/check_exchange.py [--binary build/release/bin/engine_train] [--model resnet50]

1. torchvision's model, with running statistics that fit it, is saved by safetensors.torch. `engine_train predict
   --init-weights` on a PNG picture must give torchvision's logits to 1e-4 relative to the largest.
2. One training step from that file, `engine_train export`, safetensors.torch.load_file and load_state_dict: the logits
   of torchvision must equal those of `engine_train predict --checkpoint` to 1e-4.
The picture has the network's size, so that resizing plays no part; the same comparison on a picture that is resized is
printed for information (the engine's pixels may differ from Pillow's by 1/255).
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file
from torchvision.transforms import v2

LIMIT, SIZE = 1e-4, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(path, width, height):
    """A smooth picture with some noise, the same each time."""
    x, y = np.meshgrid(np.linspace(0, 9, width), np.linspace(0, 7, height))
    waves = np.stack([np.sin(x + y), np.cos(1.7 * x - y), np.sin(0.6 * x * y)], -1)
    noise = np.random.default_rng(1).normal(0, 8, waves.shape)
    Image.fromarray((127 + 100 * waves + noise).clip(0, 255).astype(np.uint8)).save(path)
    return path


def reference_model(name, classes):
    """Random weights, running statistics from ten batches of noise, so that activations keep a sane size."""
    torch.manual_seed(7)
    model = torchvision.models.get_model(name, num_classes=classes)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = None
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.3, 0.3)
        for _ in range(10):
            model(torch.randn(4, 3, 96, 96))
    return model.eval()


def torch_logits(model, path, resize):
    transform = v2.Compose(
        [
            v2.Resize(resize, antialias=True),
            v2.CenterCrop(SIZE),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    with torch.no_grad():
        return model(transform(Image.open(path).convert("RGB"))[None])[0].numpy()


class Engine:
    def __init__(self, binary, model):
        self.binary, self.model = str(binary), model

    def run(self, *arguments):
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def logits(self, weights, path, resize):
        sizes = ("--val-resize-size", resize, "--val-crop-size", SIZE)
        answer = json.loads(self.run("predict", *weights, path, *sizes, "--device", "cpu", "--logits", "--json"))
        return np.array(answer["predictions"][0]["logits"])


class Report:
    def __init__(self):
        self.failed = False

    def compare(self, what, got, want, limit=LIMIT):
        error = float(np.max(np.abs(got - want)) / np.max(np.abs(want))) if got.shape == want.shape else float("nan")
        good = limit is None or error <= limit
        self.failed |= not good
        note = "information" if limit is None else f"limit {limit:g}: {'ok' if good else 'WRONG'}"
        print(f"{what}: {error:.2e} of the largest logit ({np.max(np.abs(want)):.4g}), {note}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("build/release/bin/engine_train"))
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--classes", type=int, default=1000)
    options = parser.parse_args()
    engine, report = Engine(options.binary, options.model), Report()
    print(f"{options.model}, torch {torch.__version__}, torchvision {torchvision.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        exact, resized = picture(folder / "exact.png", SIZE, SIZE), picture(folder / "resized.png", 500, 375)
        model, weights = reference_model(options.model, options.classes), folder / "torchvision.safetensors"
        save_file(model.state_dict(), weights)
        source = ("--model", options.model, "--init-weights", weights)
        report.compare("import, 224x224", engine.logits(source, exact, SIZE), torch_logits(model, exact, SIZE))
        report.compare(
            "import, 500x375 resized", engine.logits(source, resized, 256), torch_logits(model, resized, 256), None
        )

        run = folder / "run"
        engine.run(
            *source,
            "--dataset",
            "synthetic",
            "--num-classes",
            options.classes,
            "--steps",
            1,
            "--batch-size",
            4,
            "--lr",
            1e-4,
            "--train-crop-size",
            64,
            "--val-resize-size",
            64,
            "--val-crop-size",
            64,
            "--output-dir",
            run,
            "--quiet",
        )
        print(
            "export:",
            engine.run(
                "export", "--checkpoint", run / "last.safetensors", "--to", folder / "out.safetensors", "--json"
            ).strip(),
        )
        exported = load_file(folder / "out.safetensors")
        back = torchvision.models.get_model(options.model, num_classes=options.classes)
        print("load_state_dict:", back.load_state_dict(exported, strict=True))
        back.eval()
        checkpoint = ("--checkpoint", run / "last.safetensors")
        report.compare("export, 224x224", engine.logits(checkpoint, exact, SIZE), torch_logits(back, exact, SIZE))
        moved = max((exported[k].double() - p.double()).abs().max().item() for k, p in model.named_parameters())
        counted = {int(v) for k, v in exported.items() if k.endswith("num_batches_tracked")}
        print(f"the step moved a parameter by at most {moved:.2e}; num_batches_tracked {sorted(counted)}")
        if not moved < 0.1:
            report.failed = True
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
