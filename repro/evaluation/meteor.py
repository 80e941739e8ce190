"""METEOR 1.5 by its official program, which the user supplies, and METEOR of 2007 by NLTK.

The latter is called ``meteor_nltk``: its parameters and modules differ from those of METEOR 1.5,
and its numbers by ten points and more.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from repro.errors import UserError
from repro.evaluation.sufficient_statistics import ratios

METEOR_JAR = Path("meteor-1.5") / "meteor-1.5.jar"
"""Path of METEOR 1.5 below the folder of corpora; without it there is no METEOR 1.5 score."""
LANGUAGE = "en"
"""Target language for which :func:`meteor_of_statistics` has the parameters."""
STATISTICS = 23
_CHUNKS = 20
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.20, 0.60, 0.75
_MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])
_FINAL = "Final score:"
_TIMEOUT = 3600


class MeteorError(UserError, RuntimeError):
    """Exception raised if the program of METEOR is missing or fails."""


def meteor(
    hypotheses: Sequence[str], references: Sequence[str], *, jar: Path, language: str
) -> float:
    """Compute the corpus score of METEOR 1.5 in percent by the official program.

    For English, :func:`meteor_of_statistics` computes the same number from statistics.

    Runs ``java -Xmx2G -jar <jar> hypotheses references -l <language>``, without ``-norm``, as
    Malaviya et al. (2018) did: text is tokenised already.

    Args:
        hypotheses: translations, tokenised.
        references: one for each.
        jar: ``meteor-1.5.jar``, next to its data folder.
        language: two-letter code of the target language.

    Raises:
        ValueError: the lists differ in length or are empty.
        MeteorError: Java or the jar is missing, or the program failed.

    References:
        Denkowski & Lavie (2014), Meteor universal.
    """
    output = _run(hypotheses, references, jar, language)
    scores = [line for line in output if line.startswith(_FINAL)]
    if not scores:
        raise MeteorError(f"{jar} printed no line {_FINAL!r}: {' '.join(output[-3:])}")
    return 100.0 * float(scores[-1].removeprefix(_FINAL))


def meteor_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, jar: Path
) -> NDArray[np.float64]:
    """Count the statistics of each English sentence by the program (``-ssOut``).

    Args:
        hypotheses: translations into English, tokenised.
        references: one for each.
        jar: as for :func:`meteor`.

    Returns:
        Shape ``(sentences, 23)``: lengths of hypothesis and reference; their function words; for
        each of four modules the matched content words of both and the matched function words of
        both; chunks, 0 for a sentence that matches as a whole; matched words of both.

    Raises:
        ValueError: the lists differ in length or are empty.
        MeteorError: as for :func:`meteor`, or the output has another format.
    """
    rows = [line.split() for line in _run(hypotheses, references, jar, LANGUAGE, "-ssOut")]
    if len(rows) != len(hypotheses) or any(len(row) != STATISTICS for row in rows):
        raise MeteorError(f"{jar} -ssOut: expected {STATISTICS} numbers for each sentence")
    return without_whole_matches(np.array(rows, dtype=np.float64))


def without_whole_matches(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Set chunks to zero for sentences that match as a whole, as the program does in its sums.

    Args:
        rows: output of ``-ssOut``, shape ``(sentences, 23)``.
    """
    whole = (rows[:, 21:23] == rows[:, 0:2]).all(1) & (rows[:, _CHUNKS] == 1)
    added = rows.copy()
    added[whole, _CHUNKS] = 0
    return added


def meteor_of_statistics(sums: NDArray[np.number]) -> NDArray[np.float64]:
    r"""Compute METEOR 1.5 for English in percent from summed statistics.

    .. math:: 100 \, \Bigl(1 - \gamma \bigl(\tfrac{c}{m}\bigr)^\beta\Bigr)
              \frac{P R}{\alpha P + (1 - \alpha) R}

    ``P`` and ``R`` are the weighted shares of matched words in hypotheses and references: content
    words have the weight δ, function words 1 − δ, and matches of module ``i`` the factor ``w_i``.
    ``c`` is the number of chunks, ``m`` the mean number of matched words of both sides. α = 0.85,
    β = 0.2, γ = 0.6, δ = 0.75, w = (1, 0.6, 0.8, 0.6).

    Args:
        sums: sums of rows of :func:`meteor_statistics`, shape ``(..., 23)``.

    Returns:
        Shape ``(...)``; 0 without any match.

    References:
        Denkowski & Lavie (2014), Meteor universal, §2 and the parameters for English.
    """
    counts = np.asarray(sums, np.float64)
    lengths, function = counts[..., 0:2], counts[..., 2:4]
    modules = counts[..., 4:20].reshape(*counts.shape[:-1], 4, 2, 2)  # module, kind, side
    matched = np.einsum("...mks,m,k->...s", modules, _MODULE_WEIGHTS, [_DELTA, 1 - _DELTA])
    weighed = _DELTA * (lengths - function) + (1 - _DELTA) * function
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(matched / weighed, -1, 0)
        mean = precision * recall / (_ALPHA * precision + (1 - _ALPHA) * recall)
        fragments = counts[..., _CHUNKS] / counts[..., 21:23].mean(-1)
        scores = 100.0 * mean * (1 - _GAMMA * fragments**_BETA)
    return np.where(np.isfinite(scores), np.maximum(scores, 0.0), 0.0)


def meteor_nltk(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Compute METEOR of 2007 of each sentence by NLTK; its mean is not METEOR 1.5.

    Words match if they are equal in lower case, or have the same Porter stem; synonyms are left
    out. Only for English.

    Args:
        hypotheses: translations into English, as words.
        references: one for each.

    Returns:
        Scores between 0 and 1 as numerators, ones as denominators, shape ``(sentences, 2)``.

    Raises:
        ValueError: the lists differ in length.

    References:
        Lavie & Agarwal (2007), METEOR: an automatic metric for MT evaluation with high levels of
        correlation with human judgments.
    """
    from nltk.translate.meteor_score import single_meteor_score  # slow import

    no_synonyms = SimpleNamespace(synsets=lambda word: [])  # in place of WordNet, a download
    pairs = zip(references, hypotheses, strict=True)
    return ratios([single_meteor_score(gold, ours, wordnet=no_synonyms) for gold, ours in pairs])


def _run(
    hypotheses: Sequence[str], references: Sequence[str], jar: Path, language: str, *options: str
) -> list[str]:
    """Run the program and return the lines that it prints."""
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError("expected as many translations as references and at least one")
    java = shutil.which("java")
    if java is None:
        raise MeteorError("METEOR 1.5 needs Java, and there is no `java` on the PATH")
    if not jar.is_file():
        raise MeteorError(
            f"{jar} is missing: METEOR 1.5 is not part of this package; get meteor-1.5.tar.gz "
            "from https://www.cs.cmu.edu/~alavie/METEOR/ and name its jar"
        )
    with TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("hypotheses", "references")]
        for path, lines in zip(files, (hypotheses, references), strict=True):
            text = "".join(f"{' '.join(line.split())}\n" for line in lines)
            path.write_text(text, encoding="utf-8")
        command = [java, "-Xmx2G", "-jar", *map(str, (jar, *files)), "-l", language, *options]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    if done.returncode:
        raise MeteorError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout}")
    return done.stdout.splitlines()
