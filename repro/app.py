"""The Hydra application behind ``repro run``: single runs and multirun sweeps."""

import argparse
import os
import sys
from collections.abc import Sequence

import hydra
from omegaconf import DictConfig, OmegaConf

from repro.config.completion import run_help
from repro.config.compose import compose_run, explained, for_hydra, refuse_unread, register_schemas
from repro.config.errors import ConfigError
from repro.config.identity import SEARCH_PATH
from repro.config.overrides import with_search_path
from repro.config.paths import conf_dir
from repro.config.schema import RunConfig
from repro.errors import refused_option

_VIEWS = ("--cfg", "-c", "--info", "-i", "--hydra-help")
"""Options with which the command only prints, without starting a run."""
_SHOWN = {
    "cfg": ("job", "hydra", "all"),
    "info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}
"""Values that the first two take."""
_REFUSED = ("--config-name", "-cn", "--config-path", "-cp", "--experimental-rerun")
"""Options of Hydra that replace the configuration; the last one would unpickle a file."""


def main(arguments: Sequence[str]) -> int:
    """Run ``repro run``: a single run, or a sweep with ``-m``; return 1 if a run failed, else 0.

    Raises:
        ConfigError: a setting is refused, or CUDA is requested but not available; nothing has
            been started.
        DataError: a corpus is missing or malformed; nothing has been started.
        ResultsError: the record of a finished run is damaged.
    """
    options = [argument.partition("=")[0] for argument in arguments]
    if sum(option in ("--config-dir", "-cd") for option in options) > 1:
        raise ConfigError(f"--config-dir is given twice; name all folders in {SEARCH_PATH}=[A,B]")
    for option in () if {"-h", "--help"} & {*options} else options:
        if option in _REFUSED:
            raise ConfigError(f"{option} is not supported; use GROUP=CHOICE")
        if option in _VIEWS:
            _show(arguments)
            return 0
    parser = argparse.ArgumentParser("repro run", add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    parsed, unknown = parser.parse_known_intermixed_args(arguments)
    if unknown and not parsed.help:
        raise ConfigError(refused_option(unknown[0], "run"))
    overrides = with_search_path(parsed.overrides, parsed.config_dir)
    if parsed.help:
        print(run_help(overrides))
        return 0
    # Composed before anything else is imported: a typo is refused at once.
    config = None
    if not parsed.multirun:
        if parsed.detach:
            raise ConfigError("--detach is for multiruns; add -m")
        refuse_unread(overrides, "a single run")
        config = compose_run(overrides)
        if config.name is not None:  # typed, or set by a file
            raise ConfigError(f"name={config.name} names a sweep; add -m")

    from repro.runs import launch, summary
    from repro.runs.execute import RunFailedError
    from repro.runs.job import Outcome, locate

    if config is None:
        options = ["hydra.sweeper.dry_run=true"] * parsed.dry_run
        options += ["hydra.launcher.detach=true"] * parsed.detach
        try:
            outcomes = launch.multirun([*overrides, *options])
        except RunFailedError as error:  # from a sweeper that stops at the first failure
            print(f"repro: {error}", file=sys.stderr)
            return 1
        # Hydra's own sweepers return nothing that can tell of a failure: they have stopped above.
        ours = [one for one in outcomes or [] if isinstance(one, Outcome)]
        return 1 if summary.print_failures(ours) else 0
    if parsed.dry_run:
        if os.environ.get("RANK", "0") == "0":  # torchrun: one of the processes prints
            summary.print_plan([locate(config, overrides)])
        return 0
    return _run(config, overrides)


def _show(arguments: Sequence[str]) -> None:
    """Print the configuration of a run, or let Hydra print what else it knows.

    Raises:
        ConfigError: a setting is refused, as it would be in a run, or an option is.
    """
    settings = [one for one in arguments if "=" in one and not one.startswith("-")]
    # Hydra's parser takes no options between settings.
    options = [one for one in arguments if one not in settings]
    parser = argparse.ArgumentParser("repro run", add_help=False, allow_abbrev=False)
    parser.add_argument("--cfg", "-c", nargs="?", const="")
    parser.add_argument("--info", "-i", nargs="?", const="all")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--package", "-p")
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--hydra-help", action="store_true")
    parsed, others = parser.parse_known_args(options)
    for option, known in _SHOWN.items():
        if (value := getattr(parsed, option)) not in (None, *known):
            raise ConfigError(f"--{option} is {value!r}; expected one of {', '.join(known)}")
    for other in others:
        if other.startswith("-"):
            problem = "--cfg, --info and --hydra-help only print one configuration"
            raise ConfigError(f"{other}: {problem}; leave it out")
    overrides = with_search_path([*settings, *others], parsed.config_dir)
    config = compose_run(overrides)
    if parsed.cfg == "job" and not (parsed.info or parsed.hydra_help):
        refuse_unread(overrides, "a single run")  # the others show settings of Hydra as well
        shown, missing = OmegaConf.structured(config), object()
        if parsed.package not in (None, "_global_"):
            with explained(overrides):
                shown = OmegaConf.select(shown, parsed.package, default=missing)
            if shown is missing:
                raise ConfigError(f"--package {parsed.package}: the run has no such group or key")
        text = OmegaConf.to_yaml(shown).rstrip() if OmegaConf.is_config(shown) else shown
        print("null" if shown is None else text)
        return
    register_schemas()
    before, sys.argv = sys.argv, ["repro run", *options, "--", *for_hydra(settings)]
    # Let errors propagate: by default Hydra prints them and exits with status 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        with explained(overrides):
            _application()
    except ValueError as error:  # raised by Hydra for options that exclude each other, too
        raise ConfigError(str(error)) from error
    finally:
        sys.argv = before


def _run(config: RunConfig, overrides: Sequence[str]) -> int:
    """Run a single run and print its metrics; under ``torchrun``, take part in it."""
    from repro.results import RunFolder
    from repro.results.labels import main_first, main_metric
    from repro.results.store import result_of
    from repro.runs import launch, summary
    from repro.runs.job import locate
    from repro.runs.show import DIVERGED, metric_text

    several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # started by torchrun
    if several:
        from repro.runs.train import follow
        from repro.training import distributed

        distributed.start()
        if distributed.rank() > 0:
            follow(config)
            distributed.leave(0)
    outcome = launch.run_single(locate(config, overrides))
    if outcome.status != "failed":  # after a failure, torchrun ends the others
        if several:
            distributed.same("over")
        record = result_of(RunFolder(outcome.folder))
        for name in main_first(record.metrics, main_metric(record)):
            if name.count("/") < 2:  # leave out parts, such as test/accuracy/english
                print(f"{name:28} {metric_text(record.metrics[name])}")
        if record.diverged:
            print(f"repro: {record.run_id}: {DIVERGED}", file=sys.stderr)
    summary.list_artefacts([outcome])
    status = 1 if summary.print_failures([outcome]) else 0
    if several:
        distributed.leave(status)
    return status


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
def _application(cfg: DictConfig) -> None:
    """Do nothing: Hydra only prints this configuration; :func:`main` starts runs."""
