"""Mappings called with scores alone: those with bounds get bounds that never bind."""

import torch

from repro.mappings import MappingSpec


def plain(function, spec: MappingSpec):
    """``function`` (of a spec or its reference, or a module) called with scores only."""
    if not spec.bounded:
        return function
    return lambda scores, **how: function(scores, torch.ones_like(scores), **how)
