"""Word alignment of sentence pairs, equal to fast_align: IBM Model 2 with a diagonal prior."""

from repro.data.alignment.fertility import fertilities, largest_fertilities
from repro.data.alignment.model import AlignerSettings, WordAligner, train_aligner
from repro.data.alignment.storage import StoredLinks, write_links
from repro.data.alignment.symmetry import Links, Symmetry, grow_diag_final_and
from repro.data.alignment.two_way import TwoWayAligner, train_two_way

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
    "train_aligner",
    "train_two_way",
    "write_links",
]
