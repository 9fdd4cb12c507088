"""The moments of one layer, gathered while rows stream by."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lawscope.capture.linear import LinearLayer
from lawscope.laws.alignment.sketch import WHOLE, Frame
from lawscope.statistics.distributed import gathered
from lawscope.statistics.fold_moments import FoldMoments
from lawscope.statistics.row_buffer import RowBuffer

BUFFER_ROWS = 2048  # a product of so many rows hides what it costs to add d² numbers in float64
BUFFER_BYTES = 32 * 10**6


class LayerSums:
    """H_a, G_b and E[g_b h_aᵀ] of a layer, by fold; H_b and G_a too where they are not derived.

    Args:
        layer: whose rows come.
        folds: how many.
        unit: rows are brought to length 1, and H_b and G_a measured.
        frame: directions of a wide layer, in which its rows are read.
    """

    def __init__(self, layer: LinearLayer, folds: int, unit: bool, frame: Frame = WHOLE) -> None:
        self.layer, self.unit, self.frame = layer, unit, frame
        a = layer.inputs if frame.inputs is None else frame.inputs.shape[1]
        b = layer.outputs if frame.outputs is None else frame.outputs.shape[1]
        self.sums = {
            "inputs": FoldMoments(a, folds),
            "gradients": FoldMoments(b, folds),
            "cross": FoldMoments(b, folds, a),
        }
        if unit:
            self.sums["outputs"] = FoldMoments(b, folds)
        if unit or layer.shared:
            self.sums["sent back"] = FoldMoments(a, folds)
        rows = min(BUFFER_ROWS, max(1, BUFFER_BYTES // (4 * (2 * a + b))))
        self.buffer = RowBuffer(rows * a)
        dims = {"inputs": a, "gradients": b, "sent back": a}
        self.apart = {name: RowBuffer(rows * dim) for name, dim in dims.items()}
        if frame is not WHOLE:  # E|h|² and E|g|², of which the frame holds a share
            self.sums |= {"size of inputs": FoldMoments(1, folds)}
            self.sums |= {"size of gradients": FoldMoments(1, folds)}

    def update(self, h: Tensor, g: Tensor, folds: Tensor, sent_back: Tensor | None) -> None:
        """Add rows h_a (n, d_a), g_b (n, d_b), their folds (n,), and g_a (n, d_a) if measured."""
        h, g = self._reduce("inputs", h, folds), self._reduce("gradients", g, folds)
        if sent_back is not None:
            sent_back = self._reduce("sent back", sent_back, folds)
        columns = (h, g, folds) if sent_back is None else (h, g, folds, sent_back)
        for rows in self.buffer.append(*columns):
            self._add(*rows)

    def update_apart(self, name: str, rows: Tensor, folds: Tensor) -> None:
        """Add rows of one kind by themselves: gradients of one output, or inputs beside them."""
        rows = self._reduce(name, rows, folds)
        for x, f in self.apart[name].append(rows, folds):
            self._add_apart(name, x, f)

    def _reduce(self, name: str, rows: Tensor, folds: Tensor) -> Tensor:
        """Return rows in the directions of the frame; note how long they were."""
        size = f"size of {name}"
        if size in self.sums:
            self.sums[size].update(rows.norm(dim=1, keepdim=True), folds)
        basis = self.frame.outputs if name == "gradients" else self.frame.inputs
        return rows if basis is None else rows @ basis.to(rows)

    def count_held(self, name: str) -> float:
        """Return the share of E|h|², or of E|g|², that lies in the frame."""
        size = f"size of {name}"
        if size not in self.sums:
            return 1.0
        whole = float(self.sums[size].compute().moment(centred=False))
        part = float(self.sums[name].compute().moment(centred=False).trace())
        return part / whole if whole else 1.0

    def finish(self, merge: bool) -> None:
        """Add what waits in the buffers, and what the other ranks have."""
        for rows in self.buffer.flush():
            self._add(*rows)
        for name, buffer in self.apart.items():
            for x, f in buffer.flush():
                self._add_apart(name, x, f)
        if merge:
            for name, own in self.sums.items():
                first, *others = gathered(own)
                for other in others:
                    first.merge(other)
                self.sums[name] = first

    def flush(self) -> None:
        """Add what waits in the buffer."""
        self.finish(merge=False)

    def scale(self, factor: float) -> None:
        """Multiply the gradients seen so far."""
        self.flush()
        names = ["size of gradients", *([] if self.unit else ["gradients", "sent back"])]
        for name in names:
            if name in self.sums:
                self.sums[name].scale(factor)
        self.sums["cross"].scale(factor)

    def _add_apart(self, name: str, rows: Tensor, folds: Tensor) -> None:
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        if name == "inputs" and self.unit:
            self.sums["outputs"].update(normalise(rows @ self.weight.to(rows).T), folds)
        if name == "gradients" and self.unit and not self.layer.shared:
            self.sums["sent back"].update(normalise(rows @ self.weight.to(rows)), folds)
        self.sums[name].update(normalise(rows) if self.unit else rows, folds)

    def _add(self, h: Tensor, g: Tensor, folds: Tensor, sent_back: Tensor | None = None) -> None:
        wide = torch.promote_types(torch.promote_types(h.dtype, g.dtype), torch.float32)
        h, g = h.to(wide), g.to(wide)
        self.sums["cross"].update(g, folds, h)
        if self.unit:
            weight = self.weight.to(h)
            sent_back = g @ weight if sent_back is None else sent_back.to(wide)
            self.sums["outputs"].update(normalise(h @ weight.T), folds)
            h, g, sent_back = normalise(h), normalise(g), normalise(sent_back)
        self.sums["inputs"].update(h, folds)
        self.sums["gradients"].update(g, folds)
        if sent_back is not None:
            self.sums["sent back"].update(sent_back.to(wide), folds)

    def note_weight(self, model: nn.Module) -> None:
        """Look at the weight as it is, which unit rows of the output are made with."""
        if self.unit:
            self.weight = self.frame.reduce_weight(self.layer.weight(model))

    @property
    def finite(self) -> bool:
        return all(stat.finite for stat in self.sums.values())


def count_bytes(layer: LinearLayer, unit: bool, most: int) -> int:
    """Return what the moments of a layer take for every fold, in float64."""
    a, b = min(layer.inputs, most), min(layer.outputs, most)
    return 8 * (a * a + b * b + a * b + unit * b * b + (unit or layer.shared) * a * a)


def normalise(rows: Tensor) -> Tensor:
    """Return rows of length 1; a zero row stays as it is."""
    sizes = rows.norm(dim=1, keepdim=True)
    return rows / torch.where(sizes > 0, sizes, 1.0)
