"""Files as PyTorch users write them: safetensors.torch.save_file(model.state_dict(), path)."""

import torch
from safetensors.torch import save_file

from . import formula
from .models import SimpleCNN
from .store import ROOT, save


class Small(torch.nn.Module):
    """Every kind of tensor that a ResNet's file holds, num_batches_tracked included."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 4, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(4)
        self.bn3 = torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(4, 5)


def make():
    folder = ROOT / "torch_files"
    folder.mkdir(exist_ok=True)
    small = formula.fill(Small())
    small.bn1.num_batches_tracked.fill_(1234567890123)
    save_file(formula.fill(SimpleCNN()).state_dict(), folder / "simple_cnn.safetensors")
    save_file(small.state_dict(), folder / "small.safetensors", metadata={"format": "pt"})
    save_file({f"module.{k}": v for k, v in small.state_dict().items()}, folder / "small_module_prefix.safetensors")
    described = {
        name: {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape)}
        for name, t in small.state_dict().items()
    }
    save("torch_files/small", {"tensors": described})
