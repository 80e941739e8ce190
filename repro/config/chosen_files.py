"""Files of choices, read beside Hydra, which says neither what it leaves out of them nor where."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from repro.config.errors import ConfigError
from repro.config.explain import no_text
from repro.config.identity import flattened
from repro.config.loading import declared_name, default_choices, load_yaml

Choices = Iterable[tuple[str, Any]]
"""Groups and names, or lists of names."""
NO_PROTOCOL = "a protocol cannot be chosen; expected task=NAME and scale=NAME"


def refuse_ineffective(choices: Choices, folders: Sequence[Path]) -> None:
    """Refuse files of further folders with something that has no effect or is read as another text.

    These are overrides of a protocol, or of the launcher or sweeper, of which Hydra prefers those
    of config.yaml; several choices of the file's own group, of which it takes the last; and texts
    that YAML reads as numbers. The first of the folders of groups is the package's own.
    """
    for group, path, content in _chosen_files(choices, folders[1:]):
        defaults = default_choices(path)
        listed = [str(key) for key, _ in defaults if key is not None]
        if twice := [key for number, key in enumerate(listed) if key in listed[:number]]:
            raise ConfigError(f"{path}: `defaults` state {twice[0]!r} twice")
        for key, choice in defaults:
            if re.match(r"override\s+/?protocol\b", str(key)):
                raise ConfigError(f"{path}: `{key}`: {NO_PROTOCOL}")
            if found := re.fullmatch(r"override\s+/(hydra/(launcher|sweeper))", str(key)):
                raise ConfigError(f"{path}: `{key}` has no effect; type {found[1]}={choice}")
        bases = [str(one) for key, one in defaults if key is None]
        named = {one: of for one in bases if (of := declared_name(group, one, folders))}
        if len({*named.values()}) > 1:
            raise ConfigError(f"{path}: `defaults` name {', '.join(named)}; expected one {group}")
        for key, value in flattened(content).items():  # of all groups, or of its own
            if lost := no_text(key, value) or no_text(f"{group}.{key}", value):
                raise ConfigError(f"{path}: {lost}")


def hydra_settings(choices: Choices, folders: Sequence[Path]) -> list[tuple[str, Path]]:
    """List the settings of Hydra in the files of choices, by group, and in those they extend."""
    found = []
    for _, path, content in _chosen_files(choices, folders):
        own = content.get("hydra")
        keys = flattened({"hydra": own}) if isinstance(own, dict) else {}
        found += [(key, path) for key in keys]
    return found


def _chosen_files(
    choices: Choices, folders: Sequence[Path]
) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield group, path and content of the files of choices, and of those that they extend."""
    todo, seen = [*choices], set[Path]()
    while todo:
        key, names = todo.pop(0)
        group = re.sub(r"^(optional\s+)?(override\s+)?/?|@.*$", "", key)
        for name in names if isinstance(names, list) else [str(names).partition("@")[0]]:
            for path in (folder / group / f"{name}.yaml" for folder in folders):
                if path not in seen and path.is_file():
                    seen.add(path)
                    todo += [(key or group, one) for key, one in default_choices(path)]
                    content = load_yaml(path)
                    yield group, path, content if isinstance(content, dict) else {}
