"""The command `oryx serve`."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from oryx_marl.cli.console import RunFolder, default_is, say, say_aside
from oryx_marl.parallel import compilation
from oryx_marl.runs.folder import load_policy
from oryx_marl.serve.limits import ServeLimits
from oryx_marl.serve.server import ServeSettings, serve


@dataclass(frozen=True)
class Serve:
    """Serve a run's policy over HTTP and JSON to many clients at once."""

    run_folder: RunFolder
    """Folder of the run, or a policy file."""
    which: Literal["last", "best"] = "last"
    """The last weights, or those of the best evaluation while training."""
    seed: Annotated[int | None, default_is("the first")] = None
    """Number of the training's seed."""
    act: Annotated[str | None, default_is("sampled, of continuous actions greedy")] = None
    """How it acts where a client does not say: sampled, greedy, or a temperature such as 0.25."""
    listen: ServeSettings = field(default_factory=ServeSettings)
    limits: ServeLimits = field(default_factory=ServeLimits)

    def run(self) -> None:
        compilation.use_cache()
        policy = load_policy(self.run_folder, self.which)
        serve(
            policy,
            self.listen,
            self.limits,
            self.seed,
            self.act,
            tell=say_aside,
            tell_ready=lambda url: say(f"serving {self.run_folder} on {url}"),
        )
        say_aside("stopped")
