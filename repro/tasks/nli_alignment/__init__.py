"""Natural language inference with latent alignments (Niculae et al., 2018, §5.2)."""

from typing import Any

from repro.config.schema.nli import NliAlignmentRun
from repro.data.nli import NliBatch
from repro.models.entailment import (
    AlignedLabels,
    Aligner,
    Esim,
    MatchingAligner,
    SequentialAligner,
    WordAligner,
)
from repro.tasks.common import heaviest
from repro.tasks.entailment import EntailmentTask, check, identify
from repro.tasks.instantiate import build_mapping
from repro.tasks.protocol import TaskSpec

DIRECTIONS = ("premise_to_hypothesis", "hypothesis_to_premise")


class NliAlignmentTask(EntailmentTask[AlignedLabels, NliAlignmentRun]):
    """ESIM, whose two sentences are aligned word by word or by a structure."""

    nonzeros = "alignment_nonzeros"
    classifier = Esim

    @staticmethod
    def weighting(config: NliAlignmentRun) -> Aligner:
        """The aligner of the run; that of words takes its mapping."""
        model = config.model
        if model.alignment == "words":
            return WordAligner(build_mapping(config.mapping))
        structured = SequentialAligner if model.alignment == "sequential" else MatchingAligner
        return structured(model.max_iter)

    def count_weights(self, found: AlignedLabels, batch: NliBatch) -> tuple[int, int]:
        """Pairs of words with nonzero weight, and pairs of words, both directions together."""
        return int(found.alignment.nonzeros.sum()), int(found.alignment.cells.sum())

    def describe_weights(self, found: AlignedLabels, batch: NliBatch) -> list[dict[str, Any]]:
        """Weights in both directions, and the structures behind them, the heaviest first.

        A structure of the first direction, and a matching, names the partner of each word of the
        premise; one of the second direction that of each word of the hypothesis. -1 is no partner.
        """
        alignment, rows = found.alignment, []
        for place, (m, n) in enumerate(alignment.lengths.tolist()):
            forth = alignment.premise_to_hypothesis[place, :m, :n].float().tolist()
            back = alignment.hypothesis_to_premise[place, :n, :m].float().tolist()
            structures = {}
            # A matching is one solution for both directions.
            for name, solution, size in zip(DIRECTIONS, alignment.solutions, (m, n), strict=False):
                partners = solution.structures[place, :, :size].tolist()
                kept = heaviest(solution.weights[place].tolist(), partners)
                structures[name] = [{"weight": w, "partners": vertex} for w, vertex in kept]
            rows.append({DIRECTIONS[0]: forth, DIRECTIONS[1]: back, "structures": structures})
        return rows


SPEC = TaskSpec(identify=identify, build=NliAlignmentTask, check=check)
