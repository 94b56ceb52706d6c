"""Hanabi: step by step beside jaxmarl's own, turns, ends, pictures."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.envs import hanabi
from oryx_marl.envs.hanabi import LONGEST, NUM_FEATURES, Hanabi
from oryx_marl.errors import OryxError

KEY = jax.random.key(11)
EPISODES = 32
ENV = Hanabi()
AGENTS = ("agent_0", "agent_1")
PLAYS = slice(5, 10)
WAIT = 20
CARDS = slice(308, 658)
"""Of the features, what is known of the cards in both hands."""


@cache
def played():
    """Mostly random moves in both, with the same keys: what jaxmarl says, and what we say.

    Half of the games play no card, so that they last until the deck is empty.
    """
    import jaxmarl

    reference = jaxmarl.make("hanabi")

    def play(key, index):
        seen, theirs = reference.reset(key)
        ours, first = ENV.reset(key)
        masks = reference.get_legal_moves(theirs)

        def advance(carry, step_key):
            theirs, ours, action_mask = carry
            draws = jax.random.uniform(step_key, action_mask.shape)
            draws = draws.at[:, PLAYS].multiply(index % 2)
            actions = jnp.where(action_mask, draws, -1).argmax(axis=-1)
            moves = {agent: actions[i] for i, agent in enumerate(AGENTS)}
            seen, theirs, rewards, dones, _ = reference.step_env(step_key, theirs, moves)
            ours, step = ENV.step(ours, actions, step_key)
            said = (seen, rewards, dones, reference.get_legal_moves(theirs))
            return (theirs, ours, step.observation.action_mask), (said, theirs, step, actions)

        start = (theirs, ours, first.observation.action_mask)
        _, rest = jax.lax.scan(advance, start, jax.random.split(key, LONGEST))
        return (seen, masks, first), rest

    keys = jax.random.split(KEY, EPISODES)
    return jax.device_get(jax.jit(jax.vmap(play))(keys, jnp.arange(EPISODES)))


def by_agent(values):
    return np.stack([values[agent] for agent in AGENTS], axis=-2)


def in_games():
    """[E, T]: the steps up to the end of each game."""
    _, ((_, _, dones, _), _, _, _) = played()
    last = dones["__all__"]
    return np.cumsum(last, axis=1) - last == 0


def test_every_step_is_jaxmarls():
    (first_seen, first_masks, first), ((seen, rewards, dones, masks), theirs, step, _) = played()
    here = in_games()
    assert here.sum() > 600
    np.testing.assert_array_equal(first.observation.features, by_agent(first_seen) > 0)
    np.testing.assert_array_equal(first.observation.action_mask, by_agent(first_masks))
    both = (EPISODES, LONGEST, 2)
    shared, ended = rewards["__all__"][..., None], dones["__all__"][..., None]
    pairs = (
        (step.observation.features, by_agent(seen) > 0),
        (step.observation.action_mask, by_agent(masks)),
        (step.rewards, np.broadcast_to(shared, both)),
        (step.terminal, np.broadcast_to(ended, both)),
        (step.metrics["score"], theirs.score),
    )
    for ours, reference in pairs:
        np.testing.assert_array_equal(ours[here], reference[here])
    assert not step.truncated.any()
    assert (step.rewards[here] > 0).any()
    assert (step.rewards[here] < 0).any()


def test_bits_are_all_that_jaxmarl_shows_but_for_the_chances_of_cards():
    _, ((seen, *_), _, step, _) = played()
    here, theirs = in_games(), by_agent(seen)
    assert step.observation.features.shape[-1] == NUM_FEATURES
    before = slice(0, CARDS.start)
    np.testing.assert_array_equal(
        step.observation.features[here][..., before], theirs[here][..., before]
    )
    assert ((theirs[here] > 0) & (theirs[here] < 1))[..., CARDS].any()


def test_the_last_observation_is_that_of_the_ended_game():
    """jaxmarl's own `step` would show the first of another game instead."""
    _, (_, _, step, _) = played()
    ends = np.asarray(step.terminal.all(axis=-1))
    assert ends.any(axis=1).all()
    for episode, t in enumerate(ends.argmax(axis=1)):
        assert int(step.observation.step_count[episode, t]) == t + 1
        assert not step.observation.reset[episode, t]
        last_move = step.observation.features[episode, t, :, 253:308]
        assert last_move.any()  # a new game has had none


def test_the_return_is_the_score_and_a_bomb_takes_it():
    _, (_, _, step, _) = played()
    here = in_games()
    returns = np.where(here, step.rewards[..., 0], 0).sum(axis=1)
    ends = np.asarray(step.terminal.all(axis=-1)).argmax(axis=1)
    games = np.arange(EPISODES)
    np.testing.assert_array_equal(returns, step.metrics["score"][games, ends])
    bombed = step.metrics["bombed"][games, ends] > 0
    assert bombed.any()
    assert not bombed.all()
    assert not returns[bombed].any()


def test_players_take_turns():
    (_, _, first), (_, _, step, actions) = played()
    masks = np.concatenate(
        [first.observation.action_mask[:, None], step.observation.action_mask], axis=1
    )[:, :-1]
    here = in_games()
    on_turn = np.arange(LONGEST) % 2
    for agent in (0, 1):
        waits = here & (on_turn != agent)
        assert (masks[waits][:, agent].sum(axis=-1) == 1).all()
        assert (actions[waits][:, agent] == WAIT).all()
        assert masks[waits][:, agent, WAIT].all()
        assert not masks[here & (on_turn == agent)][:, agent, WAIT].any()


@pytest.fixture(scope="module")
def step():
    return jax.jit(ENV.step)


def test_an_agent_does_not_see_its_own_cards():
    """Another hand in the same place changes what the other one sees, and nothing else."""
    _, state = ENV._game.reset(KEY)
    other = state.replace(player_hands=state.player_hands.at[0].set(state.player_hands[0, ::-1]))
    seen, changed = (
        np.asarray(
            ENV._answer(
                each, ENV._game.get_obs(each, each, WAIT), jnp.float32(0)
            ).observation.features
        )
        for each in (state, other)
    )
    np.testing.assert_array_equal(seen[0], changed[0])
    assert (seen[1] != changed[1]).any()


def test_an_unavailable_action_is_the_first_available_one(step):
    """With all eight hint tokens nothing can be discarded: the first available is to play."""
    state, first = jax.jit(ENV.reset)(KEY)
    assert first.observation.action_mask[0].argmax() == PLAYS.start
    for wrong in (0, WAIT):
        one, other = step(state, jnp.array([wrong, WAIT]), KEY), step(state, jnp.array([5, 3]), KEY)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)


def test_no_game_is_longer_than_the_limit(step):
    """Hint whenever there is a token, else discard: nothing takes longer without a card played."""
    state, now = jax.jit(ENV.reset)(KEY)
    turns = 0
    while not now.terminal.all():
        mask = np.asarray(now.observation.action_mask)
        moves = [20 - int(each[::-1].argmax()) for each in mask]
        moves = [
            move if move >= 10 else int(each.argmax())
            for move, each in zip(moves, mask, strict=True)
        ]
        state, now = step(state, jnp.array(moves), KEY)
        turns += 1
    assert LONGEST - 2 <= turns <= LONGEST == ENV.spec.episode_limit


def test_actions_are_called_what_they_are(step):
    names = ENV.action_names
    assert len(names) == 21
    assert [names[i] for i in (0, 9, 10, 15, 19, 20)] == [
        "discard 0",
        "play 4",
        "hint red",
        "hint 1",
        "hint 5",
        "wait",
    ]
    letters = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}
    for action, code in ENV._game.action_encoding.items():
        kind, what = code.split(" ")[0][0], code.split(" ")[0][1:]
        word = {"D": "discard", "P": "play", "H": "hint", "N": "wait"}[kind]
        assert names[action] == f"{word} {letters.get(what, what)}".strip()


def test_there_are_no_settings():
    with pytest.raises(OryxError, match="hanabi has no settings, got colours"):
        hanabi.make(colours=2)


def test_pictures(step):
    state, _ = jax.jit(ENV.reset)(KEY)
    lines = ENV.render_text(state).splitlines()
    assert lines[0] == "step 0: score 0, 8 hints, 3 lives, 40 cards in the deck"
    assert lines[1].endswith("<")
    assert not lines[2].endswith("<")
    assert lines[3] == "piles   R0 Y0 G0 W0 B0"
    fireworks = jnp.zeros((5, 5)).at[2, :3].set(1)
    hands = state.player_hands.at[1, 0].set(0)
    later = state.replace(fireworks=fireworks, player_hands=hands)
    assert ENV.render_text(later).splitlines()[3] == "piles   R0 Y0 G3 W0 B0"
    assert ENV.render_text(later).splitlines()[2].startswith("agent_1 -- ")
    changed = (ENV.render_rgb(state) != ENV.render_rgb(later)).any(axis=-1)
    rows, columns = np.nonzero(changed)
    assert rows.min() >= 56  # the first hand is the same
    assert set(columns[rows < 112] // 38) == {2}  # the pile of the third colour
