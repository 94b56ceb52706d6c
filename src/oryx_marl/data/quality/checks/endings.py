"""Where episodes end, and whether what was flagged can be true."""

import numpy as np

from oryx_marl.data.quality.issues import Place, Places
from oryx_marl.data.view import Chunk, View, episode_lengths

FEW_EPISODES = 5
"""With fewer, nothing is said about lengths."""
LIMIT_SHARE = 0.2
"""Share of episodes that must end at exactly the longest length to make it look like a limit."""


class Endings:
    """Flags step by step, then lengths and ends of all episodes."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        self._limit = view.spec.episode_limit
        self._flag = next(iter(view.origin.get("columns", {}).get("terminal", ())), None)
        self._lengths = episode_lengths(view)
        self._ends_terminal = np.zeros(len(self._lengths), bool)
        self._num_terminals = self._num_truncations = 0
        self._terminal_before = np.zeros(view.spec.num_agents, bool)

    def see(self, chunk: Chunk) -> None:
        data, is_last = chunk.data, chunk.is_last
        terminals, truncations = data.terminals, data.truncations
        ended = terminals | truncations
        self._num_terminals += int(terminals.sum())
        self._num_truncations += int(truncations.sum())
        episodes = chunk.first_episode + np.arange(int(is_last.sum()))
        self._ends_terminal[episodes] = terminals[is_last].any(axis=1)
        add = self.places.add_mask
        add(
            "episode without an end",
            chunk,
            is_last & ~ended.any(axis=1),
            lambda row, _: ("terminals", "the last step is neither terminal nor truncated"),
        )
        add(
            "steps after the end",
            chunk,
            ended.all(axis=1) & ~is_last,
            lambda row, _: ("terminals", "all agents end here, but another step follows"),
        )
        add(
            "terminal and truncated",
            chunk,
            terminals & truncations,
            lambda row, _: ("truncations", "the step is marked as both"),
        )
        before = np.vstack([self._terminal_before, terminals[:-1]])
        before[chunk.is_first] = False
        if data.agent_mask is not None:
            add(
                "agent acts after its end",
                chunk,
                before & data.agent_mask,
                lambda row, _: (
                    "agent_mask",
                    "it is there, though the step before was its terminal",
                ),
            )
        self._terminal_before = terminals[-1].copy()

    def end(self) -> None:
        lengths, count = self._lengths, len(self._lengths)
        if not self._num_terminals and not self._num_truncations:
            self.places.forget("episode without an end")
            what = f"terminals and truncations are 0 in all {int(lengths.sum()):,} steps"
            self.places.add("no flag is set", Place(what, column="terminals"))
        elif not self._num_terminals:
            what = f"all of {count:,} episodes end by truncation or not at all"
            self.places.add("no terminal", Place(what, column="terminals"))
        self._compare_with_limit()
        for episode in np.flatnonzero(lengths == 1):
            self.places.add("episode of one step", Place("it has one step", int(episode)))

    def _compare_with_limit(self) -> None:
        """Lengths against the limit of the Spec, or against the longest."""
        lengths, count = self._lengths, len(self._lengths)
        if self._limit is not None:
            for long in np.flatnonzero(lengths > self._limit):
                what = f"it has {lengths[long]:,} steps, but the limit is {self._limit:,}"
                self.places.add("longer than the limit", Place(what, int(long), self._limit))
        if count < FEW_EPISODES or lengths.max() == 1 or not self._num_terminals:
            return
        limit = int(lengths.max() if self._limit is None else self._limit)
        timed_out = self._ends_terminal & (lengths == limit)
        episode, share = int(timed_out.argmax()), timed_out.mean()
        if np.all(lengths == lengths[0]) and self._ends_terminal.all():
            what = f"all {count:,} episodes have {lengths[0]:,} steps and end with a terminal"
            kind = "terminals at one length"
        elif share >= LIMIT_SHARE or (self._limit is not None and share > 0):
            what = (
                f"{timed_out.sum():,} of {count:,} end with a terminal at exactly {limit:,} steps"
            )
            kind = "terminals at the limit"
        else:
            return
        if self._flag is not None:  # known of tables alone
            what += (
                f"; if this is a time limit, import again with `--truncated {self._flag}`, or "
                f"`--time-limit {limit}` if only some ends are"
            )
        place = Place(what, episode, int(lengths[episode]) - 1, column="terminals")
        self.places.add(kind, place, int(timed_out.sum()))


make = Endings
