"""Parameters with one value per row."""

from torch import Tensor

from repro.mappings._masking import broadcasts_to


def per_row(name: str, value: Tensor, scores: Tensor, dim: int) -> Tensor:
    """Expand a parameter to the shape of the scores with size 1 on ``dim``.

    Raises:
        ValueError: it does not broadcast to the scores, or has more than one value per row.
    """
    if not broadcasts_to(value, scores):
        raise ValueError(
            f"{name} of shape {tuple(value.shape)} does not broadcast to scores of shape "
            f"{tuple(scores.shape)}"
        )
    from_right = dim - scores.dim() if dim >= 0 else dim
    if value.dim() >= -from_right and value.size(from_right) != 1:
        raise ValueError(f"{name} of shape {tuple(value.shape)} must have size 1 on dim {dim}")
    return value.to(scores.dtype).expand_as(scores.narrow(dim, 0, 1))
