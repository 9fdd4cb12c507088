"""Linear equations whose matrix is near the identity, in a few products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MOST_STEPS = 30
FAINT = 1e-6  # an eigenvalue below it is not near the identity, and may be rounding
Map = Callable[[Tensor], Tensor]


def conjugate_gradients(apply: Map, targets: Tensor, accuracy: float) -> Tensor | None:
    """X of A·X = B, all columns at once, by Hestenes' and Stiefel's method.

    Where the eigenvalues of A lie between a and b, every step shortens the error by
    (√b − √a)/(√b + √a).

    Args:
        apply: a symmetric positive definite map A of columns (d, q).
        targets: B, shape (d, q).
        accuracy: of every column, ‖B − A·X‖ over ‖B‖.

    Returns:
        X; None where 30 steps do not reach it, or lead along a direction that A all but deletes.

    Example:
        >>> diagonal = torch.tensor([[1.0], [2.0]]).double()
        >>> found = conjugate_gradients(lambda v: diagonal * v, torch.ones(2, 1).double(), 1e-12)
        >>> found.round(decimals=9).tolist()
        [[1.0], [0.5]]
    """
    solution, residual, direction = torch.zeros_like(targets), targets.clone(), targets
    size = residual.square().sum(dim=0)
    enough = accuracy**2 * size
    for _ in range(MOST_STEPS):
        open_columns = size > enough
        if not bool(open_columns.any()):
            return solution
        image = apply(direction)
        curvature = (direction * image).sum(dim=0)
        if bool((open_columns & ~(curvature > FAINT * direction.square().sum(dim=0))).any()):
            return None
        step = torch.where(open_columns, size / curvature, 0.0)
        solution = solution.addcmul_(direction, step)
        residual = residual.addcmul_(image, step, value=-1)
        before, size = size, residual.square().sum(dim=0)
        direction = residual + torch.where(open_columns, size / before, 0.0) * direction
    return None
