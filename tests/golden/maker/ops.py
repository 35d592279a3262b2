"""Every op by itself: inputs, outputs and all gradients for a fixed upstream gradient, computed in float64.

A case runs a function of named tensors twice, in float64 for the truth and in float32 for the deviation that PyTorch
itself shows. Inputs come from the formula under the name "<op>/<case>/<tensor>" and are float32 numbers.
"""

import torch
import torch.nn.functional as F

from . import formula
from .store import deviation, save


class Op:
    """Collects the cases of one op and writes ops/<op>.{json,safetensors}."""

    def __init__(self, name):
        self.name, self.cases, self.tensors = name, [], {}

    def value(self, case, name, shape, offset=0.0, bound=2.0):
        return formula.values(f"{self.name}/{case}/{name}", shape, offset, bound)

    def add(self, case, function, inputs, attributes=None, constants=None):
        """function(inputs, constants) gives a tensor y or a dict of tensors, y first. Gradients are taken of y for each
        of `inputs`; `constants` are stored but not differentiated (integers keep their type)."""
        constants = constants or {}
        results = {}
        for dtype in (torch.float64, torch.float32):
            leaves = {k: v.clone().to(dtype).requires_grad_() for k, v in inputs.items()}
            fixed = {k: v.to(dtype) if v.is_floating_point() else v for k, v in constants.items()}
            outputs = function(leaves, fixed)
            outputs = outputs if isinstance(outputs, dict) else {"y": outputs}
            grad_y = self.value(case, "grad_y", outputs["y"].shape, bound=1.0)
            outputs["y"].backward(grad_y.to(dtype))
            grads = {f"grad_{k}": v.grad for k, v in leaves.items()}
            results[dtype] = {k: v.detach().clone() for k, v in {**outputs, **grads}.items()}
        truth = results[torch.float64]
        stored = {**inputs, **constants, "grad_y": grad_y, **truth}
        self.tensors.update({f"{case}/{k}": v.clone() for k, v in stored.items()})
        self.cases.append(
            {
                "name": case,
                "attributes": attributes or {},
                "inputs": list(inputs),
                "constants": list(constants),
                "outputs": [k for k in truth if not k.startswith("grad_")],
                "float32_deviation": {k: deviation(results[torch.float32][k], truth[k]) for k in truth},
            }
        )

    def save(self):
        save(f"ops/{self.name}", {"op": self.name, "cases": self.cases}, self.tensors)


def _pair(value):
    return list(value) if isinstance(value, tuple) else [value, value]


def conv2d():
    # name: n, c, h, w, k, r, s, stride, padding, dilation, groups, bias
    cases = {
        "1x1": (2, 8, 5, 6, 12, 1, 1, 1, 0, 1, 1, False),
        "1x1_stride2": (2, 16, 6, 7, 8, 1, 1, 2, 0, 1, 1, False),
        "3x3_no_padding": (3, 1, 9, 8, 4, 3, 3, 1, 0, 1, 1, True),
        "3x3": (2, 5, 7, 8, 6, 3, 3, 1, 1, 1, 1, False),
        "3x3_16_channels": (2, 16, 8, 8, 16, 3, 3, 1, 1, 1, 1, False),
        "3x3_32_channels_bias": (1, 32, 9, 10, 32, 3, 3, 1, 1, 1, 1, True),
        "3x3_stride2": (2, 8, 9, 8, 8, 3, 3, 2, 1, 1, 1, False),
        "7x7_stem": (2, 3, 18, 17, 8, 7, 7, 2, 3, 1, 1, False),
        "dilation2": (2, 4, 10, 11, 6, 3, 3, 1, 2, 2, 1, True),
        "dilation3_stride2": (1, 3, 13, 12, 5, 3, 3, 2, 1, 3, 1, False),
        "groups2": (2, 6, 7, 6, 8, 3, 3, 1, 1, 1, 2, True),
        "depthwise": (2, 8, 7, 8, 8, 3, 3, 1, 1, 1, 8, False),
        "depthwise_multiplier": (1, 4, 6, 7, 12, 3, 3, 2, 1, 1, 4, True),
        "uneven_filter": (2, 3, 8, 9, 4, 1, 5, 1, (0, 2), 1, 1, True),
        "uneven_all": (2, 4, 11, 10, 6, 3, 2, (2, 1), (1, 2), (1, 2), 2, True),
        "padding_beyond_filter": (1, 2, 4, 3, 3, 2, 2, 1, 2, 1, 1, True),
        "left_over_pixels": (1, 3, 8, 8, 4, 3, 3, 3, 0, 1, 1, False),
        "filter_is_image": (2, 3, 4, 5, 7, 4, 5, 1, 0, 1, 1, True),
        "one_pixel": (4, 16, 1, 1, 8, 3, 3, 1, 1, 1, 1, False),
    }
    op = Op("conv2d")
    for case, (n, c, h, w, k, r, s, stride, padding, dilation, groups, bias) in cases.items():
        inputs = {
            "x": op.value(case, "x", (n, c, h, w)),
            "weight": op.value(case, "weight", (k, c // groups, r, s), bound=1.0),
        }
        if bias:
            inputs["bias"] = op.value(case, "bias", (k,))
        attributes = dict(stride=_pair(stride), padding=_pair(padding), dilation=_pair(dilation), groups=groups)
        op.add(case, lambda i, _: F.conv2d(i["x"], i["weight"], i.get("bias"), **attributes), inputs, attributes)
    op.save()


def linear():
    op = Op("linear")
    for case, (n, c, k, bias) in {
        "bias": (5, 37, 10, True),
        "no_bias": (4, 64, 16, False),
        "one_row": (1, 20, 7, True),
        "one_column": (6, 9, 1, True),
        "wide": (8, 520, 33, True),
    }.items():
        inputs = {"x": op.value(case, "x", (n, c)), "weight": op.value(case, "weight", (k, c), bound=1.0)}
        if bias:
            inputs["bias"] = op.value(case, "bias", (k,))
        op.add(case, lambda i, _: F.linear(i["x"], i["weight"], i.get("bias")), inputs)
    op.save()


def flatten():
    """Columns in channel-height-width order; the engine permutes the linear layer's weight on the way in."""
    op = Op("flatten")
    inputs = {"x": op.value("linear", "x", (3, 4, 5, 6)), "weight": op.value("linear", "weight", (7, 120), bound=1.0)}
    op.add("linear", lambda i, _: F.linear(i["x"].flatten(1), i["weight"]), inputs)
    op.add("alone", lambda i, _: i["x"].flatten(1), {"x": op.value("alone", "x", (2, 3, 4, 2))})
    op.save()


def _batch_norm(i, fixed, train, momentum, eps, relu):
    mean, var = fixed["running_mean"].clone(), fixed["running_var"].clone()
    y = F.batch_norm(i["x"], mean, var, i["weight"], i["bias"], train, momentum, eps)
    y = y + i["residual"] if "residual" in i else y
    outputs = {"y": F.relu(y) if relu else y, "new_running_mean": mean, "new_running_var": var}
    if train:
        batch_var, batch_mean = torch.var_mean(i["x"], (0, 2, 3), correction=0)
        outputs.update(batch_mean=batch_mean, batch_var=batch_var)
    return outputs


def batch_norm():
    op = Op("batch_norm")
    # name: shape, train, momentum, eps, relu, residual, offset of x
    cases = {
        "train": ((4, 6, 5, 7), True, 0.1, 1e-5, False, False, 0.0),
        "train_relu": ((4, 16, 5, 4), True, 0.1, 1e-5, True, False, 0.0),
        "train_add_relu": ((3, 16, 4, 5), True, 0.1, 1e-5, True, True, 0.0),
        "train_add": ((3, 5, 4, 5), True, 0.1, 1e-5, False, True, 0.0),
        "train_momentum_eps": ((4, 3, 3, 3), True, 0.4, 1e-3, False, False, 0.0),
        "train_one_pixel": ((4, 8, 1, 1), True, 0.1, 1e-5, True, False, 0.0),
        "train_one_image": ((1, 8, 3, 4), True, 0.1, 1e-5, False, False, 0.0),
        "train_large_mean": ((8, 4, 9, 9), True, 0.1, 1e-5, False, False, 1000.0),
        "train_odd_channels": ((2, 37, 6, 5), True, 0.1, 1e-5, True, True, 0.5),
        "eval": ((4, 6, 5, 7), False, 0.1, 1e-5, False, False, 0.0),
        "eval_relu": ((2, 16, 5, 4), False, 0.1, 1e-5, True, False, 0.0),
        "eval_add_relu": ((3, 16, 4, 5), False, 0.1, 1e-5, True, True, 0.0),
    }
    for case, (shape, train, momentum, eps, relu, residual, offset) in cases.items():
        c = (shape[1],)
        inputs = {
            "x": op.value(case, "x", shape, offset),
            "weight": op.value(case, "weight", c, 1.0, 0.5),
            "bias": op.value(case, "bias", c),
        }
        if residual:
            inputs["residual"] = op.value(case, "residual", shape)
        constants = {
            "running_mean": op.value(case, "running_mean", c),
            "running_var": op.value(case, "running_var", c, 1.0, 0.5),
        }
        settings = dict(train=train, momentum=momentum, eps=eps, relu=relu)
        op.add(
            case,
            lambda i, fixed: _batch_norm(i, fixed, **settings),
            inputs,
            {**settings, "residual": residual},
            constants,
        )
    op.save()


def elementwise():
    op = Op("relu")
    op.add("random", lambda i, _: F.relu(i["x"]), {"x": op.value("random", "x", (2, 5, 6, 7))})
    zeros = torch.round(op.value("zeros", "x", (3, 4, 5, 5), bound=1.5))
    op.add(
        "zeros",
        lambda i, _: F.relu(i["x"]),
        {"x": torch.where(zeros == 0, torch.copysign(zeros * 0, op.value("zeros", "sign", zeros.shape)), zeros)},
    )
    op.save()
    op = Op("add")
    inputs = {k: op.value("same_shape", k, (2, 3, 5, 4)) for k in ("a", "b")}
    op.add("same_shape", lambda i, _: i["a"] + i["b"], inputs)
    op.add("with_itself", lambda i, _: i["a"] + i["a"], {"a": op.value("with_itself", "a", (7, 9))})
    op.save()


def pools():
    op = Op("max_pool2d")
    # name: shape, kernel, stride, padding, ties
    cases = {
        "3x3_stride2": ((2, 5, 9, 8), (3, 3), (2, 2), (1, 1), False),
        "2x2": ((2, 3, 6, 7), (2, 2), (2, 2), (0, 0), False),
        "overlap": ((1, 4, 7, 7), (3, 3), (1, 1), (1, 1), False),
        "uneven": ((2, 3, 8, 9), (3, 2), (2, 3), (1, 0), False),
        "ties_after_relu": ((2, 16, 9, 9), (3, 3), (2, 2), (1, 1), True),
        "all_negative": ((2, 3, 7, 7), (3, 3), (2, 2), (1, 1), False),
    }
    for case, (shape, kernel, stride, padding, ties) in cases.items():
        x = op.value(case, "x", shape, -3.0 if case == "all_negative" else 0.0)
        x = F.relu(torch.round(x)) if ties else x
        attributes = dict(kernel_size=list(kernel), stride=list(stride), padding=list(padding))
        op.add(case, lambda i, _: F.max_pool2d(i["x"], **attributes), {"x": x}, attributes)
    op.save()
    op = Op("avg_pool2d")
    cases = {
        "2x2": ((2, 3, 6, 7), (2, 2), (2, 2), (0, 0), True),
        "padding_counts": ((2, 5, 7, 8), (3, 3), (2, 2), (1, 1), True),
        "padding_does_not_count": ((2, 5, 7, 8), (3, 3), (2, 2), (1, 1), False),
        "uneven": ((1, 4, 8, 9), (3, 2), (2, 3), (1, 0), True),
    }
    for case, (shape, kernel, stride, padding, count) in cases.items():
        attributes = dict(kernel_size=list(kernel), stride=list(stride), padding=list(padding), count_include_pad=count)
        op.add(case, lambda i, _: F.avg_pool2d(i["x"], **attributes), {"x": op.value(case, "x", shape)}, attributes)
    op.save()
    op = Op("adaptive_avg_pool2d")
    for case, (shape, size) in {
        "global": ((3, 16, 7, 5), (1, 1)),
        "one_pixel": ((2, 8, 1, 1), (1, 1)),
        "even": ((2, 3, 6, 8), (3, 4)),
        "overlap": ((2, 3, 7, 10), (3, 4)),
    }.items():
        op.add(
            case,
            lambda i, _: F.adaptive_avg_pool2d(i["x"], size),
            {"x": op.value(case, "x", shape)},
            {"output_size": list(size)},
        )
    op.save()


def cross_entropy():
    """y is the mean over the batch, grad_y one number; `probabilities` is the softmax."""
    op = Op("cross_entropy")
    cases = {
        "plain": (6, 10, 0.0, 3.0),
        "smoothing": (6, 10, 0.1, 3.0),
        "smoothing_one": (3, 5, 1.0, 2.0),
        "one_row": (1, 1000, 0.1, 5.0),
        "two_classes": (9, 2, 0.05, 2.0),
        "huge_logits": (5, 7, 0.1, 30000.0),
        "many_rows": (70, 12, 0.0, 4.0),
    }
    for case, (n, classes, smoothing, bound) in cases.items():
        target = formula.labels(f"cross_entropy/{case}/target", n, classes)
        op.add(
            case,
            lambda i, fixed: {
                "y": F.cross_entropy(i["x"], fixed["target"], label_smoothing=smoothing),
                "probabilities": i["x"].softmax(1),
            },
            {"x": op.value(case, "x", (n, classes), bound=bound)},
            {"label_smoothing": smoothing},
            {"target": target},
        )
    known = torch.tensor([[2.0, 0.0, -1.0]])
    for case, smoothing in {"known": 0.1, "known_plain": 0.0}.items():
        op.add(
            case,
            lambda i, fixed: F.cross_entropy(i["x"], fixed["target"], label_smoothing=smoothing),
            {"x": known},
            {"label_smoothing": smoothing},
            {"target": torch.tensor([0])},
        )
    op.save()


def cast():
    """float32 to FP16 and BF16: ordinary numbers, ties, the borders of each range, subnormals, infinities, NaN."""
    tiny = [
        2.0**-24,
        2.0**-25,
        1.5 * 2.0**-25,
        3 * 2.0**-25,
        2.0**-14,
        2.0**-14 - 2.0**-25,
        2.0**-126,
        2.0**-133,
        2.0**-134,
        3 * 2.0**-134,
        2.0**-149,
    ]
    large = [65504.0, 65519.996, 65520.0, 65536.0, 3.3895314e38, 3.3961775e38, 3.4028235e38, float("inf"), float("nan")]
    ties = (
        [1 + i * 2.0**-11 for i in range(1, 8)]
        + [1 + i * 2.0**-8 for i in range(1, 8)]
        + [1 + 2.0**-8 + 2.0**-23, 1 + 2.0**-11 - 2.0**-23]
    )
    special = torch.tensor([0.0, *tiny, *large, *ties], dtype=torch.float32)
    scales = torch.pow(2.0, formula.values("cast/exponent", (512,), 0.0, 30.0).double()).float()
    x = torch.cat([special, -special, formula.values("cast/x", (512,)) * scales])
    save(
        "ops/cast",
        {"op": "cast"},
        {
            "x": x,
            "f16": x.half(),
            "bf16": x.bfloat16(),
            "f16_back": x.half().float(),
            "bf16_back": x.bfloat16().float(),
        },
    )


def make():
    for part in (conv2d, linear, flatten, batch_norm, elementwise, pools, cross_entropy, cast):
        part()
