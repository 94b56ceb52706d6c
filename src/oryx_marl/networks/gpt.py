"""A decision transformer over the steps of one agent; all agents share its weights."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import lecun_normal, orthogonal
from jaxtyping import Array, Bool, Float, Int, Num

from oryx_marl.networks.heads import family
from oryx_marl.networks.layers import Dense, require_sane_size
from oryx_marl.networks.tokens import ActionTokens, action_tokens
from oryx_marl.networks.transformer import Attention, FeedForward, LayerNorm
from oryx_marl.ops.distributions import Actions
from oryx_marl.types import Spec

LONGEST = 400
"""Steps that are told apart where an episode has no bound; later ones count as this one."""


@dataclass(frozen=True)
class GPTConfig:
    """Size and tokens of the decision transformer."""

    width: int = 32
    """Features per token."""
    num_heads: int = 2
    """Attention heads."""
    num_blocks: int = 2
    """Blocks."""
    tokens: Literal["observation", "return_observation_action"] = "return_observation_action"
    """What is seen of a step: the observation alone (the public default), or the return still to
    come, the observation, and the agent's action before."""
    centralised: bool = True
    """Each agent sees the observations of all (public default: its own)."""

    def __post_init__(self) -> None:
        require_sane_size(self.width, self.num_heads, self.num_blocks)


class Trajectory(NamedTuple):
    """What happened over T steps of one or more episodes; one step without the leading axis."""

    features: Num[Array, "T N O"]
    agent_mask: Bool[Array, "T N"]
    reset: Bool[Array, " T"]
    step_count: Int[Array, " T"]
    returns_to_go: Float[Array, "T N"]
    """Rewards still to come, this step's included: logged, or asked for when acting."""
    actions: Actions
    """[T, N] ids or [T, N, A] vectors. A step's own action is not seen before the next step."""


class Block(eqx.Module):
    """Attention over earlier tokens, then a feed-forward, each on normalised inputs."""

    attention: Attention
    feed_forward: FeedForward
    norms: tuple[LayerNorm, LayerNorm]

    def __init__(self, key: Array, config: GPTConfig) -> None:
        keys = jax.random.split(key)
        self.attention = Attention(keys[0], config.width, config.num_heads)
        self.feed_forward = FeedForward(keys[1], config.width, hidden=2 * config.width)
        self.norms = LayerNorm(config.width), LayerNorm(config.width)

    def __call__(
        self, x: Float[Array, "*B M D"], seen: Bool[Array, "*B M M"]
    ) -> Float[Array, "*B M D"]:
        y = self.norms[0](x)
        x = x + self.attention(y, y, seen)
        return x + self.feed_forward(self.norms[1](x))


class GPT(eqx.Module):
    """Logits of every step from it and the steps before it in the same episode."""

    encoders: tuple[Dense, ...]
    """Of each token of a step."""
    positions: Float[Array, "K D"]
    """Added by the place since the episode or the trajectory began."""
    times: Float[Array, "L D"]
    """Added by the number of the step in its episode."""
    blocks: tuple[Block, ...]
    norm: LayerNorm
    out: Dense
    config: GPTConfig = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    tokens: ActionTokens = eqx.field(static=True)

    def __init__(self, key: Array, spec: Spec, config: GPTConfig, context: int) -> None:
        encoder_key, block_key, out_key = jax.random.split(key, 3)
        self.config, self.num_agents = config, spec.num_agents
        self.tokens = action_tokens(spec.action)
        width, seen = config.width, spec.num_agents if config.centralised else 1
        sizes = [spec.num_agents + seen * spec.observation_size]
        if config.tokens == "return_observation_action":
            sizes = [1, *sizes, self.tokens.num_inputs]
        self.encoders = tuple(
            Dense(k, size, width, lecun_normal(), use_bias=True)
            for k, size in zip(jax.random.split(encoder_key, len(sizes)), sizes, strict=True)
        )
        self.positions = jnp.zeros((context, width))
        self.times = jnp.zeros(((spec.episode_limit or LONGEST) + 1, width))
        self.blocks = tuple(
            Block(k, config) for k in jax.random.split(block_key, config.num_blocks)
        )
        self.norm = LayerNorm(width)
        self.out = Dense(out_key, width, family(spec.action).num_outputs, orthogonal(0.01))

    @property
    def context(self) -> int:
        """The most steps that are seen at once."""
        return len(self.positions)

    def __call__(self, trajectory: Trajectory) -> Float[Array, "T N A"]:
        steps = jnp.arange(len(trajectory.reset))
        began = jax.lax.cummax(jnp.where(trajectory.reset, steps, 0))
        places = self.positions[steps - began]
        times = self.times[jnp.minimum(trajectory.step_count, len(self.times) - 1)]
        tokens = self._tokens(trajectory) + (places + times)[:, None, None]  # [T, N, m, D]
        per_step = tokens.shape[2]
        order, episode = jnp.arange(len(steps) * per_step), jnp.repeat(began, per_step)
        earlier = (order[:, None] >= order) & (episode[:, None] == episode)

        agent_mask = jnp.repeat(trajectory.agent_mask.T, per_step, axis=1)  # [N, T m]
        seen = earlier & (agent_mask[:, None] | (order[:, None] == order))
        x = tokens.swapaxes(0, 1).reshape(len(agent_mask), len(order), -1)
        for block in self.blocks:
            x = block(x, seen)
        return self.out(self.norm(x[:, per_step - 1 :: per_step])).swapaxes(0, 1)

    def _tokens(self, trajectory: Trajectory) -> Float[Array, "T N m D"]:
        features = trajectory.features.astype(jnp.float32)
        count, agents, _ = features.shape
        if self.config.centralised:
            together = features.reshape(count, 1, -1)
            features = jnp.broadcast_to(together, (count, agents, together.shape[-1]))
        ids = jnp.broadcast_to(jnp.eye(agents), (count, agents, agents))
        inputs = [jnp.concatenate([ids, features], axis=-1)]
        if self.config.tokens == "return_observation_action":
            told = self.tokens
            before = told.encode(jnp.roll(trajectory.actions, 1, axis=0))
            is_first = (trajectory.reset | (jnp.arange(count) == 0))[:, None]
            is_first = jnp.broadcast_to(is_first, (count, agents))
            before = told.where(is_first, told.nothing((count, agents)), before)
            chosen = told.inputs(before, features.dtype)
            inputs = [trajectory.returns_to_go[..., None], *inputs, chosen]
        pairs = zip(self.encoders, inputs, strict=True)
        return jnp.stack([jnp.tanh(encoder(x)) for encoder, x in pairs], axis=2)
