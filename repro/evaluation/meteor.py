"""METEOR 1.5 by its official program, which the user supplies, and METEOR of 2007 by NLTK.

The latter is called ``meteor_nltk``: its parameters and modules differ from those of METEOR 1.5,
and its scores by ten points or more.
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
"""Target language for which :func:`meteor_nltk` has a stemmer."""
_FINAL = "Final score:"
_TIMEOUT = 3600


class MeteorError(UserError, RuntimeError):
    """Exception raised if the program of METEOR is missing or fails."""


def find_java() -> str:
    """Return the path of Java, which METEOR 1.5 needs.

    Raises:
        MeteorError: it is not on the ``PATH``.
    """
    java = shutil.which("java")
    if java is None:
        raise MeteorError("METEOR 1.5 needs Java, and there is no `java` on the PATH")
    return java


def meteor(
    hypotheses: Sequence[str], references: Sequence[str], *, jar: Path, language: str
) -> float:
    """Compute the corpus score of METEOR 1.5 in percent by the official program.

    Runs ``java -Xmx2G -jar <jar> hypotheses references -l <language>``, without ``-norm``, as
    Malaviya et al. (2018) did: text is tokenized already. The ``jar`` must be next to its data
    folder; the code of the target language has two letters.

    Raises:
        ValueError: the lists differ in length or are empty.
        MeteorError: Java or the jar is missing, or the program failed.

    References:
        Denkowski & Lavie (2014), Meteor universal.
    """
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError("expected as many translations as references and at least one")
    java = find_java()
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
        command = [java, "-Xmx2G", "-jar", *map(str, (jar, *files)), "-l", language]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise MeteorError(f"METEOR 1.5 did not finish within {_TIMEOUT} seconds") from error
    if done.returncode:
        raise MeteorError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout}")
    output = done.stdout.splitlines()
    scores = [line for line in output if line.startswith(_FINAL)]
    if not scores:
        raise MeteorError(f"{jar} printed no line {_FINAL!r}: {' '.join(output[-3:])}")
    return 100.0 * float(scores[-1].removeprefix(_FINAL))


def meteor_nltk(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Compute METEOR of 2007 of each sentence by NLTK; its mean is not METEOR 1.5.

    Words match if they are equal in lower case, or have the same Porter stem; synonyms are left
    out. Only for English.

    Returns:
        Scores between 0 and 1 as numerators, ones as denominators, shape ``(sentences, 2)``.

    References:
        Lavie & Agarwal (2007), METEOR: an automatic metric for MT evaluation with high levels of
        correlation with human judgments.
    """
    from nltk.translate.meteor_score import single_meteor_score  # slow import

    no_synonyms = SimpleNamespace(synsets=lambda word: [])  # in place of WordNet, a download
    pairs = zip(references, hypotheses, strict=True)
    return ratios([single_meteor_score(gold, ours, wordnet=no_synonyms) for gold, ours in pairs])
