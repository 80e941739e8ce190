"""The slopes ``s = p^{1-r}`` of α-entmax up to ``α = 2``, which its Jacobian is made of."""

from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.elementary import power
from repro.mappings.kernels.cpu.vectors import maximum, sqrt, where


@lean
def slope_of(share, order):
    """``s = p^{1-r}`` for ``r <= 1``, zero off the support."""
    if order == 1.0:
        return where(share > 0.0, share - share + 1.0, 0.0)
    if order == 0.5:
        return sqrt(maximum(share, 0.0))
    return power(share - 1.0, share, share - share + (1.0 - order))
