"""Natural language inference with latent alignments (Niculae et al., 2018, §5.2)."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from repro.config.schema.nli import NliAlignmentRun
from repro.data.batching import NliBatch
from repro.data.nli import NliExample
from repro.models.entailment.alignment import (
    Aligner,
    SequentialAligner,
    StructuredAligner,
    WordAligner,
)
from repro.models.entailment.classifiers import AlignedLabels, Esim
from repro.prediction import AttentionMap, Candidate
from repro.structures import Matching
from repro.tasks.common import heaviest
from repro.tasks.entailment import EntailmentTask, Weights, words_of
from repro.tasks.instantiate import build_mapping, build_structure

DIRECTIONS = ("premise_to_hypothesis", "hypothesis_to_premise")


class NliAlignmentTask(EntailmentTask[AlignedLabels, NliAlignmentRun]):
    """ESIM with attention word by word or with a structured alignment of the two sentences."""

    nonzeros = "alignment_nonzeros"
    classifier = Esim

    @staticmethod
    def weighting(config: NliAlignmentRun) -> Aligner:
        """Create the aligner of ``structure``, if there is one, else of ``model.alignment``."""
        limit = config.model.max_iter
        if config.structure is not None:
            return StructuredAligner(build_structure(config.structure), limit)
        aligners: dict[str, Callable[[], Aligner]] = {
            "words": lambda: WordAligner(build_mapping(config.mapping)),
            "sequential": lambda: SequentialAligner(limit),
            "matching": lambda: StructuredAligner(Matching(), limit),
        }
        return aligners[config.model.alignment]()

    def count_weights(self, found: AlignedLabels, batch: NliBatch) -> tuple[int, int]:
        """Count word pairs with nonzero weight and all word pairs, summed over both directions."""
        alignment = found.alignment
        both = (alignment.premise_to_hypothesis, alignment.hypothesis_to_premise)
        nonzeros = sum((weights != 0).sum() for weights in both)
        return int(nonzeros), 2 * int(alignment.lengths.prod(1).sum())

    def describe_weights(self, found: AlignedLabels, batch: NliBatch) -> list[dict[str, Any]]:
        """Return the weights in both directions and their structures, largest weight first.

        ``partners`` has one entry per word of the premise or, for structures from hypothesis to
        premise, of the hypothesis: the position of its partner, or -1 if it has none.
        """
        alignment, rows = found.alignment, []
        chosen = {
            name: one.structure.choices(one.structures, one.marginals)
            for name, one in zip(DIRECTIONS, alignment.solutions, strict=False)
        }
        for place, (m, n) in enumerate(alignment.lengths.tolist()):
            forth = alignment.premise_to_hypothesis[place, :m, :n].float().tolist()
            back = alignment.hypothesis_to_premise[place, :n, :m].float().tolist()
            structures = {}
            # A symmetric alignment is one solution for both directions, stored under the first.
            for name, solution, size in zip(DIRECTIONS, alignment.solutions, (m, n), strict=False):
                partners = chosen[name][place, :, :size].tolist()
                kept = heaviest(solution.weights[place].tolist(), partners)
                structures[name] = [{"weight": w, "partners": vertex} for w, vertex in kept]
            rows.append({DIRECTIONS[0]: forth, DIRECTIONS[1]: back, "structures": structures})
        return rows

    def weights_of(self, row: Mapping[str, Any], pair: NliExample, label: str) -> Weights:
        """Return the weights in both directions and the structures of either."""
        premise, hypothesis = words_of(pair.premise), words_of(pair.hypothesis)
        forth, back = (torch.tensor(row[name]) for name in DIRECTIONS)
        structures = row["structures"]
        return Weights(
            AttentionMap(forth, premise, hypothesis),
            AttentionMap(back, hypothesis, premise),
            [
                Candidate(one["weight"], one["partners"], side)
                for name, side in zip(DIRECTIONS, ("premise", "hypothesis"), strict=True)
                for one in structures.get(name, [])
            ],
        )
