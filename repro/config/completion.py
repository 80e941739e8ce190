"""Help on ``repro run``, and completion of command lines in bash and, with bashcompinit, zsh."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from repro.config.compose import compose_run, hydra_application, to_yaml
from repro.config.errors import ConfigError
from repro.config.experiment import list_experiments
from repro.config.loading import group_choices, groups
from repro.config.overrides import search_path
from repro.config.schema.registry import registered_schemas

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
_TEXT = """repro run [KEY=VALUE ...]: train and evaluate. A Hydra application (https://hydra.cc).

options:
  -m, --multirun   run every combination of values that are joined by commas
  --cfg job        print the configuration and stop
  --hydra-help     what else Hydra takes

== Configuration groups (group=option) ==
{groups}

== Configuration (key.key=value overrides) ==
{config}"""


def complete(
    line: str, commands: Sequence[str], known: Callable[[str, Sequence[str]], list[str]]
) -> list[str]:
    """List the words that may complete the last word of a command line up to the cursor.

    ``known`` returns words for a command and its earlier words, such as run IDs.
    """
    words = line.split()[1:] + [""] * line.endswith(" ")
    if len(words) < 2:
        return [f"{name} " for name in commands if name.startswith("".join(words))]
    command, *before, word = words
    found = known(command, before)
    if command in ("run", "reproduce", "plan"):
        group, chosen, _ = word.partition("=")
        if chosen and group in _HYDRA:  # plugins have choices as well
            with hydra_application() as application:
                choices = application.config_loader().get_group_options(group)
            found = [f"{group}={choice}" for choice in choices]
        elif chosen:
            found = [f"{group}={choice}" for choice in group_choices(group.removeprefix("+"))]
        else:  # groups, and keys of the configuration that the other words compose
            found = [f"{name}=" for name in (*map(_chosen, groups() - {"hydra"}), *_HYDRA)]
            typed = [item for item in before if "=" in item and "," not in item]
            with suppress(ConfigError):
                keys = _keys(compose_run(typed))
                found += [key for key in keys if not key.endswith(".name=")]  # set by choices
    if command in ("reproduce", "plan"):
        names = list_experiments()
        found += [*names, *{name.partition("/")[0] for name in names}]
    return sorted(item for item in found if item.startswith(word))


def _chosen(group: str) -> str:
    """Return a group as it is chosen, with a + if it has no default."""
    return group if group in registered_schemas() else f"+{group}"


def _keys(node: Any, prefix: str = "") -> list[str]:
    found = []
    for field in fields(node):
        value, key = getattr(node, field.name), f"{prefix}{field.name}"
        found += _keys(value, f"{key}.") if is_dataclass(value) else [f"{key}="]
    return found


def run_help(overrides: Sequence[str]) -> str:
    """Return the help text of ``repro run``, with the configuration that ``overrides`` compose.

    The choices come from file names, because Hydra's own help copies its whole repository of
    configurations once per group.

    Raises:
        ConfigError: an override is refused.
    """
    further = search_path(overrides)
    names = sorted(groups(further))
    choices = {_chosen(name): ", ".join(group_choices(name, further)) for name in names}
    listed = "\n".join(f"{name}: {options}" for name, options in choices.items() if options)
    return _TEXT.format(groups=listed, config=to_yaml(compose_run(overrides)))
