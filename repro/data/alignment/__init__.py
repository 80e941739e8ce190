"""Word alignment of sentence pairs as by fast_align: IBM Model 2 with a diagonal prior."""

from repro.data.alignment.links import (
    StoredLinks,
    Symmetry,
    fertilities,
    grow_diag_final_and,
    largest_fertilities,
    write_links,
)
from repro.data.alignment.model import AlignerSettings, TwoWayAligner, WordAligner, train_two_way
from repro.data.pair import Links

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
