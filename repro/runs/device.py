"""Device that computes a run, and the kernels that it used."""

import logging
import warnings
from collections.abc import Iterable

import torch

from repro.config.errors import ConfigError
from repro.config.schema import HardwareConfig, RunConfig
from repro.mappings.kernels import dispatch
from repro.runs.environment import processor, processor_has_bfloat16
from repro.training import distributed
from repro.training.seeding import fix_workspaces

_log = logging.getLogger(__name__)


def choose_device(config: HardwareConfig) -> torch.device:
    """Return the device of a run; ``auto`` takes CUDA if it is available.

    Raises:
        ConfigError: CUDA is requested but not available.
    """
    available = torch.cuda.is_available()
    if config.device == "cuda" and not available:
        raise ConfigError("hardware=cuda: no CUDA device here; use hardware=cpu or hardware=auto")
    return torch.device("cuda" if available and config.device != "cpu" else "cpu")


def warn_of_precision(configs: Iterable[RunConfig]) -> None:
    """Warn once if runs use bfloat16 on a device where it is slower."""
    asked = (one for one in configs if one.precision == "bf16")
    slow = any(choose_device(one.hardware).type == "cpu" for one in asked)
    if slow and not processor_has_bfloat16():
        _log.warning(
            "precision=bf16: this processor has neither AMX nor AVX512-BF16 and computes about ten "
            "times as fast in float32; leave precision= out"
        )


def prepare_device(config: RunConfig) -> torch.device:
    """Choose the device of a run; set the number of CPU threads if configured, and the precision.

    Raises:
        ConfigError: CUDA is requested but not available.
    """
    if config.hardware.threads is not None:
        torch.set_num_threads(config.hardware.threads)
    fix_workspaces()  # also for predictions, which compute what the evaluation of their run did
    # By default cuDNN's LSTM computes in TF32 and matrix products do not.
    tf32 = config.precision == "tf32"
    with warnings.catch_warnings():  # PyTorch 2.9 says once in a process that these are deprecated
        warnings.filterwarnings("ignore", "Please use the new API settings to control TF32")
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    return choose_device(config.hardware)


def describe_device(device: torch.device) -> str:
    """Describe type and model of a device; on a CPU, with instruction set and number of threads.

    Sums take another order with each instruction set, so that equal bits need an equal one.
    """
    if device.type == "cuda":
        several = f", {distributed.size()} GPUs" if distributed.size() > 1 else ""
        return f"cuda ({torch.cuda.get_device_name(device)}{several})"
    several = f", processes: {distributed.size()}" if distributed.size() > 1 else ""
    instructions = torch.backends.cpu.get_cpu_capability()
    return f"cpu ({processor()}, threads: {torch.get_num_threads()}{several}, {instructions})"


def kernels_in_use() -> dict[str, str]:
    """Return ``REPRO_KERNELS`` and how this process computed each operator of the mappings."""
    return {"REPRO_KERNELS": dispatch.MODE, **dict(sorted(dispatch.computed_by.items()))}
