"""Keeps the inputs of a model's ReLUs clear of zero for one batch, so that float32 gradients can be compared strictly.

Where rounding puts one value on the other side of zero, whole gradients change by up to some percent: with plain
formula weights a ResNet-50 at 64x64 has one to four such values in float32, and PyTorch's own gradients are then off by
1e-2. So the biases of its batch norms are moved, channel by channel, by as little as leaves no ReLU input nearer to
zero than 2e-4 of the layer's root mean square; float32 errors there are below 1e-4 of it."""

import torch

CLEAR = 2e-4


def _shift(values, limit):
    """The smallest of some candidate shifts after which each |value| is at least `limit`."""
    steps = torch.arange(400, dtype=torch.float64) * limit
    for candidate in torch.stack([steps, -steps], 1).flatten():
        if (values + candidate).abs().min() >= limit:
            return candidate
    raise RuntimeError("no shift keeps a channel clear of zero")


def _clear(norm, x):
    """Moves norm.bias so that x, the ReLU's input that contains norm's output, is clear; gives the new x."""
    channels = x.transpose(0, 1).flatten(1)
    limit = CLEAR * x.pow(2).mean().sqrt()
    moved = norm.bias.clone()
    for channel in (channels.abs().min(1).values < limit).nonzero().flatten().tolist():
        moved[channel] += _shift(channels[channel], 1.1 * limit)
    moved = moved.float().double()
    delta, norm.bias.data = moved - norm.bias, moved
    return x + delta[:, None, None]


def clear_biases(model, images):
    """Moves the batch norms' biases of a torchvision ResNet in double precision and training mode, in place. The k-th
    call of a block's one ReLU follows its k-th batch norm."""
    hooks = []
    for block in [model, *(b for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for b in layer)]:
        norms = iter(
            [n for n in (block.bn1, getattr(block, "bn2", None), getattr(block, "bn3", None)) if n is not None]
        )
        block.relu.inplace = False
        hooks.append(block.relu.register_forward_pre_hook(lambda _, x, norms=norms: (_clear(next(norms), x[0]),)))
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()


def relu_inputs(model, images):
    """The inputs of all ReLUs, in double."""
    inputs, hooks = [], []
    for module in model.modules():
        if isinstance(module, torch.nn.ReLU):
            module.inplace = False
            hooks.append(module.register_forward_pre_hook(lambda _, x: inputs.append(x[0].detach().double())))
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return inputs


def clearance(truth, single):
    """Smallest |input| of a layer as a multiple of the largest float32 error in that layer; the worst layer."""
    return min((t.abs().min() / (s - t).abs().max()).item() for s, t in zip(single, truth))
