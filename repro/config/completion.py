"""Completion of command lines in bash and, through bashcompinit, in zsh."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from repro.config.compose import compose_run, group_choices, hydra_application
from repro.config.errors import ConfigError
from repro.config.experiment import list_experiments
from repro.config.paths import conf_dirs

SCRIPT = """\
_repro() {
    local IFS=$'\\n'
    COMPREPLY=($(repro complete "${COMP_LINE:0:COMP_POINT}" 2> /dev/null))
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
[ -n "$ZSH_VERSION" ] && autoload -U bashcompinit && bashcompinit
complete -o nospace -o default -F _repro repro
"""
_HYDRA = ("hydra/launcher", "hydra/sweeper")


def complete(line: str, commands: Sequence[str]) -> list[str]:
    """List the words that may complete the last word of a command line.

    Args:
        line: up to the cursor.
        commands: commands of the command line.
    """
    words = line.split()[1:] + [""] * line.endswith(" ")
    if len(words) < 2:
        return [f"{name} " for name in commands if name.startswith("".join(words))]
    command, *before, word = words
    found: list[str] = []
    if command in ("run", "reproduce"):
        found = _settings(word, [item for item in before if "=" in item])
    if command == "reproduce":
        names = list_experiments()
        found += [*names, *{name.partition("/")[0] for name in names}]
    return sorted(item for item in found if item.startswith(word))


def _settings(word: str, overrides: Sequence[str]) -> list[str]:
    """Groups, their choices, and keys of the configuration that the other words compose."""
    group, chosen, _ = word.partition("=")
    if chosen and group in _HYDRA:  # plugins have choices as well
        with hydra_application() as application:
            choices = application.config_loader().get_group_options(group)
        return [f"{group}={choice}" for choice in choices]
    if chosen:
        return [f"{group}={choice}" for choice in group_choices(group)]
    folders = {path.name for conf in conf_dirs() for path in conf.iterdir() if path.is_dir()}
    groups = [f"{name}=" for name in (*folders - {"hydra", "protocol"}, *_HYDRA)]
    try:
        return groups + _keys(compose_run([item for item in overrides if "," not in item]))
    except ConfigError:
        return groups


def _keys(node: Any, prefix: str = "") -> list[str]:
    found = []
    for field in fields(node):
        value, key = getattr(node, field.name), f"{prefix}{field.name}"
        found += _keys(value, f"{key}.") if is_dataclass(value) else [f"{key}="]
    return found
