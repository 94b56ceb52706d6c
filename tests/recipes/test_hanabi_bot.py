"""The bot of Hanabi reads its observation right, keeps its convention, and plays well."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import recipes
from oryx_marl.envs.hanabi import Hanabi
from oryx_marl.recipes import _hanabi_bot as bot
from oryx_marl.rollout import episodes
from oryx_marl.types import Observation

ENV = Hanabi()
KEY = jax.random.key(2)
GAMES = 64


@cache
def games():
    """Games of the bot without noise: states before each step, moves, which were played."""
    play = jax.jit(
        lambda key: episodes.record_trajectories(ENV, bot.make_policy((0.0,)), key, GAMES)
    )
    return jax.device_get(play(KEY))


def view_of(agent=0, **changes):
    """What the player knows at the start of a game, with these fields instead."""
    _, first = ENV.reset(KEY)
    return bot.read(first.observation.features[agent])._replace(**changes)


def card(colour, rank):
    """The number of a card's type; ranks as they are printed."""
    return colour * 5 + rank - 1


def hand(*types):
    return jnp.asarray(np.eye(25, dtype=bool)[list(types)])


@pytest.mark.slow
def test_the_bot_plays_well():
    """21.6 of 25 over many games, standard deviation 2.3: five standard errors are left."""
    found = games()
    returns = np.asarray(found.rewards).sum(axis=0)
    assert returns.mean() > 20
    assert not np.asarray(found.last.bombed).any()


@pytest.mark.slow
def test_what_is_read_is_what_there_is():
    """In all states of some games, for both players."""
    found = games()
    take = np.nonzero(np.asarray(found.live))
    states = jax.tree.map(lambda x: jnp.asarray(x[take][::7]), found.states)

    def look(state):
        features = ENV._answer(
            state, ENV._game.get_obs(state, state, 20), jnp.float32(0)
        ).observation.features
        return jax.vmap(bot.read)(features)

    views = jax.device_get(jax.jit(jax.vmap(look))(states))
    count = len(states.score)
    assert count > 300
    hands = np.asarray(states.player_hands).reshape(count, 2, 5, 25)
    np.testing.assert_array_equal(views.their_cards, hands[:, ::-1] > 0)
    for agent in (0, 1):
        np.testing.assert_array_equal(views.heights[:, agent], states.fireworks.sum(axis=-1))
        np.testing.assert_array_equal(views.lives[:, agent], states.life_tokens.sum(axis=-1))
        np.testing.assert_array_equal(views.deck[:, agent], states.deck.sum(axis=(1, 2, 3)))
        discarded = np.asarray(states.discard_pile).sum(axis=1).reshape(count, 25)
        np.testing.assert_array_equal(views.discarded[:, agent], discarded)
        revealed = [
            np.asarray(x).any(axis=-1) for x in (states.colors_revealed, states.ranks_revealed)
        ]
        np.testing.assert_array_equal(views.my_hints[:, agent], np.stack(revealed, -1)[:, agent])
        mine = hands[:, agent] > 0
        assert views.my_types[:, agent][mine].all()  # nothing true is ruled out
    np.testing.assert_array_equal(views.my_types, views.their_types[:, ::-1])
    np.testing.assert_array_equal(views.my_hints, views.their_hints[:, ::-1])


@pytest.mark.slow
def test_a_hint_is_read_by_whom_it_is_for():
    state, first = ENV.reset(KEY)
    action = 10 + int(first.observation.action_mask[0, 10:15].argmax())
    _, step = ENV.step(state, jnp.array([action, 20]), KEY)
    mine, theirs = (bot.read(step.observation.features[agent]) for agent in (1, 0))
    has_colour = np.asarray(state.player_hands[1]).sum(axis=2)[:, action - 10] > 0
    np.testing.assert_array_equal(mine.hinted_now, has_colour)
    assert mine.by_colour
    assert not theirs.hinted_now.any()


@pytest.mark.slow
def test_what_fits_what_is_useless_and_what_is_critical():
    discarded = np.zeros(25, int)
    discarded[card(0, 3)] = 2  # both red 3s are lost, so red 4 and 5 are useless
    discarded[card(1, 4)] = 1  # one yellow 4 is left
    view = view_of(heights=jnp.array([1, 3, 0, 5, 0]), discarded=jnp.asarray(discarded))
    assert np.flatnonzero(bot.fitting(view)).tolist() == [
        card(0, 2),
        card(1, 4),
        card(2, 1),
        card(4, 1),
    ]
    assert np.flatnonzero(bot.useless(view)).tolist() == sorted(
        [card(0, rank) for rank in (1, 3, 4, 5)]
        + [card(1, rank) for rank in (1, 2, 3)]
        + [card(3, rank) for rank in (1, 2, 3, 4, 5)]
    )
    assert np.flatnonzero(bot.critical(view)).tolist() == [
        card(1, 4),
        card(1, 5),
        card(2, 5),
        card(4, 5),
    ]


def test_chances_count_the_cards_that_are_not_seen():
    """It is a red 1 or 2; of three 1s two are seen, of two 2s none."""
    types = np.zeros((5, 25), bool)
    types[:, [card(0, 1), card(0, 2)]] = True
    view = view_of(
        my_types=jnp.asarray(types),
        their_cards=hand(card(0, 1), *[card(1, 1)] * 4),
        discarded=jnp.asarray(np.eye(25, dtype=int)[card(0, 1)]),
    )
    chances = np.asarray(bot.my_chances(view))
    np.testing.assert_allclose(chances[0, [card(0, 1), card(0, 2)]], [1 / 3, 2 / 3])
    np.testing.assert_allclose(chances.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("touched", "hints", "by_colour", "focus"),
    [
        ([1, 0, 1, 0, 0], [], True, 2),  # the newest
        ([1, 0, 1, 0, 0], [(2, 1)], True, 0),  # whose rank is not known
        ([1, 0, 1, 0, 0], [(2, 0)], True, 2),  # that its colour is known says nothing new
        ([1, 0, 1, 0, 0], [(0, 1), (2, 1)], True, 2),
        ([1, 0, 1, 0, 0], [(2, 0)], False, 0),
    ],
)
def test_focus(touched, hints, by_colour, focus):
    known = np.zeros((5, 2), bool)
    for place in hints:
        known[place] = True
    found = bot.find_focus(jnp.array(touched, bool), jnp.asarray(known), jnp.bool_(by_colour))
    assert np.flatnonzero(found).tolist() == [focus]


def test_hints_are_given_where_the_focus_fits():
    """All fit that are 1s: rank 1 has the newest of them in focus, white has a 4 in focus."""
    cards = hand(card(0, 5), card(3, 1), card(1, 1), card(2, 3), card(3, 4))
    scores = np.asarray(bot.score_hints(view_of(their_cards=cards)))
    white, rank_1, rank_3 = 3, 5, 7
    assert scores.argmax() == rank_1
    assert scores[white] < 0  # would be played, and does not fit
    assert 0 < scores[rank_3] < 50  # cannot be mistaken, and is worth less than a discard
    assert scores[rank_1] > 80


def test_what_must_not_be_lost_is_hinted():
    """The oldest card is the last red 3; nothing fits."""
    cards = hand(card(0, 3), card(1, 4), card(2, 4), card(1, 3), card(3, 4))
    lost = jnp.asarray(np.eye(25, dtype=int)[card(0, 3)])
    scores = np.asarray(bot.score_hints(view_of(their_cards=cards, discarded=lost)))
    rank_3 = 7
    assert scores.argmax() == rank_3
    assert scores[rank_3] > 60
    assert np.asarray(bot.score_hints(view_of(their_cards=cards)))[rank_3] < 50


def test_an_old_card_is_discarded_before_a_hinted_or_critical_one():
    scores = np.asarray(bot.score_discards(view_of()))
    assert scores.argmax() == 0
    hints = jnp.zeros((5, 2), bool).at[0, 0].set(True)
    assert np.asarray(bot.score_discards(view_of(my_hints=hints))).argmax() == 1
    types = np.ones((5, 25), bool)
    types[0] = np.arange(25) % 5 == 4  # a 5
    types[3] = np.arange(25) % 5 == 0  # a 1, when all 1s lie
    view = view_of(my_types=jnp.asarray(types), heights=jnp.ones(5, int))
    assert np.asarray(bot.score_discards(view)).argmax() == 3
    assert np.asarray(bot.score_discards(view)).argmin() == 0


@pytest.mark.slow
def test_a_level_of_noise_is_drawn_for_each_game():
    policy = bot.make_policy((0.0, 1.0))
    _, first = jax.vmap(ENV.reset)(jax.random.split(KEY, 200))
    act = jax.jit(policy.act)
    level, actions, _ = act(policy.init(200), first.observation, policy.draw_noise(KEY, 200))
    assert 0.35 < level.mean() < 0.65
    other = policy.draw_noise(jax.random.key(9), 200)
    fresh: Observation = first.observation
    kept, again, _ = act(level, fresh._replace(reset=jnp.zeros(200, bool)), other)
    np.testing.assert_array_equal(kept, level)
    bots, random = np.asarray(level) == 0, np.asarray(level) == 1
    np.testing.assert_array_equal(actions[bots], again[bots])
    assert (actions[random] != again[random]).any(axis=1).mean() > 0.8
    mask = np.asarray(fresh.action_mask)
    assert np.take_along_axis(mask, np.asarray(again)[..., None], axis=2).all()


@pytest.mark.slow
def test_a_small_dataset(tmp_path):
    recipes.make("hanabi/mixed", tmp_path, rows=3_000)
    found = recipes.open("hanabi/mixed", tmp_path)
    assert found.observations.dtype == np.int8
    assert 3_000 <= found.num_rows < 3_090
    assert np.take_along_axis(found.action_mask, found.actions[..., None], axis=2).all()
    ends = np.append(found.episode_starts[1:], found.num_rows) - 1
    assert found.terminals[ends].all()
    assert (found.episode_returns > 18).any()
    assert (found.episode_returns == 0).any()
