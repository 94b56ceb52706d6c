"""The command `oryx export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from oryx_marl import api
from oryx_marl.cli.console import RunFolder, default_is, say
from oryx_marl.policy import export
from oryx_marl.policy.export import Format


@dataclass(frozen=True)
class Export:
    """Write a run's policy for other programs, as ONNX or StableHLO, with all they must know."""

    run_folder: RunFolder
    """Folder of the run, or a policy file."""
    format: Format = "onnx"
    """onnx: runs without JAX, in many languages. stablehlo: for JAX, on CPU, GPU and TPU."""
    out: Annotated[Path | None, default_is("export/FORMAT in the run's folder")] = None
    """Folder to write; an earlier export there is replaced."""
    which: Literal["last", "best"] = "last"
    """The last weights, or those of the best evaluation while training."""
    seed: Annotated[int | None, default_is("the first")] = None
    """Number of the training's seed."""

    def run(self) -> None:
        found = api.export(
            self.run_folder, self.out, format=self.format, which=self.which, seed=self.seed
        )
        size = sum(each.stat().st_size for each in found.iterdir())
        say(f"export: {found} ({size / 1e6:,.1f} MB); try it: python {found / export.PROGRAM}")
