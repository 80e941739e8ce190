"""Typed schemas of every configuration group; the YAML files under ``conf/`` only fill them.

The modules of tasks are found by ``registry``; the names below are shared by all tasks.
"""

from repro.config.paths import extended
from repro.config.schema.groups import DataConfig, DecodingConfig, ModelConfig, TaskConfig
from repro.config.schema.loss import FenchelYoungLossConfig, LossConfig, StructuredLossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.run import HardwareConfig, LoggerConfig, RunConfig, ScaleConfig
from repro.config.schema.training import TrainingConfig

__all__ = [
    "DataConfig",
    "DecodingConfig",
    "FenchelYoungLossConfig",
    "HardwareConfig",
    "LoggerConfig",
    "LossConfig",
    "MappingConfig",
    "ModelConfig",
    "RunConfig",
    "ScaleConfig",
    "StructuredLossConfig",
    "TaskConfig",
    "TrainingConfig",
]

__path__ += extended(__name__)
