"""Scores in an environment: while training, and of the last and best weights at its end."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from oryx_marl.eval import metrics
from oryx_marl.eval.evaluator import Evaluator, Scores
from oryx_marl.outcomes.base import Trained
from oryx_marl.outcomes.replay import make_replay
from oryx_marl.policy.acting import ways_in
from oryx_marl.runs.documents import Evaluation, MarlEval, Score, Summary
from oryx_marl.runs.replay import Shown

STREAMS = {"last": 1_000_000_001, "best": 1_000_000_002, "replay": 1_000_000_003}
"""Random streams of the final evaluations, beyond every update's number."""


@dataclass(frozen=True, eq=False)
class EnvironmentScores:
    """Episodes played by the weights of all seeds."""

    evaluator: Evaluator
    episodes: int
    """Per seed, for the final scores."""
    episodes_while_training: int
    replays: int
    """Episodes whose pictures are kept."""
    ways: Mapping[str, float]
    """Temperatures by way of acting that are scored at the end; curve and replay have the first."""

    def while_training(self, weights: Any, update: int) -> Scores:
        """A point of the learning curve."""
        episodes = self.episodes_while_training
        return self.evaluator.evaluate(weights, update, episodes, self._temperature)

    def find(self, trained: Trained) -> Summary:
        """Writes summary.json, eval.json and the replay."""
        run, env = trained.run, self.evaluator.env
        summary, best = score(self.evaluator, trained.weights, self.episodes, self.ways)
        run.write(summary)
        layout = metrics.marl_eval(
            env.spec.environment or env.name,
            trained.task,
            trained.name,
            list(trained.seeds),
            [row.to_json() for row in run.rows(Evaluation)],
            best,
        )
        run.write(MarlEval(layout))
        if self.replays and hasattr(env, "render_rgb"):
            weights, stream = trained.weights["last"], STREAMS["replay"]
            act = next(iter(self.ways))
            shown = Shown(trained.seeds[0], "last", run.newest_update(), act)
            played = make_replay(self.evaluator, weights, stream, self.replays, self._temperature)
            run.write_replay([replace(episode, shown=shown) for episode in played])
        return summary

    @property
    def _temperature(self) -> float:
        """That of the headline."""
        return next(iter(self.ways.values()))


def score(
    evaluator: Evaluator,
    weights: dict[str, Any],
    episodes: int,
    ways: Mapping[str, float] | None = None,
) -> tuple[Summary, Scores]:
    """Last and best weights, in every way of acting, on fresh episodes; and those of the best
    weights in the first way. Where no ways are given, those of the action space."""
    name = evaluator.env.return_name
    ways = ways_in(None, evaluator.env.spec.action) if ways is None else ways
    found: dict[tuple[str, str], Score] = {}
    best: Scores = {}
    for which, network in weights.items():
        temperatures = list(ways.values())
        played = evaluator.evaluate_each(network, STREAMS[which], episodes, temperatures)
        for way, scores in zip(ways, played, strict=True):
            found[which, way] = Score.from_json(metrics.summarise_scores(scores, name))
        best = played[0]
    return Summary(name, episodes, found), best
