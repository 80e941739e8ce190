"""Comparison of the fused linear loss with linear layer and loss in a row, for the page."""

from dataclasses import dataclass

from benchmarks.linear_loss import FUSED, IN_A_ROW, PATHS, Cost, Setting, in_subprocess
from benchmarks.targets import Target, target_for

LINEAR = "linear_loss"
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class LinearComparison:
    """Costs of each path at one setting."""

    setting: Setting
    costs: dict[str, Cost]

    @property
    def title(self) -> str:
        """Title of the measurement."""
        size = f"{self.setting.tokens}x{self.setting.vocabulary}"
        return (
            f"Linear layer of {self.setting.size} units and {self.setting.alpha:g}-entmax loss, "
            f"{size} scores, threads: {self.setting.threads}"
        )

    @property
    def memory(self) -> float:
        """Ratio of the memory of the fused path to that of layer and loss in a row."""
        return self.costs[FUSED].peak / self.costs[IN_A_ROW].peak

    @property
    def time(self) -> float:
        """Ratio of the time of the fused path to that of layer and loss in a row."""
        return self.costs[FUSED].both / self.costs[IN_A_ROW].both

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and lines of the table of costs."""
        header = ["path", "forward s", "both s", "peak MB"]
        lines = [
            [path, f"{cost.forward:.2f}", f"{cost.both:.2f}", f"{cost.peak:.0f}"]
            for path, cost in self.costs.items()
        ]
        return header, lines

    def summary(self) -> str:
        """Return the ratios of memory and time with their targets, in Markdown."""
        scores = self.setting.tokens * self.setting.vocabulary * _FLOAT_BYTES / 2**20
        parts = [
            f"- {name}, fused to in a row: {ratio:.3f}{_verdict(self._target(name), ratio)}"
            for name, ratio in (("memory", self.memory), ("time", self.time))
        ]
        return "\n".join([*parts, f"- the scores of all tokens take {scores:.0f} MB\n"])

    def _target(self, name: str) -> Target | None:
        shape = f"{self.setting.tokens}x{self.setting.vocabulary}"
        return target_for(self.setting.device, self.setting.threads, f"{LINEAR}_{name}", shape)


def compare(setting: Setting) -> LinearComparison:
    """Measure every path in a process of its own."""
    return LinearComparison(setting, {path: in_subprocess(setting, path) for path in PATHS})


def _verdict(target: Target | None, ratio: float) -> str:
    if target is None:
        return ""
    return f" (target {target}: {'met' if target.met(ratio) else 'not met'})"
