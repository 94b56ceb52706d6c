"""Scores in an environment: while training, and of the last and best weights at its end."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from oryx_marl.envs.base import is_host
from oryx_marl.eval import metrics
from oryx_marl.eval.evaluator import Evaluator, Scores
from oryx_marl.outcomes.base import Trained
from oryx_marl.outcomes.replay import make_replay
from oryx_marl.runs.documents import Evaluation, MarlEval, Score, Summary

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

    def while_training(self, weights: Any, update: int) -> Scores:
        """A point of the learning curve."""
        return self.evaluator.evaluate(weights, update, self.episodes_while_training)

    def find(self, trained: Trained) -> Summary:
        """Writes summary.json, eval.json and the replay."""
        run, env = trained.run, self.evaluator.env
        summary, best = score(self.evaluator, trained.weights, self.episodes)
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
        if self.replays and not is_host(env) and hasattr(env, "render_rgb"):
            weights = trained.weights["last"]
            run.write_replay(make_replay(self.evaluator, weights, STREAMS["replay"], self.replays))
        return summary


def score(
    evaluator: Evaluator, weights: dict[str, Any], episodes: int
) -> tuple[Summary, dict[str, np.ndarray]]:
    """Last and best weights, sampled and greedy, on fresh episodes; and the best's episodes."""
    env, found, best = evaluator.env, {}, {}
    for which, network in weights.items():
        for acting in ("greedy", "sampled"):
            best = evaluator.evaluate(network, STREAMS[which], episodes, acting == "greedy")
            summary = metrics.summarise_scores(best, env.return_name)
            found[which, acting] = Score.from_json(summary)
    order = [(which, acting) for which in weights for acting in ("sampled", "greedy")]
    return Summary(env.return_name, episodes, {key: found[key] for key in order}), best
