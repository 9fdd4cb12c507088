"""An optimiser that knows no closed form: Newton's method from several starts."""

import numpy as np
import torch
from scipy.optimize import minimize


def minimise(loss, shapes, starts=2, seed=0):
    """Return the best loss and its arguments; ``loss`` takes float64 tensors of these shapes."""
    sizes = [int(np.prod(shape)) for shape in shapes]

    def split(flat):
        parts = torch.split(torch.as_tensor(flat), sizes)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def value(flat):
        return loss(*split(flat))

    def as_numpy(function):
        return lambda flat: function(torch.from_numpy(flat)).numpy()

    slope, curvature = as_numpy(torch.func.grad(value)), as_numpy(torch.func.hessian(value))
    rng = np.random.default_rng(seed)
    found = [
        minimize(
            as_numpy(value),
            rng.normal(size=sum(sizes)),
            jac=slope,
            hess=curvature,
            method="trust-exact",
            options={"gtol": 1e-9},
        )
        for _ in range(starts)
    ]
    best = min(found, key=lambda each: each.fun)
    flat = polish(best.x, slope, curvature)
    return float(value(torch.from_numpy(flat))), [part.numpy() for part in split(flat)]


def polish(flat, slope, curvature, steps=80):
    """Follow the gradient to its zero, where differences of the loss are lost in rounding."""
    size = np.linalg.norm(slope(flat))
    for _ in range(steps):
        trial = flat - np.linalg.lstsq(curvature(flat), slope(flat), rcond=1e-12)[0]
        trial_size = np.linalg.norm(slope(trial))
        if not trial_size < size:
            break
        flat, size = trial, trial_size
    return flat
