"""Learning rates of PyTorch's schedulers, put together as torchvision's reference trainer does: LinearLR for the
warm-up, then the main scheduler, whose clock starts at the end of the warm-up (SequentialLR)."""

import warnings

import torch
from torch.optim import lr_scheduler as lrs

from .store import save

# name: scheduler, warm-up length, number of values, settings; the unit is what one scheduler step stands for.
CASES = {
    "constant": ("constant", 0, 12, {}),
    "constant_warmup": ("constant", 4, 12, {"warmup_decay": 0.01}),
    "step": ("step", 0, 20, {"step_size": 6, "gamma": 0.1}),
    "step_warmup": ("step", 5, 24, {"step_size": 6, "gamma": 0.5, "warmup_decay": 0.01}),
    "multistep": ("multistep", 0, 20, {"milestones": [3, 8, 9, 15], "gamma": 0.2}),
    "multistep_warmup": ("multistep", 3, 20, {"milestones": [4, 9], "gamma": 0.1, "warmup_decay": 0.1}),
    "cosine": ("cosine", 0, 10, {"eta_min": 0.0}),
    "cosine_minimum": ("cosine", 0, 15, {"eta_min": 0.004}),
    "cosine_warmup": ("cosine", 5, 30, {"eta_min": 0.0, "warmup_decay": 0.01}),
    "cosine_minimum_warmup": ("cosine", 1, 9, {"eta_min": 0.001, "warmup_decay": 0.1}),
    "imagenet": ("cosine", 5, 90, {"eta_min": 0.0, "warmup_decay": 0.01}),
    "steps_cosine_warmup": ("cosine", 20, 200, {"eta_min": 0.0, "warmup_decay": 0.01}),
    "steps_step_warmup": ("step", 7, 100, {"step_size": 25, "gamma": 0.1, "warmup_decay": 0.01}),
}
BASE = 0.1


def rates(kind, warmup, count, settings):
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([parameter], lr=BASE)
    main = {
        "constant": lambda: lrs.ConstantLR(optimizer, factor=1.0, total_iters=0),
        "step": lambda: lrs.StepLR(optimizer, settings["step_size"], settings["gamma"]),
        "multistep": lambda: lrs.MultiStepLR(optimizer, settings["milestones"], settings["gamma"]),
        "cosine": lambda: lrs.CosineAnnealingLR(optimizer, T_max=count - warmup, eta_min=settings["eta_min"]),
    }[kind]()
    if warmup:
        linear = lrs.LinearLR(optimizer, start_factor=settings["warmup_decay"], total_iters=warmup)
        main = lrs.SequentialLR(optimizer, [linear, main], milestones=[warmup])
    values = []
    for _ in range(count):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        main.step()
    return values


def make():
    warnings.simplefilter("ignore")
    cases = []
    for name, (kind, warmup, count, settings) in CASES.items():
        cases.append(
            {
                "name": name,
                "scheduler": kind,
                "base": BASE,
                "warmup": warmup,
                "count": count,
                "unit": "step" if name.startswith("steps_") else "epoch",
                **settings,
                "rates": rates(kind, warmup, count, settings),
            }
        )
    save("schedules", {"cases": cases})
