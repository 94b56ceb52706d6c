"""The command `oryx eval`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from oryx_marl import api
from oryx_marl.cli.console import RunFolder, console, default_is, print_json, say
from oryx_marl.cli.scores import make_table
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import Act, by_name


@dataclass(frozen=True)
class Eval:
    """Score a run's last (or best) weights on fresh episodes, in its environment or in yours."""

    run_folder: RunFolder
    """Folder of the run, or a policy file."""
    env: Annotated[str | None, default_is("that of the data")] = None
    """Environment to score in: a name, or package.module:make for a function that makes a
    PettingZoo parallel environment or one of ours."""
    episodes: int = 320
    """Episodes per seed."""
    act: Annotated[
        tuple[Act, ...] | None, default_is("sampled greedy; of continuous actions greedy sampled")
    ] = None
    """How the policy acts: sampled, greedy, or a temperature between them such as 0.25; of several
    each plays the same episodes."""
    which: Literal["last", "best"] = "last"
    """The last weights, or those of the best evaluation while training."""
    stream: int = 0
    """Another number gives other episodes."""
    num_envs: Annotated[int | None, default_is("16 of PettingZoo's, else their own number")] = None
    """Environments side by side, where they run outside JAX."""
    workers: Annotated[int | None, default_is("one per processor")] = None
    """Processes, or threads, for those; 0: none beside this one."""
    json: bool = False
    """Print JSON."""

    def __post_init__(self) -> None:
        for name in ("episodes", "num_envs"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise OryxError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.stream < 0:
            raise OryxError(f"stream must not be negative, got {self.stream}")
        if self.act is not None:
            by_name(self.act)  # refuses what is no way of acting

    def run(self) -> None:
        found = api.evaluate(
            self.run_folder,
            self.env,
            episodes=self.episodes,
            act=self.act,
            which=self.which,
            stream=self.stream,
            num_envs=self.num_envs,
            num_workers=self.workers,
        )
        if self.json:
            print_json(found.to_json())
            return
        update = "" if found.update is None else f"update {found.update:,}, "
        say(f"{update}{len(found.score.per_seed)} seeds x {self.episodes} episodes")
        scores = {(name,): score for name, score in found.scores.items()}
        console.print(make_table(("acting",), scores, found.metric))
