"""The canonical representation hypothesis and its phases (Ziyin, Chuang et al. 2024).

A layer h_b = W·h_a with W of shape (d_b, d_a) has on its inputs (a) and outputs (b) three matrices:

    H = E[h hᵀ],   G = E[g gᵀ] of the gradients g = ∇_h ℓ of each sample,   Z_a = WᵀW, Z_b = WWᵀ

with H_b = W·H_a·Wᵀ and G_a = Wᵀ·G_b·W. The hypothesis: all three are proportional, on both sides.
"""

from lawscope.theory.representation.alignments import (
    RELATIONS,
    align,
    compute_alignments,
    compute_excess,
    compute_null,
)
from lawscope.theory.representation.dissipation import (
    StationaryFit,
    einstein_diffusion,
    fit_stationary,
    fluctuation_dissipation,
)
from lawscope.theory.representation.exponents import (
    Exponents,
    SpectralFit,
    effective_rank99,
    fit_exponents,
    fit_spectra,
)
from lawscope.theory.representation.phases import (
    PHASES,
    Label,
    Phase,
    PhaseTable,
    find_implied,
    find_relations,
    make_layer,
    make_related_layer,
)

__all__ = [
    "PHASES",
    "RELATIONS",
    "Exponents",
    "Label",
    "Phase",
    "PhaseTable",
    "SpectralFit",
    "StationaryFit",
    "align",
    "compute_alignments",
    "compute_excess",
    "compute_null",
    "effective_rank99",
    "einstein_diffusion",
    "find_implied",
    "find_relations",
    "fit_exponents",
    "fit_spectra",
    "fit_stationary",
    "fluctuation_dissipation",
    "make_layer",
    "make_related_layer",
]
