"""A critic of joint actions: Q(history, joint action) of the whole team and of each agent.

Q is told in two parts: the reward of the step, which is learned from logged rewards alone, and what
follows. What an action does at once is then seen beside the noise of all that comes after it.

Retention over the observations and last actions of all agents encodes the history once. Any number
of joint actions is then valued on top of it, by attention among the agents of that step.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import lecun_normal, normal
from jaxtyping import Array, Bool, Float

from oryx_marl.networks.layers import Dense, Head, RMSNorm
from oryx_marl.networks.retention import Context
from oryx_marl.networks.sable import EncoderBlock, NetworkConfig
from oryx_marl.networks.tokens import ActionTokens, action_tokens
from oryx_marl.ops.distributions import Actions
from oryx_marl.ops.retention import head_decays
from oryx_marl.types import Spec, Window

WAVES = 4
"""Sines and cosines of the step count, so that values may change with time at any speed."""


class AgentAttention(eqx.Module):
    """Multi-head attention among the agents of one step."""

    queries: Dense
    keys: Dense
    values: Dense
    out: Dense
    num_heads: int = eqx.field(static=True)

    def __init__(self, key: Array, width: int, num_heads: int) -> None:
        keys = jax.random.split(key, 4)
        self.queries, self.keys, self.values, self.out = (
            Dense(each, width, width, lecun_normal()) for each in keys
        )
        self.num_heads = num_heads

    def __call__(
        self, x: Float[Array, "*B N D"], agent_mask: Bool[Array, "*B N"]
    ) -> Float[Array, "*B N D"]:
        q, k, v = (
            part(x).reshape(*x.shape[:-1], self.num_heads, -1)
            for part in (self.queries, self.keys, self.values)
        )
        scores = jnp.einsum("...nhk,...mhk->...hnm", q, k) / q.shape[-1] ** 0.5
        # Finite, so that a step with nobody in it has a softmax too.
        scores = jnp.where(agent_mask[..., None, None, :], scores, -1e9)
        mixed = jnp.einsum("...hnm,...mhk->...nhk", jax.nn.softmax(scores), v)
        return self.out(mixed.reshape(x.shape))


class Critic(eqx.Module):
    """Values in units of the spread of logged returns, beside a baseline that others add."""

    inputs: Dense
    blocks: tuple[EncoderBlock, ...]
    action_rows: Dense
    action_norm: RMSNorm
    attention: AgentAttention
    gate: Dense
    join: Dense
    norm: RMSNorm
    head: Head
    tokens: ActionTokens = eqx.field(static=True)
    config: NetworkConfig = eqx.field(static=True)
    horizon: int = eqx.field(static=True)

    def __init__(self, key: Array, spec: Spec, config: NetworkConfig, horizon: int) -> None:
        keys = jax.random.split(key, 6)
        width = config.width
        self.tokens = action_tokens(spec.action)
        size = spec.observation_size + self.tokens.num_inputs + spec.num_agents + 1 + 2 * WAVES
        self.inputs = Dense(keys[0], size, width, lecun_normal(), use_bias=True)
        self.blocks = tuple(
            EncoderBlock(each, config) for each in jax.random.split(keys[1], config.num_blocks)
        )
        self.action_rows = Dense(keys[2], self.tokens.num_inputs, width, normal(1.0))
        self.action_norm, self.norm = RMSNorm(width), RMSNorm(width)
        self.attention = AgentAttention(keys[3], width, config.num_heads)
        join_key, gate_key = jax.random.split(keys[4])
        self.gate = Dense(gate_key, width, width, lecun_normal())
        self.join = Dense(join_key, 3 * width, width, lecun_normal(), use_bias=True)
        self.head = Head(keys[5], width, 4)
        self.config, self.horizon = config, horizon

    def encode(self, window: Window) -> Float[Array, "B T N D"]:
        """Histories up to each step, its actions not yet told; features are standardised."""
        seen, agents = window.observation, window.observation.agent_mask.shape[-1]
        last = self.tokens.inputs(self._last_actions(window), jnp.float32)
        time = jnp.broadcast_to(
            self._time(seen.step_count)[..., None, :], (*last.shape[:-1], 1 + 2 * WAVES)
        )
        who = jnp.broadcast_to(jnp.eye(agents), (*last.shape[:-1], agents))
        x = jnp.concatenate([seen.features.astype(jnp.float32), last, who, time], axis=-1)
        x = jax.nn.gelu(self.inputs(x))
        config = self.config
        decays = head_decays(
            config.num_heads, config.decay_scale, config.shortest_memory, config.longest_memory
        )
        context = Context(decays, seen.reset, seen.agent_mask, ends_here=True)
        for block in self.blocks:
            x, _ = block(x, context, None)
        return x

    def q(
        self,
        encoded: Float[Array, "*B N D"],
        actions: Actions,
        agent_mask: Bool[Array, "*B N"],
    ) -> tuple[Float[Array, "*B M"], Float[Array, "*B M"]]:
        """Rewards and following values of joint actions: of the team, then of each agent
        (M = 1 + N)."""
        told = self.action_rows(self.tokens.inputs(self.tokens.encode(actions), jnp.float32))
        x = self.action_norm(jax.nn.gelu(encoded + told) + encoded)
        others = self.attention(x, agent_mask)
        # What one's own action means together with others' is a product of both: a sum would have
        # to find it by chance first, and games of coordination are nothing else.
        both = jnp.concatenate([x, others, self.gate(x) * others], axis=-1)
        outputs = self.head(self.norm(x + self.join(both)))
        count = jnp.maximum(agent_mask.sum(axis=-1), 1)
        team = jnp.where(agent_mask[..., None], outputs[..., :2], 0).sum(axis=-2) / count[..., None]
        rewards, following = (
            jnp.concatenate([team[..., part, None], outputs[..., 2 + part]], axis=-1)
            for part in (0, 1)
        )
        return rewards, following

    def _last_actions(self, window: Window) -> Any:
        """Each agent's own of the step before; none where it was not there."""
        seen, tokens = window.observation, self.tokens
        before = jnp.roll(window.actions, 1, axis=1)
        was_there = jnp.roll(seen.agent_mask, 1, axis=1) & ~seen.reset[..., None]
        was_there = was_there.at[:, 0].set(False)
        codes = tokens.encode(before)
        return tokens.where(was_there, codes, tokens.nothing(was_there.shape))

    def _time(self, step_count: Array) -> Float[Array, "B T W"]:
        share = step_count.astype(jnp.float32)[..., None] / self.horizon
        angles = jnp.pi * share * 2.0 ** jnp.arange(WAVES)
        return jnp.concatenate([share, jnp.sin(angles), jnp.cos(angles)], axis=-1)
