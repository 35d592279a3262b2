"""Whole models, one training step: logits, loss, every gradient, running statistics, and the logits of evaluation."""

import copy

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

from . import formula
from .store import deviation, save

CLASSES = 10


class SimpleCNN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3)
        self.fc1 = torch.nn.Linear(32 * 26 * 26, CLASSES)

    def forward(self, x):
        return self.fc1(F.relu(self.conv1(x)).flatten(1))


# name: constructor, shape of a batch, label smoothing, number of the batch (chosen: see choose_batch.py)
MODELS = {
    "simple_cnn": (SimpleCNN, (8, 1, 28, 28), 0.0, 0),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=CLASSES), (4, 3, 64, 64), 0.0, 10),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=CLASSES), (4, 3, 32, 32), 0.1, 24),
}


def build(name):
    return formula.fill(MODELS[name][0]())


def batch(name, number, shape=None):
    """Inputs "<model>/input/<number>" with bound 2 and labels "<model>/labels/<number>"."""
    shape = shape or MODELS[name][1]
    return formula.values(f"{name}/input/{number}", shape), formula.labels(f"{name}/labels/{number}", shape[0], CLASSES)


def statistics(model):
    return {k: v for k, v in model.state_dict().items() if k.endswith(("running_mean", "running_var"))}


def step(name, dtype, channels_last):
    """Results of one forward and backward pass, as tensors by name."""
    model = build(name).to(dtype)
    x, y = batch(name, MODELS[name][3])
    x = x.to(dtype)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        evaluated = copy.deepcopy(model).eval()(x)
    logits = model(x)
    loss = F.cross_entropy(logits, y, label_smoothing=MODELS[name][2])
    loss.backward()
    return {
        "logits": logits.detach(),
        "eval_logits": evaluated,
        "loss": loss.detach(),
        "gradients": {k: p.grad for k, p in model.named_parameters()},
        "statistics": {k: v.clone() for k, v in statistics(model).items()},
    }


def fingerprints(tensors):
    return torch.from_numpy(np.stack([formula.fingerprint(t, k) for k, t in tensors.items()]))


def distances(got, want, tensors):
    """Row by row the distance of fingerprints, README.md's definition."""
    return [formula.distance(g.numpy(), w.numpy(), t.numel()) for g, w, t in zip(got, want, tensors.values())]


def relative_l2(got, want):
    return max(
        (g.double() - w).norm().item() / max(w.norm().item(), 1e-300) for g, w in zip(got.values(), want.values())
    )


def make_one(name):
    truth = step(name, torch.float64, False)
    singles = [step(name, torch.float32, channels_last) for channels_last in (False, True)]
    tensors = {k: truth[k] for k in ("logits", "eval_logits", "loss")}
    worst = {k: max(deviation(s[k], truth[k]) for s in singles) for k in tensors}
    scalars = {
        "model": name,
        "input_shape": list(MODELS[name][1]),
        "classes": CLASSES,
        "label_smoothing": MODELS[name][2],
        "batch": MODELS[name][3],
        "float32_deviation": worst,
        "parameters": sum(g.numel() for g in truth["gradients"].values()),
    }
    for kind in ("gradients", "statistics"):
        if not truth[kind]:
            continue
        tensors[kind] = fingerprints(truth[kind])
        rows = np.max([distances(fingerprints(s[kind]), tensors[kind], truth[kind]) for s in singles], axis=0)
        scalars[kind] = [
            {"name": k, "shape": list(t.shape), "float32_distance": float(d)}
            for (k, t), d in zip(truth[kind].items(), rows)
        ]
        worst[kind], worst[f"{kind}_relative_l2"] = (
            float(rows.max()),
            max(relative_l2(s[kind], truth[kind]) for s in singles),
        )
    if name == "simple_cnn":
        tensors.update({f"grad/{k}": g.float() for k, g in truth["gradients"].items()})
    print(
        f"  {name}: loss {truth['loss'].item():.6f}, float32 deviations",
        {k: f"{v:.1e}" for k, v in worst.items()},
        flush=True,
    )
    save(f"models/{name}", scalars, tensors)


def make():
    for name in MODELS:
        make_one(name)
