"""Peak memory beyond the network, each figure the median of processes of their own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row, at_most

SAMPLES = (2500, 5000)
LIMIT_MB = 1000.0
REPEATS = 3
# Large blocks straight from the system and back: otherwise glibc keeps freed ones or not, by its
# own habits, and the peak tells of them rather than of the memory in use.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_TRIM_THRESHOLD_": "1000000"}


def peak_mb(samples: int) -> float:
    """Growth of the peak resident size while a conv station of d = 65 536 is measured."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    import lawscope as ls

    class Noise(Dataset):
        """Made on demand, so that the data itself takes no memory."""

        def __len__(self) -> int:
            return samples

        def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
            generator = torch.Generator().manual_seed(i)
            return torch.randn(3, 32, 32, generator=generator) + i % 10, i % 10

    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    loader = DataLoader(Noise(), batch_size=100)
    with torch.no_grad():
        model(next(iter(loader))[0])
    before = high_water_mb()
    result = ls.separation(model, loader, memory="512MB")
    assert result.dims[1] == 65_536
    return high_water_mb() - before


def high_water_mb() -> float:
    """Peak resident size of this process; unlike getrusage, not inherited from the parent."""
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1e3


def rows() -> Iterator[Row]:
    """The budget, and that twice the data takes no more."""
    peaks: dict[int, list[float]] = {samples: [] for samples in SAMPLES}
    for _ in range(REPEATS):
        for samples in SAMPLES:
            command = [sys.executable, "-m", "benchmarks.memory", str(samples)]
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=os.environ | ALLOCATOR
            )
            peaks[samples].append(float(json.loads(done.stdout)))
    few, many = (statistics.median(peaks[samples]) for samples in SAMPLES)
    yield at_most(
        f"peak memory, conv d = 65536, n = {SAMPLES[1]}", many, "1 GB", LIMIT_MB, 1.0, unit="MB"
    )
    yield at_most(
        f"peak memory, n = {SAMPLES[1]} against n = {SAMPLES[0]}",
        many,
        f"the same with n = {SAMPLES[0]}",
        few,
        1.1,
        unit="MB",
    )


if __name__ == "__main__":
    print(json.dumps(peak_mb(int(sys.argv[1]))))
