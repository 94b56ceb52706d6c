"""Films of every environment, read back by the libraries that others read them with."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import jax
import numpy as np
import pytest
import toy_envs
from PIL import Image
from rich.console import Console

import oryx_marl
from oryx_marl import installation, registry, replaying
from oryx_marl.algorithms import bc
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.cli import main as cli
from oryx_marl.envs import base, to_pettingzoo
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.replaying import NewEpisodes
from oryx_marl.report import video
from oryx_marl.report.video import Layout
from oryx_marl.runs import replay as recorded
from oryx_marl.runs.folder import Run
from oryx_marl.runs.replay import Episode, Shown

CONFIG = bc.Config(network=RecurrentConfig(8, 8), batch_size=4, sequence_length=4)
QUIET = Console(quiet=True)
SCENARIOS = {"mamujoco": "mamujoco-hopper-3x1"}
"""Of families whose default one has long episodes: this robot falls soon."""
ONE = NewEpisodes(episodes=1, random_seed=3)


def write_policy(path: Path, env: Any, seeds: tuple[int, ...] = (4,)) -> Path:
    """A policy file that has learned nothing."""
    algorithm = make_algorithm("bc", CONFIG, env.spec)
    keys = jax.vmap(jax.random.key)(np.array(seeds))
    weights = jax.device_get(algorithm.weights(jax.vmap(algorithm.init)(keys)))
    origin = {"update": 1200, "learned_from": "logs/mixed"}
    artifact.save(path, PolicyArtifact("bc", algorithm, env.spec, weights, seeds, origin))
    return path


def read_gif(path: Path) -> tuple[list[np.ndarray], list[int], str]:
    """Pictures, their milliseconds, and the comment."""
    with Image.open(path) as file:
        found, lengths = [], []
        for index in range(file.n_frames):
            file.seek(index)
            found.append(np.asarray(file.convert("RGB")))
            lengths.append(file.info["duration"])
        file.seek(0)
        return found, lengths, file.info["comment"].decode()


def read_mp4(path: Path) -> tuple[list[np.ndarray], dict[str, str], float]:
    """Pictures, what the file says of itself, and its seconds."""
    with av.open(str(path)) as file:
        found = list(file.decode(video=0))
        assert {frame.format.name for frame in found} == {"yuv420p"}
        assert file.duration is not None
        pictures = [frame.to_ndarray(format="rgb24") for frame in found]
        return pictures, dict(file.metadata), file.duration / 1e6


FAMILIES = [
    pytest.param(name, marks=pytest.mark.slow) if name == "hanabi" else name  # compiles for long
    for name in registry.names("envs")
]


def nothing(what: str, done: int, of: int) -> None:
    """Reports to nobody."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_environment_gives_films(family: str, tmp_path: Path) -> None:
    env = base.make_named(SCENARIOS.get(family, family))
    policy = write_policy(tmp_path / "policy.npz", env)
    paths = [tmp_path / "film.gif", tmp_path / "film.mp4"]
    with replaying.find_episodes(policy, ONE, nothing) as (found, told):
        (episode,) = found.episodes
        assert found.lengths == (len(episode.frames),)
        layout = Layout.choose(found.size, found.lengths[0], 10, None)
        drawn = found._replace(episodes=iter([episode]))
        film = replaying.draw(drawn, told, layout, paths, nothing)
    acting = "sampled" if env.spec.action.kind == "discrete" else "greedy"
    assert told == (
        f"1 {acting} episode of the first seed (4), not chosen: all that were played in {env.name} "
        "with random seed 3 by bc on logs/mixed, last weights, update 1,200. Run: policy.npz."
    )
    check_gif(paths[0], episode, layout, told)
    check_mp4(paths[1], episode, layout, told)
    assert film.pictures == 1 + len(episode.frames)


def place(picture: np.ndarray, episode: Episode, layout: Layout) -> np.ndarray:
    """The part of a film's picture that shows the environment, in its own pixels."""
    height, width = (side * layout.scale for side in episode.frames.shape[1:3])
    top = (layout.height - video.STRIP - height) // 2
    left = (layout.width - width) // 2
    part = picture[top : top + height, left : left + width]
    return part[layout.scale // 2 :: layout.scale, layout.scale // 2 :: layout.scale]


def check_gif(path: Path, episode: Episode, layout: Layout, told: str) -> None:
    """Every picture as it was, or where it has more colours than a GIF has nearly so."""
    pictures, lengths, comment = read_gif(path)
    assert comment == told
    assert len(pictures) == 1 + len(episode.frames)
    assert pictures[0].shape == (layout.height, layout.width, 3)
    assert lengths == [1500, *[100] * (len(episode.frames) - 1), 600]
    assert (pictures[0] != 255).any()  # the title
    every = max(1, len(episode.frames) // 20)
    for picture, frame in zip(pictures[1::every], episode.frames[::every], strict=True):
        shown = place(picture, episode, layout)
        if len(np.unique(frame.reshape(-1, 3), axis=0)) < 250:
            np.testing.assert_array_equal(shown, frame)
        else:
            assert (shown == frame).all(axis=-1).mean() > 0.98  # all but soft edges
            assert np.abs(shown.astype(int) - frame).mean() < 0.1
        assert (picture[-video.STRIP :] != 255).any()  # the strip
    assert (pictures[1][-video.STRIP :] != pictures[-1][-video.STRIP :]).any()


def check_mp4(path: Path, episode: Episode, layout: Layout, told: str) -> None:
    """Colours of areas nearly as they were: 15 pictures of title and 6 of the end."""
    pictures, about, seconds = read_mp4(path)
    assert about["title"] == about["comment"] == told
    count = 15 + len(episode.frames) - 1 + 6
    assert len(pictures) == count
    assert seconds == pytest.approx(count / 10, abs=0.01)
    assert pictures[0].shape == (layout.height, layout.width, 3)
    assert layout.height % 2 == layout.width % 2 == 0
    for index in (0, len(episode.frames) // 2, len(episode.frames) - 1):
        frame, shown = episode.frames[index], place(pictures[15 + index], episode, layout)
        colours, inverse = np.unique(frame.reshape(-1, 3), axis=0, return_inverse=True)
        common = np.bincount(inverse.reshape(-1)).argmax()
        cells = shown.reshape(-1, 3)[inverse.reshape(-1) == common].astype(int)
        assert np.abs(np.median(cells, axis=0) - colours[common]).max() <= 4
        assert np.abs(shown.astype(int) - frame).mean() < 8


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds that has recorded two episodes."""
    folder = tmp_path_factory.mktemp("films") / "mine"
    small = {"batch_size": 4, "sequence_length": 4, "linear_width": 8, "recurrent_width": 8}
    times = {"log_every": 2, "checkpoint_every": 2, "evaluate_every": 2}
    evaluation = EvaluationSettings(episodes=2, episodes_while_training=2, replays=2)
    data = "tmaze/planner-expert"
    oryx_marl.train(
        "bc",
        data,
        out=folder,
        updates=2,
        seeds=2,
        evaluation=evaluation,
        progress=False,
        **small,
        **times,
    )
    return folder


def test_by_default_the_recorded_episodes_are_shown(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["replay", str(run), "--gif", "--mp4", "--fps", "10"])
    told = (
        "2 sampled episodes of the first seed (0), not chosen: the first ones after training of bc "
        "on tmaze/planner-expert, last weights, update 2. Run: mine."
    )
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == told
    assert lines[1].startswith(f"film: {run / 'replay.gif'} (")
    assert lines[2].startswith(f"film: {run / 'replay.mp4'} (")
    assert "drawing" in shown.err
    episodes = Run(run).read_replay()
    assert {episode.shown for episode in episodes} == {Shown(0, "last", 2, "sampled")}
    pictures, _, comment = read_gif(run / "replay.gif")
    assert comment == told
    frames = [frame for episode in episodes for frame in episode.frames]
    assert len(pictures) == 1 + len(frames)
    layout = Layout.choose((256, 256), 1, 10, None)
    for picture, frame in zip(pictures[1:], frames, strict=True):
        np.testing.assert_array_equal(place(picture, episodes[0], layout), frame)
    assert read_mp4(run / "replay.mp4")[1]["title"] == told


def test_new_episodes_of_another_seed(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "film.GIF"
    ask: dict[str, Any] = {"act": 0.25, "seed": 1, "which": "best", "progress": False}
    assert oryx_marl.replay(run, out, episodes=1, scale=2, **ask) == out
    pictures, _, comment = read_gif(out)
    assert comment == (
        "1 episode at temperature 0.25 of seed 1, not chosen: all that were played in tmaze with "
        "random seed 0 by bc on tmaze/planner-expert, best weights, update 2. Run: mine."
    )
    assert pictures[0].shape == (2 * 256 + video.STRIP, 512, 3)
    again, other = tmp_path / "again.gif", tmp_path / "other.gif"
    oryx_marl.replay(run, again, episodes=1, scale=2, **ask)
    assert again.read_bytes() == out.read_bytes()
    oryx_marl.replay(run, other, episodes=1, scale=2, random_seed=1, **ask)
    assert "random seed 1" in read_gif(other)[2]


def test_a_run_of_an_older_version(tmp_path: Path) -> None:
    """Its replay does not say which weights were shown."""
    shutil.copytree(Path(__file__).parent / "fixtures" / "v0.1.0" / "run", tmp_path / "old")
    env = base.make_named("tmaze")
    frames = np.zeros((3, 9, 7, 3), np.uint8)
    episode = Episode("episode 1", 1.0, frames, (("stay",), ("go",)), (0.0, 1.0))
    Run(tmp_path / "old").write_replay([episode])
    assert env.name == "tmaze"
    film = replaying.write(tmp_path / "old", [tmp_path / "a.mp4"], NewEpisodes(), None, None, QUIET)
    assert film.told.startswith("1 sampled episode of the first seed (")
    assert "last weights. Run: old." in film.told
    assert read_mp4(tmp_path / "a.mp4")[0][0].shape == (35 * 9 + 1 + video.STRIP, 320, 3)


def test_a_film_that_skips_steps_says_at_which_it_is(tmp_path: Path) -> None:
    frames = np.zeros((4, 8, 8, 3), np.uint8)
    shown = Shown(3, "best", None, "0.5")
    stay = (("stay",),) * 3
    episode = Episode("a", 2.0, frames, stay, (1.0, 0.0, 1.0), every=2, steps=5, shown=shown)
    recorded.write(tmp_path / "replay.npz", [episode])
    (found,) = recorded.read(tmp_path / "replay.npz")
    assert (found.every, found.length, found.shown) == (2, 5, shown)
    assert [video.tell_step(found, index, 1, 1) for index in (0, 2, 3)] == [
        "episode 1 of 1 · step 0 of 5 · return so far 0",
        "episode 1 of 1 · step 4 of 5 · return so far 1",
        "episode 1 of 1 · step 5 of 5 · return 2",
    ]


def draw_maze() -> Any:
    return to_pettingzoo("tmaze", render_mode="rgb_array")


def test_environments_of_pettingzoo(tmp_path: Path) -> None:
    policy = write_policy(tmp_path / "policy.npz", base.make_named("tmaze"))
    out = oryx_marl.replay(policy, tmp_path / "a.gif", env=draw_maze, episodes=2, progress=False)
    pictures, _, comment = read_gif(out)
    assert comment.startswith("2 sampled episodes")
    assert len(pictures) > 3
    with pytest.raises(OryxError, match=r"'tmaze' draws no pictures: .*render_mode=\"rgb_array\""):
        oryx_marl.replay(policy, out, env=lambda: to_pettingzoo("tmaze"), progress=False)


class Blank(toy_envs.MeetEnv):
    """Cannot be drawn after its third picture."""

    def __init__(self) -> None:
        super().__init__(3)
        self.drawn = 0

    def render_rgb(self, state: Any) -> np.ndarray:
        self.drawn += 1
        if self.drawn > 3:
            raise RuntimeError("no more paint")
        return super().render_rgb(state)


def test_a_film_that_fails_leaves_no_file(tmp_path: Path) -> None:
    policy = write_policy(tmp_path / "policy.npz", Blank())
    (tmp_path / "film.gif").write_bytes(b"as before")
    with pytest.raises(RuntimeError, match="no more paint"):
        oryx_marl.replay(policy, tmp_path / "film.gif", env=Blank(), progress=False)
    assert (tmp_path / "film.gif").read_bytes() == b"as before"
    assert {path.name for path in tmp_path.iterdir()} == {"policy.npz", "film.gif"}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["nowhere", "--gif"], 2, "there is no run at nowhere"),
        (["RUN"], 2, "say which film to write: --gif, --mp4, or --out FILE.mp4"),
        (["RUN", "--out", "film.webm"], 1, "must end in .gif or .mp4; got film.webm"),
        (["RUN", "--gif", "--out", "film.mp4"], 2, "--out film.mp4 does not end in .gif"),
        (["RUN", "--out", "RUN/policy.gif"], 1, "policy.gif: it is a folder. Choose another file"),
        (["RUN", "--out", "RUN/config.json/a.gif"], 1, "config.json is not a folder"),
        (["RUN", "--gif", "--episodes", "0"], 2, "episodes must be at least 1, got 0"),
        (["RUN", "--gif", "--act", "-1"], 2, "act must be sampled, greedy or a temperature"),
        (["RUN", "--gif", "--random-seed", "-1"], 2, "random_seed must not be negative, got -1"),
        (["RUN", "--gif", "--fps", "51"], 1, "fps must be from 1 to 50, got 51"),
        (["RUN", "--gif", "--scale", "0"], 1, "scale must be at least 1, got 0"),
        (["RUN", "--gif", "--scale", "30"], 1, "more than 4,096 a side; choose a smaller scale"),
        (["RUN", "--gif", "--seed", "7"], 1, "this policy has no seed 7; it has [0, 1]"),
    ],
)
def test_errors_for_people(
    run: Path, words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "policy.gif").mkdir(exist_ok=True)
    with pytest.raises(SystemExit) as stop:
        cli.main(["replay", *(word.replace("RUN", str(run)) for word in words)])
    assert told in capsys.readouterr().err
    assert stop.value.code == code


def test_a_damaged_replay_is_not_shown(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "replay.npz").write_bytes(b"not arrays")
    with pytest.raises(OryxError, match=r"replay.npz.* To play new episodes, say how many"):
        oryx_marl.replay(tmp_path / "run", tmp_path / "a.gif", progress=False)
    assert not (tmp_path / "a.gif").exists()


def test_logs_of_an_unknown_environment(tmp_path: Path) -> None:
    env = toy_envs.make(num_moves=3)
    env.spec = replace(env.spec, environment="", environment_config={})
    policy = write_policy(tmp_path / "policy.npz", env)
    with pytest.raises(OryxError, match=r"environment is not known.* name an environment with env"):
        oryx_marl.replay(policy, tmp_path / "a.gif", progress=False)


@pytest.mark.parametrize(("package", "suffix"), [("PIL", "gif"), ("av", "mp4")])
def test_a_missing_package_is_told(
    run: Path, package: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer: Callable[..., Any] = installation.importlib.import_module

    def find(module: str, *rest: Any) -> Any:
        if module.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{package}'", name=package)
        return importer(module, *rest)

    monkeypatch.setattr(installation.importlib, "import_module", find)
    with pytest.raises(OryxError, match=rf"package {package}; install it: pip install.*\[video\]"):
        oryx_marl.replay(run, tmp_path / f"a.{suffix}", progress=False)
    assert not list(tmp_path.iterdir())
