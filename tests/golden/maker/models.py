"""Whole models, one training step: logits, loss, every gradient, running statistics, and the logits of evaluation."""

import copy
import functools

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

from . import clearance, formula
from .store import deviation, save

CLASSES = 10


class SimpleCNN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3)
        self.fc1 = torch.nn.Linear(32 * 26 * 26, CLASSES)

    def forward(self, x):
        return self.fc1(F.relu(self.conv1(x)).flatten(1))


# name: constructor, shape of a batch, label smoothing
MODELS = {
    "simple_cnn": (SimpleCNN, (8, 1, 28, 28), 0.0),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=CLASSES), (4, 3, 64, 64), 0.0),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=CLASSES), (4, 3, 64, 64), 0.1),
}
# What float32 is tried in for its deviation: memory format and threads.
SINGLES = [
    (torch.contiguous_format, 2),
    (torch.channels_last, 2),
    (torch.contiguous_format, 1),
    (torch.channels_last, 1),
]


def build(name):
    """The model with every value by the formula."""
    return formula.fill(MODELS[name][0]())


def batch(name, number, shape=None):
    """Inputs "<model>/input/<number>" with bound 2 and labels "<model>/labels/<number>"."""
    shape = shape or MODELS[name][1]
    return formula.values(f"{name}/input/{number}", shape), formula.labels(f"{name}/labels/{number}", shape[0], CLASSES)


@functools.cache
def cleared_biases(name):
    """Biases of batch norms that keep the ReLUs' inputs clear of zero, by name; none for SimpleCNN."""
    if name == "simple_cnn":
        return {}
    model = build(name).double()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    clearance.clear_biases(model, batch(name, 0)[0].double())
    after = {k: v.float() for k, v in model.state_dict().items() if k.endswith("bias")}
    return {k: v for k, v in after.items() if not torch.equal(v.double(), before[k])}


def statistics(model):
    return {k: v for k, v in model.state_dict().items() if k.endswith(("running_mean", "running_var"))}


def step(name, dtype, memory_format=torch.contiguous_format):
    """Results of one forward and backward pass, as tensors by name."""
    model = build(name)
    model.load_state_dict(cleared_biases(name), strict=False)
    model = model.to(dtype).to(memory_format=memory_format)
    x, y = batch(name, 0)
    x = x.to(dtype).to(memory_format=memory_format)
    with torch.no_grad():
        evaluated = copy.deepcopy(model).eval()(x)
    relu_inputs = clearance.relu_inputs(copy.deepcopy(model), x)
    logits = model(x)
    loss = F.cross_entropy(logits, y, label_smoothing=MODELS[name][2])
    loss.backward()
    return {
        "logits": logits.detach(),
        "eval_logits": evaluated,
        "loss": loss.detach(),
        "gradients": {k: p.grad for k, p in model.named_parameters()},
        "statistics": {k: v.clone() for k, v in statistics(model).items()},
        "relu_inputs": relu_inputs,
    }


def single_steps(name):
    threads = torch.get_num_threads()
    results = []
    for memory_format, count in SINGLES:
        torch.set_num_threads(count)
        results.append(step(name, torch.float32, memory_format))
    torch.set_num_threads(threads)
    return results


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
    truth, singles = step(name, torch.float64), single_steps(name)
    tensors = {k: truth[k] for k in ("logits", "eval_logits", "loss")}
    tensors.update({f"state/{k}": v for k, v in cleared_biases(name).items()})
    worst = {k: max(deviation(s[k], truth[k]) for s in singles) for k in ("logits", "eval_logits", "loss")}
    scalars = {
        "model": name,
        "input_shape": list(MODELS[name][1]),
        "classes": CLASSES,
        "label_smoothing": MODELS[name][2],
        "parameters": sum(g.numel() for g in truth["gradients"].values()),
        "float32_deviation": worst,
    }
    if truth["relu_inputs"]:
        clear = [clearance.clearance(truth["relu_inputs"], s["relu_inputs"]) for s in singles]
        scalars["relu_clearance"] = min(clear)
    for kind in ("gradients", "statistics"):
        if not truth[kind]:
            continue
        tensors[kind] = fingerprints(truth[kind])
        rows = np.max([distances(fingerprints(s[kind]), tensors[kind], truth[kind]) for s in singles], axis=0)
        worst[f"{kind}_relative_l2"] = max(relative_l2(s[kind], truth[kind]) for s in singles)
        worst[f"{kind}_distance"] = float(rows.max())
        scalars[kind] = [
            {"name": k, "shape": list(t.shape), "float32_distance": float(d)}
            for (k, t), d in zip(truth[kind].items(), rows)
        ]
    if name == "simple_cnn":
        tensors.update({f"grad/{k}": g.float() for k, g in truth["gradients"].items()})
    figures = {k: f"{v:.1e}" for k, v in worst.items()}
    print(
        f"  {name}: loss {truth['loss'].item():.6f}, clearance {scalars.get('relu_clearance', 0):.1f}, {figures}",
        flush=True,
    )
    save(f"models/{name}", scalars, tensors)


def make():
    for name in MODELS:
        make_one(name)
