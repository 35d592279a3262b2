#!/usr/bin/env python3
"""What SimpleCNN reaches with PyTorch on the bundled digits: the reference for the engine's own learning test.

    python3 -m venv DIR && DIR/bin/pip install torch torchvision safetensors
    DIR/bin/python tests/golden/digits_reference.py

Writes tests/golden/digits_reference.json. Recipe: Normalize(0.1307, 0.3081), Adam 1e-3, batch 64 with the last, smaller
batch kept, 3 epochs over the 10,000 bundled training digits, top-1 over all 10,000 test digits. Two minutes on 2 cores.
"""

import argparse
import datetime
import gzip
import json
import pathlib
import statistics

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
EPOCHS, BATCH, LEARNING_RATE = 3, 64, 1e-3


def read_idx(path):
    """The unsigned bytes of a gzip-compressed IDX file."""
    data = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def load(folder, part):
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz").float()[:, None] / 255
    return (images - 0.1307) / 0.3081, read_idx(folder / f"{part}-labels-idx1-ubyte.gz").long()


class SimpleCNN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3)
        self.fc1 = torch.nn.Linear(32 * 26 * 26, 10)

    def forward(self, x):
        return self.fc1(F.relu(self.conv1(x)).flatten(1))


def initialise(model, scheme):
    """pytorch: the layers' own. he_conv: as torchvision's ResNets, convolutions normal with fan out, biases 0 and the
    linear layer left as it is. he_all: the linear layer's weight by fan out too (standard deviation 0.447)."""
    if scheme == "pytorch":
        return
    for layer in [model.conv1] + ([model.fc1] if scheme == "he_all" else []):
        torch.nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        torch.nn.init.zeros_(layer.bias)


def top1(model, images, labels):
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(1000), labels.split(1000)))
    return 100 * hits / len(labels)


def train(train_set, test_set, scheme, seed):
    torch.manual_seed(seed)
    model = SimpleCNN()
    initialise(model, scheme)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    curve = []
    for _ in range(EPOCHS):
        total = 0.0
        for index in torch.randperm(len(train_set[1])).split(BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(train_set[0][index]), train_set[1][index])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(index)
        curve.append({"train_loss": total / len(train_set[1]), "val_top1": top1(model, *test_set)})
    print(
        f"{scheme} seed {seed}: " + "  ".join(f"{e['train_loss']:.4f} {e['val_top1']:.2f} %" for e in curve), flush=True
    )
    return curve


def summary(curves):
    last = [curve[-1]["val_top1"] for curve in curves]
    return {
        "mean_of_first_five": statistics.mean(last[:5]),
        "mean": statistics.mean(last),
        "standard_deviation_of_one_run": statistics.stdev(last),
        "lowest": min(last),
        "highest": max(last),
        "val_top1": last,
        "mean_train_loss_by_epoch": [statistics.mean(c[e]["train_loss"] for c in curves) for e in range(EPOCHS)],
        "mean_val_top1_by_epoch": [statistics.mean(c[e]["val_top1"] for c in curves) for e in range(EPOCHS)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "data/samples/mnist")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "digits_reference.json")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sets = load(options.data, "train"), load(options.data, "t10k")
    result = {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "recipe": "SimpleCNN, Adam 1e-3, batch 64, last batch of 16 kept, 3 epochs, Normalize(0.1307, 0.3081)",
        "images": {"train": len(sets[0][1]), "test": len(sets[1][1])},
        "seeds": options.seeds,
        "threads": options.threads,
        "initialisation": {
            scheme: summary([train(*sets, scheme, seed) for seed in range(options.seeds)])
            for scheme in ("pytorch", "he_conv", "he_all")
        },
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
