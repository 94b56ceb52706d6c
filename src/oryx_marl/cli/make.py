"""The command `oryx data make`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from oryx_marl import recipes
from oryx_marl.bench import published
from oryx_marl.cli.console import DatasetName, DatasetRoot, console, default_is, errors
from oryx_marl.cli.explore import DataInfo
from oryx_marl.data import stats
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.parallel import compilation
from oryx_marl.policy.acting import Act, temperature_of
from oryx_marl.progress import training_bar


@dataclass(frozen=True)
class DataMake:
    """Make a dataset by its recipe, or (--env, --policy) from any policy in any environment."""

    name: DatasetName
    """Name of the recipe, such as tmaze/planner-mixed; with --env any new name."""
    rows: Annotated[int | None, default_is("the recipe's; with --env 100,000")] = None
    """Logged steps."""
    seed: Annotated[int | None, default_is("the recipe's; with --env 0")] = None
    """Random seed."""
    root: DatasetRoot = None
    """Folder that holds datasets."""
    resume: bool = False
    """Continue a recording that was stopped or killed, exactly as if it had not been
    interrupted."""
    policy: Path | None = None
    """Run whose first seed acts, or policy file (.npz), instead of the policy that comes with the
    package."""
    env: str | None = None
    """Environment to roll out --policy in, without a recipe: its name, or package.module:make."""
    act: Annotated[Act | None, default_is("sampled; of continuous actions greedy")] = None
    """How --policy acts with --env: sampled, greedy, or a temperature between them."""

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise OryxError(f"rows must be at least 1, got {self.rows}")
        if self.act is not None:
            temperature_of(self.act)  # refuses what is none
        if self.env is None:
            recipes.require(self.name)
            if self.act is not None:
                raise OryxError("a recipe says how its policies act; --act goes with --env")
        elif self.policy is None:
            raise OryxError(f"say who acts in {self.env}: --policy RUN, or a policy file (.npz)")
        elif self.resume:
            raise OryxError("a roll-out with --env is not resumed; leave out --resume")

    def run(self) -> None:
        compilation.use_cache()
        made = self._make_by_recipe() if self.env is None else self._roll_out(self.env)
        console.print(f"made {made}", soft_wrap=True)
        DataInfo(str(made)).run()
        scenario, variant = self.name.split("/")
        facts = [each for each in published.datasets() if each.scenario == scenario]
        if self.env is None and variant == "replay" and facts:
            _print_beside(recipes.open(made), facts[0])

    def _make_by_recipe(self) -> Path:
        return recipes.make(
            self.name,
            self.root,
            self.rows,
            self.seed,
            resume=self.resume,
            policy=self.policy,
            tell=_tell,
            watch=lambda total: training_bar(total, errors),
        )

    def _roll_out(self, env: str) -> Path:
        assert self.policy is not None
        asked = {"rows": self.rows, "seed": self.seed}
        given: Any = {name: value for name, value in asked.items() if value is not None}
        return recipes.make_from_policy(
            self.name, env, self.policy, self.root, tell=_tell, act=self.act, **given
        )


def _tell(message: str) -> None:
    console.print(message, highlight=False, soft_wrap=True)


def _print_beside(made: Dataset, facts: published.DatasetFacts) -> None:
    """What the paper says of its own recording; its returns are those of the first agent."""
    returns = stats.first_agent_returns(made)
    table = Table("", "transitions", "first agent's mean return", "lowest", "highest")
    for name, transitions, *values in (
        ("this", made.num_rows, returns.mean(), returns.min(), returns.max()),
        ("paper", facts.transitions, facts.mean_return, facts.min_return, facts.max_return),
    ):
        table.add_row(name, f"{transitions:,}", *(f"{value:.2f}" for value in values))
    console.print(table)
