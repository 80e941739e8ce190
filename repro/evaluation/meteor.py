"""METEOR 1.5 by its official program, which the user supplies; nothing else is called METEOR."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from repro.errors import UserError

_FINAL = "Final score:"
_TIMEOUT = 3600


class MeteorError(UserError, RuntimeError):
    """The program is missing, or it failed; the message names what was run."""


def meteor(
    hypotheses: Sequence[str], references: Sequence[str], *, jar: Path, language: str
) -> float:
    """Corpus score of METEOR 1.5, in percent.

    Runs ``java -Xmx2G -jar <jar> hypotheses references -l <language>``, without ``-norm``, as
    Malaviya et al. (2018) did: text is tokenised already.

    Args:
        hypotheses: translations, tokenised.
        references: one for each.
        jar: ``meteor-1.5.jar`` with its data folder beside it.
        language: two letters.

    Raises:
        ValueError: the lists differ in length or are empty.
        MeteorError: there is no Java or no jar, or the program failed.

    References:
        Denkowski & Lavie (2014), Meteor universal.
    """
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError("expected as many translations as references and at least one")
    command = _command(jar, language)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("hypotheses", "references")]
        for path, lines in zip(files, (hypotheses, references), strict=True):
            path.write_text("".join(f"{_one_line(line)}\n" for line in lines), encoding="utf-8")
        return _run([*command[:4], *map(str, files), *command[4:]])


def _command(jar: Path, language: str) -> list[str]:
    java = shutil.which("java")
    if java is None:
        raise MeteorError("METEOR 1.5 needs Java, and there is no `java` on the PATH")
    if not jar.is_file():
        raise MeteorError(
            f"{jar} is missing: METEOR 1.5 is not part of this package; get meteor-1.5.tar.gz "
            "from https://www.cs.cmu.edu/~alavie/METEOR/ and name its jar"
        )
    return [java, "-Xmx2G", "-jar", str(jar), "-l", language]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _run(command: Sequence[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    scores = [line for line in done.stdout.splitlines() if line.startswith(_FINAL)]
    if done.returncode or not scores:
        raise MeteorError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout}")
    return 100.0 * float(scores[-1].removeprefix(_FINAL))
