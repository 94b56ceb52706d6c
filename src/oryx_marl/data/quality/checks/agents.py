"""Who takes part: agents that are missing, blank, or rewarded while away."""

import numpy as np

from oryx_marl.data.quality.issues import MOST_PLACES, Place, Places
from oryx_marl.data.view import Chunk, View

USUAL = 0.9
"""An agent that takes part in this share of the episodes is missed in the others."""


class Agents:
    """Presence step by step and episode by episode."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        self._agents = view.spec.agents
        count = view.spec.num_agents
        self._episodes_with = np.zeros(count, np.int64)
        self._num_episodes = len(view.episode_starts)
        self._here = np.zeros(count, bool)
        self._missing: list[list[int]] = [[] for _ in range(count)]

    def see(self, chunk: Chunk) -> None:
        data = chunk.data
        agent_mask = (
            np.ones(data.rewards.shape, bool) if data.agent_mask is None else data.agent_mask
        )
        blank: np.ndarray = np.logical_and(agent_mask, ~data.observations.any(axis=-1))
        self.places.add_mask(
            "blank observation", chunk, blank, lambda *_: ("observations", "all features are 0")
        )
        self._count_episodes(chunk, agent_mask)
        if data.agent_mask is None:
            return
        self.places.add_mask(
            "nobody there",
            chunk,
            np.asarray(~agent_mask.any(axis=1)),
            lambda *_: ("agent_mask", "no agent takes part in this step"),
        )
        self.places.add_mask(
            "reward of an absent agent",
            chunk,
            ~agent_mask & (data.rewards != 0),
            lambda row, agent: ("rewards", f"absent, but its reward is {data.rewards[row, agent]}"),
        )

    def end(self) -> None:
        for agent, name in enumerate(self._agents):
            share = self._episodes_with[agent] / self._num_episodes
            if share == 0:
                place = Place("it is absent in every step", agent=name, column="agent_mask")
                self.places.add("agent never there", place)
            elif USUAL <= share < 1:
                what = f"absent all along, but there in {share:.1%} of the episodes"
                count = self._num_episodes - int(self._episodes_with[agent])
                for number, episode in enumerate(self._missing[agent]):
                    place = Place(what, episode, None, name, "agent_mask")
                    stands_for = count - len(self._missing[agent]) + 1 if number == 0 else 1
                    self.places.add("agent missing from an episode", place, stands_for)

    def _count_episodes(self, chunk: Chunk, agent_mask: np.ndarray) -> None:
        """In which episodes each agent takes part; one may go on from the chunk before."""
        here = np.logical_or.reduceat(agent_mask, chunk.data.episode_starts, axis=0)
        here[0] |= self._here & (chunk.first_step > 0)
        complete = here if chunk.is_last[-1] else here[:-1]
        self._here = np.zeros_like(self._here) if chunk.is_last[-1] else here[-1]
        self._episodes_with += complete.sum(axis=0)
        for agent, episodes in enumerate(self._missing):
            wanted = MOST_PLACES - len(episodes)
            found = np.flatnonzero(~complete[:, agent])[:wanted]
            episodes += (chunk.first_episode + found).tolist()


make = Agents
