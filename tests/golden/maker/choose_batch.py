"""How the batches in models.MODELS were chosen, run by hand: python -m maker.choose_batch resnet50 4 64 60

Where float32 puts a value near zero on the other side of a ReLU than float64, whole gradients change by up to some
percent, and comparing them says little. For each batch this prints by how much the ReLU inputs stay clear of zero: the
smallest |input| of a layer as a multiple of the largest float32 error in that layer (two memory formats), the worst
layer counting. Batches well above 1 are good ones.
"""

import sys

import torch

from . import models


def relu_inputs(name, shape, salt, dtype, memory_format):
    model = models.build(name).to(dtype).to(memory_format=memory_format)
    inputs = []
    for module in model.modules():
        if isinstance(module, torch.nn.ReLU):
            module.inplace = False
            module.register_forward_pre_hook(lambda _, x: inputs.append(x[0].detach().double()))
    with torch.no_grad():
        model(models.batch(name, salt, shape)[0].to(dtype).to(memory_format=memory_format))
    return inputs


def clearance(name, shape, salt):
    truth = relu_inputs(name, shape, salt, torch.float64, torch.contiguous_format)
    worst = float("inf")
    for memory_format in (torch.contiguous_format, torch.channels_last):
        single = relu_inputs(name, shape, salt, torch.float32, memory_format)
        worst = min(worst, *((t.abs().min() / (s - t).abs().max()).item() for s, t in zip(single, truth)))
    return worst


def main():
    name, (images, size, count) = sys.argv[1], map(int, sys.argv[2:])
    for salt in range(count):
        print(salt, f"{clearance(name, (images, 3, size, size), salt):.2f}", flush=True)


if __name__ == "__main__":
    main()
