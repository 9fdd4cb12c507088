"""Random Layer-Peeled programs, and what the solver makes of thousands of them.

    python tests/theory/random_programs.py 3000          # at most 24 groups: about a minute
    python tests/theory/random_programs.py 300 200       # at most 200 groups

Prints every program whose relative gap is above 1e-9 and a summary. Program i of seed s is always
the same one: ``random_program(s, i)``.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from lawscope.theory.layer_peeled.program import Program
from lawscope.theory.layer_peeled.solve import solve


def random_program(seed: int, index: int, most: int = 24) -> Program:
    """K from 2, ratios 1 … 1e6, energies 0.05 … 50, a fifth smoothed, a fifth adjusted."""
    rng = np.random.default_rng([seed, index])
    groups = int(np.exp(rng.uniform(0, np.log(most + 0.99))))
    sizes = rng.integers(1, 12, groups) if rng.random() < 0.7 else np.ones(groups, dtype=int)
    if sizes.sum() < 2:
        sizes[0] = 2
    ratio = 10 ** rng.uniform(0, 6)
    counts = np.sort(ratio ** rng.uniform(0, 1, groups))[::-1].copy()
    counts[0], counts[-1] = ratio, 1.0
    energies = np.exp(rng.uniform(np.log(0.05), np.log(50), 2))
    smoothing = float(rng.uniform(0, 0.3)) if rng.random() < 0.2 else 0.0
    alpha = counts / (sizes @ counts)
    offsets = np.log(alpha) if rng.random() < 0.2 else np.zeros(groups)
    tau = float(sizes.sum() * np.sqrt(energies.prod()))
    return Program(sizes.astype(float), alpha, offsets, smoothing, tau)


def main(number: int, most: int = 24, seed: int = 2) -> None:
    """Solve so many and say how it went."""
    worst, bad, steps, begun = 0.0, 0, [], time.process_time()
    for index in range(number):
        program = random_program(seed, index, most)
        with np.errstate(all="raise", under="ignore"):
            found = solve(program)
        relative = found.gap / found.point.loss
        worst = max(worst, relative)
        steps.append(found.steps)
        if relative > 1e-9:
            bad += 1
            print(f"{index}: {len(program.sizes)} groups, relative gap {relative:.1e}", flush=True)
    seconds = time.process_time() - begun
    print(f"{number} programs, {bad} above 1e-9, worst {worst:.1e}, {seconds:.0f} s of CPU")
    print(f"steps: mean {np.mean(steps):.1f}, 99 % {np.percentile(steps, 99):.0f}, {max(steps)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
