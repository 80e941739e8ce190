"""Text of ``repro run --help``: the groups, their choices, and the composed configuration.

Hydra's own help copies its whole repository of configurations once per group; this reads the names
of the files.
"""

from collections.abc import Sequence

from repro.config.compose import compose_run, group_choices, to_yaml
from repro.config.paths import conf_dirs

_TEXT = """repro run [KEY=VALUE ...]: train and evaluate. A Hydra application (https://hydra.cc).

options:
  -m, --multirun   run every combination of values that are joined by commas
  --cfg job        print the configuration and stop
  --hydra-help     what else Hydra takes

== Configuration groups (group=option) ==
{groups}

== Configuration (key.key=value overrides) ==
{config}"""


def run_help(overrides: Sequence[str]) -> str:
    """The help text, with the configuration as ``overrides`` compose it.

    Raises:
        ConfigError: an override is refused.
    """
    folders = {path.name for conf in conf_dirs() for path in conf.iterdir() if path.is_dir()}
    choices = {name: group_choices(name) for name in sorted(folders)}
    groups = [f"{name}: {', '.join(options)}" for name, options in choices.items() if options]
    return _TEXT.format(groups="\n".join(groups), config=to_yaml(compose_run(overrides)))
