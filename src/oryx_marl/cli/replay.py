"""The command `oryx replay`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from oryx_marl import replaying
from oryx_marl.cli.console import RunFolder, default_is, errors, say
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import Act
from oryx_marl.replaying import NewEpisodes
from oryx_marl.report import video

AS_RECORDED = default_is("as recorded with the run")


@dataclass(frozen=True)
class Replay:
    """Write a film of a run's policy, as GIF or MP4: the recorded episodes, or new ones."""

    run_folder: RunFolder
    """Folder of the run, or a policy file."""
    gif: bool = False
    """Write a GIF."""
    mp4: bool = False
    """Write an MP4."""
    out: Annotated[Path | None, default_is("replay.gif, replay.mp4 in the run's folder")] = None
    """File to write; an earlier one is replaced."""
    episodes: Annotated[int | None, AS_RECORDED] = None
    """Play so many new episodes; 6 where another flag below asks for new ones."""
    act: Annotated[Act | None, AS_RECORDED] = None
    """How the policy acts in them: sampled, greedy, or a temperature between them such as 0.25."""
    env: Annotated[str | None, default_is("that of the data")] = None
    """Environment to play them in: a name, or package.module:make."""
    seed: Annotated[int | None, default_is("the first")] = None
    """Number of the training's seed."""
    which: Annotated[Literal["last", "best"] | None, default_is("last")] = None
    """The last weights, or those of the best evaluation while training."""
    random_seed: Annotated[int | None, default_is("0")] = None
    """Another number gives other episodes."""
    fps: Annotated[int | None, default_is("4; more where an episode would take over 20 s")] = None
    """Steps per second."""
    scale: Annotated[int | None, default_is("so that small pictures have about 320 pixels")] = None
    """Pixels of the film for each pixel of the picture."""

    def __post_init__(self) -> None:
        self._new()  # refuses what cannot be
        self._paths()

    def run(self) -> None:
        film = replaying.write(
            self.run_folder, self._paths(), self._new(), self.fps, self.scale, errors
        )
        say(film.told)
        for path in film.paths:
            say(f"film: {path} ({path.stat().st_size / 1e6:,.2f} MB)")

    def _new(self) -> NewEpisodes:
        return NewEpisodes(
            self.episodes, self.act, self.env, self.seed, self.which, self.random_seed
        )

    def _paths(self) -> list[Path]:
        chosen = [suffix for suffix in video.FORMATS if getattr(self, suffix[1:])]
        if self.out is None:
            if not chosen:
                raise OryxError("say which film to write: --gif, --mp4, or --out FILE.mp4")
            return [replaying.default_path(self.run_folder, suffix) for suffix in chosen]
        if chosen not in ([], [self.out.suffix.lower()]):
            raise OryxError(
                f"--out {self.out} does not end in {' and '.join(chosen)}; leave one of them out"
            )
        return [self.out]
