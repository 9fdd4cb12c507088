"""``lawscope init``: an example of a file to scan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lawscope.errors import LawscopeError
from lawscope.files import exists, write_whole

EXAMPLE = '''"""A network and its data, for: lawscope scan net.py

lawscope reads two names from this file:
  model   an nn.Module, or a function without arguments that returns one
  data    batches (x, y): a DataLoader, a Dataset, a list, or a function that returns one;
          dicts with "labels" (Hugging Face) work too, and so does data without labels
"""

import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(20, 64), nn.ReLU(),
    nn.Linear(64, 64), nn.ReLU(),
    nn.Linear(64, 64), nn.ReLU(),
    nn.Linear(64, 3),
)
# Trained weights go here, or on the command line: lawscope scan net.py --checkpoint weights.pt
# model.load_state_dict(torch.load("weights.pt", weights_only=True))


def data():
    """600 samples of three classes, in batches; put your own DataLoader here."""
    torch.manual_seed(0)
    y = torch.arange(600) % 3
    x = torch.randn(600, 20) + 2 * torch.eye(3, 20)[y]
    return list(zip(x.split(100), y.split(100)))
'''


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("net.py"),
) -> None:
    """Write an example of a file to scan: a network and its data, with comments."""
    if exists(path):
        raise LawscopeError(f"{path} is there already; give another name.")
    write_whole(EXAMPLE, path)
    typer.echo(f"{path} is written; change it to your network, then: lawscope scan {path}")
