"""Word alignment of sentence pairs, equal to fast_align: IBM Model 2 with a diagonal prior."""

from repro.data.alignment.links import (
    Links,
    StoredLinks,
    Symmetry,
    fertilities,
    grow_diag_final_and,
    largest_fertilities,
    write_links,
)
from repro.data.alignment.model import AlignerSettings, TwoWayAligner, WordAligner, train_two_way

__all__ = [
    "AlignerSettings",
    "Links",
    "StoredLinks",
    "Symmetry",
    "TwoWayAligner",
    "WordAligner",
    "fertilities",
    "grow_diag_final_and",
    "largest_fertilities",
    "train_two_way",
    "write_links",
]
