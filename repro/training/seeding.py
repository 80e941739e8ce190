"""Random state: seeding, and saving to and restoring from checkpoints."""

import os
from typing import Any

import torch


def fix_workspaces() -> None:
    """Let matrix products on CUDA be deterministic.

    PyTorch reads the variable once, at the first product of a process. If it was not set then,
    every later product in deterministic mode is refused.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def seed_everything(seed: int) -> None:
    """Seed PyTorch on every device and require deterministic algorithms."""
    fix_workspaces()
    torch.manual_seed(seed)
    # use_deterministic_algorithms would also import torch's compiler, which takes 1.5 s.
    torch.set_deterministic_debug_mode("error")
    # Else every torch.empty writes NaN first: a launch more for each kernel that allocates its
    # result, and half as much memory traffic again. No operator reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False


def random_state() -> dict[str, Any]:
    """Return the state of every generator that training draws from.

    A run on the CPU leaves a device of the machine alone: its generators take memory of it.
    """
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return {"cpu": torch.get_rng_state(), "cuda": devices}


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the states of the generators returned by :func:`random_state`."""
    torch.set_rng_state(state["cpu"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        states = state["cuda"][: torch.cuda.device_count()]  # there may be fewer GPUs than before
        torch.cuda.set_rng_state_all([item.cpu() for item in states])
