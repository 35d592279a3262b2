"""Writing of the golden files: tensors as safetensors, all else as JSON of the same name."""

import json
import pathlib

import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[1]


def save(name, scalars, tensors=None):
    """Writes <name>.json, and <name>.safetensors where there are tensors."""
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    scalars = {"torch": torch.__version__.split("+")[0], **scalars}
    path.with_suffix(".json").write_text(json.dumps(scalars, indent=1) + "\n")
    if tensors:
        save_file({k: v.detach().contiguous() for k, v in tensors.items()}, path.with_suffix(".safetensors"))


def deviation(got, want):
    """Largest error as a share of the largest true value."""
    scale = want.abs().max().item()
    return (got.double() - want.double()).abs().max().item() / (scale if scale > 0 else 1.0)
