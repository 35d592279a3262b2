"""Values that Python and C++ compute alike, bit for bit, so that inputs and weights need no file.

The mixing function is the 32-bit "lowbias32" found by Chris Wellons' hash-prospector; a name is hashed with FNV-1a.
tests/support/golden.h is the same in C++.
"""

import numpy as np
import torch

_M32 = np.uint64(0xFFFFFFFF)


def _mix(x):
    x = x ^ (x >> np.uint64(16))
    x = (x * np.uint64(0x7FEB352D)) & _M32
    x = x ^ (x >> np.uint64(15))
    x = (x * np.uint64(0x846CA68B)) & _M32
    return x ^ (x >> np.uint64(16))


def name_hash(name):
    h = 0x811C9DC5
    for byte in name.encode():
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return np.uint64(h)


def bits(name, count):
    """Element i is mix(fnv1a(name) ^ mix(i)), as uint64 below 2^32."""
    return _mix(name_hash(name) ^ _mix(np.arange(count, dtype=np.uint64)))


def unit(name, count):
    """In [-1, 1), exact in double: bits / 2^31 - 1."""
    return bits(name, count).astype(np.float64) / 2.0**31 - 1.0


def values(name, shape, offset=0.0, bound=2.0):
    """float32(offset + bound * unit), the sum and product in double; elements in PyTorch's memory order."""
    scaled = bound * unit(name, int(np.prod(shape, dtype=np.int64)))
    return torch.from_numpy((offset + scaled).astype(np.float32)).reshape(tuple(shape))


def labels(name, count, classes):
    return torch.from_numpy((bits(name, count) % np.uint64(classes)).astype(np.int64))


def state_value(name, shape):
    """A model's parameter or buffer by its torchvision name."""
    if name.endswith("num_batches_tracked"):
        return torch.zeros((), dtype=torch.int64)
    if name.endswith("running_mean"):
        return values(name, shape, 0.0, 0.25)
    if name.endswith("running_var"):
        return values(name, shape, 1.0, 0.5)
    if name.endswith("bias"):
        return values(name, shape, 0.0, 0.125)
    if name.endswith("bn3.weight"):
        return values(name, shape, 0.25, 0.125)
    if len(shape) == 1:
        return values(name, shape, 1.0, 0.25)
    fan_in = int(np.prod(shape[1:], dtype=np.int64))
    return values(name, shape, 0.0, float(np.sqrt(6.0 / fan_in)))


def fill(model):
    """Overwrites every parameter and buffer of a model by the formula."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(state_value(name, tensor.shape))
    return model


VALUES = 16


def positions(name, count):
    """The 16 flat indices whose values a fingerprint keeps: the first, the last and 14 by the hash."""
    chosen = bits(name + "/positions", VALUES) % np.uint64(count)
    chosen[0], chosen[-1] = 0, count - 1
    return chosen.astype(np.int64)


def fingerprint(tensor, name):
    """L2 norm, sum, sum of value times unit(name + "/probe"), and 16 values; 19 doubles."""
    flat = tensor.detach().double().contiguous().reshape(-1).numpy()
    probe = unit(name + "/probe", flat.size)
    return np.concatenate([[np.sqrt(np.sum(flat * flat)), flat.sum(), flat @ probe], flat[positions(name, flat.size)]])


def distance(got, want, count):
    """How far a fingerprint of `count` values is from the true one; README.md has the definition."""
    norm = want[0]
    if norm == 0:
        return 0.0 if np.all(got == 0) else float("inf")
    rms = norm / np.sqrt(count)
    scale = np.concatenate([[norm, norm * np.sqrt(count), norm], np.maximum(np.abs(want[3:]), rms)])
    return float(np.max(np.abs(got - want) / scale))
