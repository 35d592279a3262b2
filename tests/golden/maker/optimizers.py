"""Update rules by themselves: a vector of parameters and ten given gradients, the parameters after each step."""

import numpy as np
import torch

from . import formula
from .store import save

COUNT, STEPS = 40, 10

VARIANTS = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
    "sgd_weight_decay": (torch.optim.SGD, dict(lr=0.1, weight_decay=0.05)),
    "sgd_momentum_weight_decay": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.05)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True)),
    "sgd_nesterov_weight_decay": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam_weight_decay": (torch.optim.Adam, dict(lr=0.01, weight_decay=0.05)),
    "adam_betas_eps": (torch.optim.Adam, dict(lr=0.01, betas=[0.8, 0.95], eps=1e-3)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.05)),
    "adamw_no_decay": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.0)),
}
SLOTS = {"momentum_buffer": "momentum", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}


def gradients():
    """[steps, count]; some are exactly zero, some as small as Adam's epsilon, some large."""
    grads = formula.values("optimizers/gradients", (STEPS, COUNT), bound=1.0)
    grads[:, 0] = 0.0
    grads[:, 1] *= 1e-8
    grads[:, 2] *= 1e4
    grads[3:, 3] = 0.0
    return grads


def rates():
    """A learning rate that changes from step to step, as factor of the variant's own."""
    return [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 1.0, 0.1, 0.1, 0.0]


def run(kind, settings, dtype):
    parameter = formula.values("optimizers/parameters", (COUNT,)).to(dtype).requires_grad_()
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    optimizer = kind([parameter], **settings)
    history = []
    for grad, rate in zip(gradients(), rates()):
        optimizer.param_groups[0]["lr"] = settings["lr"] * rate
        parameter.grad = grad.to(dtype)
        optimizer.step()
        history.append(parameter.detach().clone())
    slots = {SLOTS[k]: v.clone() for k, v in optimizer.state[parameter].items() if k in SLOTS and v is not None}
    return torch.stack(history), slots


def clipping():
    """torch.nn.utils.clip_grad_norm_ over two tensors: the norm before, and the gradients after, for several limits."""
    shapes, rows = {"a": (3, 4), "b": (5,)}, []
    for limit in (0.5, 1.0, 100.0):
        tensors = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in shapes.values()]
        for tensor, (name, shape) in zip(tensors, shapes.items()):
            tensor.grad = formula.values(f"clip/{name}", shape).double()
        norm = torch.nn.utils.clip_grad_norm_(tensors, limit)
        rows.append(
            {"max_norm": limit, "norm": norm.item(), **{n: t.grad.flatten().tolist() for n, t in zip(shapes, tensors)}}
        )
    return {"shapes": {k: list(v) for k, v in shapes.items()}, "cases": rows}


def make():
    tensors = {"parameters": formula.values("optimizers/parameters", (COUNT,)), "gradients": gradients()}
    variants = []
    for name, (kind, settings) in VARIANTS.items():
        truth, slots = run(kind, settings, torch.float64)
        single, _ = run(kind, settings, torch.float32)
        tensors[f"{name}/parameters"] = truth
        tensors.update({f"{name}/{slot}": value for slot, value in slots.items()})
        error = (single.double() - truth).abs() / truth.abs().clamp_min(1e-30)
        variants.append(
            {
                "name": name,
                "optimizer": kind.__name__.lower(),
                "settings": settings,
                "slots": list(slots),
                "float32_deviation": float(np.max(error.numpy())),
            }
        )
    save("optimizers", {"variants": variants, "rate_factors": rates(), "clip_grad_norm": clipping()}, tensors)
