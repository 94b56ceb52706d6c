"""The command `oryx train ... --resume`: a run goes on with the settings it has."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from oryx_marl import api, registry, resuming
from oryx_marl.cli import train
from oryx_marl.cli.console import FLAGS, OPTIONAL, RunFolder, default_is, errors
from oryx_marl.experiment import EvaluationSettings
from oryx_marl.resuming import Begun
from oryx_marl.runs.documents import RunConfig
from oryx_marl.runs.folder import Run

ROOM = "algorithms"
FLAG = "--resume"
AS_BEFORE = default_is("as before")


@dataclass(frozen=True)
class Resume:
    """Continue a run with its settings; only these can be changed."""

    run_folder: RunFolder
    """Folder of a run that was stopped or killed, or that is to train longer."""
    updates: Annotated[int | None, AS_BEFORE] = None
    """Gradient updates per seed in all, if more than before."""
    steps: Annotated[int | None, AS_BEFORE] = None
    """The same for an online learner, in environment steps."""
    data: Annotated[str | None, AS_BEFORE] = None
    """Name or folder of the dataset, where it is not found by the name that the run has noted."""
    env: Annotated[str | None, AS_BEFORE] = None
    """Environment to score in, if it is one of your own (package.module:make): code is never
    imported because a run says so."""
    episodes: Annotated[int | None, AS_BEFORE] = None
    """Episodes per seed for the final scores."""
    episodes_while_training: Annotated[int | None, AS_BEFORE] = None
    """Episodes per seed each time the curve gets a point."""
    replays: Annotated[int | None, AS_BEFORE] = None
    """Episodes recorded for the page's replay."""
    continue_on_divergence: Annotated[bool | None, AS_BEFORE] = None
    """When a seed diverges, train the others on; it stays as at the last checkpoint."""
    log: Annotated[train.LogTo | None, AS_BEFORE] = None
    """Pass metrics and scores on as they are written, to one or several: TensorBoard, W&B, CSV."""

    def run(self) -> None:
        begun = resuming.read(self.run_folder)
        with begun.run.lock():
            work = resuming.make_experiment(
                begun,
                updates=self.updates,
                steps=self.steps,
                data=self.data,
                env=self.env,
                evaluation=self._evaluation(begun),
                continue_on_divergence=self.continue_on_divergence,
                log=self.log,
            )
            train.show(api.run_experiment(work, True, errors))

    def _evaluation(self, begun: Begun) -> EvaluationSettings:
        names = ("episodes", "episodes_while_training", "replays")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(begun.evaluation, **given)


def is_asked(words: list[str]) -> bool:
    """Whether the words ask for a run to be continued, and not for the help of an algorithm."""
    resumes = any(word == FLAG or word.startswith(f"{FLAG}=") for word in words)
    is_help = bool({"-h", "--help"} & {*words}) and not words[1].startswith("-")
    return words[:1] == ["train"] and resumes and not is_help


def read(words: list[str], read_plainly: Any) -> Any:
    """The command that the words ask for; what they do not say is taken from the run.

    `read_plainly(words)` reads them as if a run were begun.
    """
    if words[1].startswith("-"):  # no algorithm: the run knows it
        rest = [word.removeprefix(f"{FLAG}=") for word in words[1:] if word != FLAG]
        return tyro.cli(
            Resume, prog=f"oryx train {FLAG}", args=rest, config=FLAGS, registry=OPTIONAL
        )
    name = registry.canonical(ROOM, words[1])
    out = infer_schema(words)
    if name not in registry.names(ROOM) or out is None or not Run(out).has(RunConfig):
        command = read_plainly(words)  # names what is unknown
        out = command.find_out()
        if not Run(out).has(RunConfig):
            return command  # which says so when it is run
    begun = train.continue_command(name, resuming.read(out))
    prog = f"oryx train {words[1]}"
    return tyro.cli(
        type(begun), default=begun, prog=prog, args=words[2:], config=FLAGS, registry=OPTIONAL
    )


def infer_schema(words: list[str]) -> Path | None:
    """The folder that is named with `--out`."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == "--out":
            return Path(after)
        if word.startswith("--out="):
            return Path(word.removeprefix("--out="))
    return None
