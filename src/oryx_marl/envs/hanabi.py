"""Hanabi: two players build fireworks together, and each sees only the other's cards.

The environment is jaxmarl's `HanabiEnv`, the full game of two players: 5 colours of 10 cards (three
1s, two each of 2, 3 and 4, one 5), 5 cards in a hand, 8 hint tokens, 3 lives. Players take turns.
Whoever is not on turn has a single available action, to wait. A card that fits on its colour's pile
scores; any other that is played costs a life. Both get reward 1 for each card that scores. Losing
the last life takes all of it back, so the return is the score. An episode ends then, when all 25
cards lie, or when everyone has had one turn after the last card was drawn; all ends are terminal.

What a player sees, 658 bits, in the order of jaxmarl and the Hanabi Learning Environment:

   127   the cards of the other player, and who is short of a card
    76   cards left in the deck, the piles, hint tokens, lives
    50   the cards that were discarded
    55   the last move, and what came of it
   350   of each card in both hands, its own first: what it can be, and what was hinted

Of what a card can be jaxmarl has the probability by what is neither discarded nor played; here it
is 1 where that is more than 0. The probabilities follow from it and the cards discarded and played.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from oryx_marl.envs import _hanabi_render, base
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

NUM_AGENTS = 2
HAND = 5
"""Cards in a hand; the oldest comes first."""
COLOURS = ("red", "yellow", "green", "white", "blue")
RANKS = 5
COPIES = (3, 2, 2, 2, 1)
"""Cards of each rank in each colour."""
NUM_FEATURES = 658
LONGEST = 90
"""Turns of the longest game: 40 draw the deck, each returns at most one of the hint tokens, of
which there are 8 more to spend, and two turns follow."""

State = Any
"""jaxmarl's own."""


class Hanabi:
    """The full game of two players."""

    return_name = "return"
    name = "hanabi"
    feature_range = (0.0, 1.0)
    reset_pool_rate = 0.0
    num_starts: int | None = None
    version = 1

    def __init__(self) -> None:
        self._game = base.optional("jaxmarl.environments.hanabi.hanabi").HanabiEnv()
        self.action_names = name_actions()
        self.spec = Spec(
            environment="hanabi",
            agents=tuple(self._game.agents),
            observation_sizes=(NUM_FEATURES,) * NUM_AGENTS,
            action=ActionSpace("discrete", len(self.action_names)),
            episode_limit=LONGEST,
        )

    def __eq__(self, other: object) -> bool:
        """There is only one, so compiled functions are shared."""
        return isinstance(other, Hanabi)

    def __hash__(self) -> int:
        return hash(self.name)

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """A shuffled deck; the first agent is on turn."""
        seen, state = self._game.reset(key)
        return state, self._answer(state, seen, jnp.float32(0))

    def step(self, state: State, actions: Int[Array, "N"], key: jax.Array) -> tuple[State, Step]:
        """The player on turn moves; an unavailable action is the first available one."""
        action_mask = self._action_mask(state)
        is_available = action_mask[jnp.arange(NUM_AGENTS), actions]
        actions = jnp.where(is_available, actions, action_mask.argmax(axis=-1))
        moves = {agent: actions[index] for index, agent in enumerate(self.spec.agents)}
        # jaxmarl's `step` would show the next game's first observation in the place of the last.
        seen, state, rewards, _, _ = self._game.step_env(key, state, moves)
        return state, self._answer(state, seen, rewards["__all__"])

    def render_text(self, state: State) -> str:
        """The table in characters: piles, both hands, tokens, lives."""
        return _hanabi_render.text(self._scene(state))

    def render_rgb(self, state: State) -> np.ndarray:
        """The table in pixels: hands above and below the piles, ranks as dots."""
        return _hanabi_render.rgb(self._scene(state))

    def _answer(self, state: State, seen: Any, reward: Array) -> Step:
        """What jaxmarl says, in our words."""
        observation = Observation(
            features=(self._stack(seen) > 0).astype(jnp.int8),
            action_mask=self._action_mask(state),
            agent_mask=jnp.ones(NUM_AGENTS, bool),
            reset=state.step == 0,
            step_count=state.step,
        )
        return Step(
            observation=observation,
            rewards=jnp.full(NUM_AGENTS, reward, jnp.float32),
            terminal=jnp.full(NUM_AGENTS, state.terminal),
            truncated=jnp.zeros(NUM_AGENTS, bool),
            metrics={
                "score": state.score.astype(jnp.float32),
                "bombed": state.bombed.astype(jnp.float32),
            },
        )

    def _action_mask(self, state: State) -> Bool[Array, "N A"]:
        return self._stack(self._game.get_legal_moves(state)).astype(bool)

    def _stack(self, by_agent: Any) -> Array:
        return jnp.stack([by_agent[agent] for agent in self.spec.agents])

    def _scene(self, state: State) -> _hanabi_render.Scene:
        table = jax.device_get(state)
        return _hanabi_render.Scene(
            hands=table.player_hands.reshape(NUM_AGENTS, HAND, -1).astype(bool),
            heights=table.fireworks.sum(axis=-1).astype(int),
            hints=int(table.info_tokens.sum()),
            lives=int(table.life_tokens.sum()),
            deck=int(table.deck.sum()),
            on_turn=int(table.cur_player_idx.argmax()),
            score=int(table.score),
            step=int(table.step),
        )


def name_actions() -> tuple[str, ...]:
    """What the actions are called; card 0 is the oldest."""
    cards = [f"{what} {card}" for what in ("discard", "play") for card in range(HAND)]
    hints = [f"hint {each}" for each in (*COLOURS, *range(1, RANKS + 1))]
    return (*cards, *hints, "wait")


def make(**config: Any) -> Hanabi:
    """The game; it has no settings."""
    if config:
        raise OryxError(f"hanabi has no settings, got {', '.join(sorted(config))}")
    return Hanabi()
