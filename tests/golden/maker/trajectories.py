"""Ten steps of each optimizer on whole models, a new batch each step: losses, and fingerprints of the parameters'
change and of the running statistics at the end. All values are the formula's, and after the first step nothing keeps
ReLU inputs clear of zero: float32 trajectories of the ResNet part soon, so compare those in double."""

import numpy as np
import torch
import torch.nn.functional as F

from . import models, optimizers
from .store import save

STEPS = 10
SHAPES = {"simple_cnn": (8, 1, 28, 28), "resnet18": (8, 3, 32, 32)}
# name: variant of optimizers.VARIANTS, learning rate by model
RUNS = {
    "sgd_momentum": {"simple_cnn": 1e-3, "resnet18": 1e-4},
    "sgd_momentum_weight_decay": {"simple_cnn": 1e-3, "resnet18": 1e-4},
    "sgd_nesterov_weight_decay": {"simple_cnn": 1e-3, "resnet18": 1e-4},
    "adam": {"simple_cnn": 1e-4, "resnet18": 1e-5},
    "adam_weight_decay": {"simple_cnn": 1e-4, "resnet18": 1e-5},
    "adamw": {"simple_cnn": 1e-4, "resnet18": 1e-5},
}


def train(name, kind, settings, dtype):
    model = models.build(name).to(dtype)
    initial = {k: p.detach().double().clone() for k, p in model.named_parameters()}
    optimizer = kind(model.parameters(), **settings)
    losses = []
    for step in range(STEPS):
        x, y = models.batch(name, step, SHAPES[name])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(dtype)), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {k: p.detach().double() - initial[k] for k, p in model.named_parameters()}, models.statistics(model)


def make_one(name, run, settings, tensors):
    kind, base = optimizers.VARIANTS[run]
    settings = {**base, "lr": settings}
    truth, single = (train(name, kind, settings, dtype) for dtype in (torch.float64, torch.float32))
    loss_errors = [abs(s - t) / abs(t) for s, t in zip(single[0], truth[0])]
    result = {
        "name": run,
        "optimizer": kind.__name__.lower(),
        "settings": settings,
        "losses": truth[0],
        "float32_losses": single[0],
        "float32_loss_deviation": loss_errors,
    }
    for label, got, want in (("changes", single[1], truth[1]), ("statistics", single[2], truth[2])):
        if want:
            tensors[f"{run}/{label}"] = models.fingerprints(want)
            result[f"float32_{label}_distance"] = models.distances(
                models.fingerprints(got), tensors[f"{run}/{label}"], want
            )
    worst = f"{max(loss_errors):.1e} in the loss, {np.max(result['float32_changes_distance']):.1e} in the changes"
    print(f"  {name} {run}: losses {truth[0][0]:.4f} to {truth[0][-1]:.4f}, float32 deviates by {worst}", flush=True)
    return result


def make():
    for name, shape in SHAPES.items():
        tensors = {}
        results = [make_one(name, run, rates[name], tensors) for run, rates in RUNS.items()]
        state = models.build(name)
        names = {"parameters": [k for k, _ in state.named_parameters()], "statistics": list(models.statistics(state))}
        save(
            f"trajectories/{name}",
            {
                "model": name,
                "input_shape": list(shape),
                "classes": models.CLASSES,
                "steps": STEPS,
                **names,
                "runs": results,
            },
            tensors,
        )
