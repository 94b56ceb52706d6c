"""A transformer over the agents of one step, without memory (Multi-Agent Transformer, Wen et al.,
2022): the encoder sees all agents, the decoder the choices of the agents before."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import orthogonal
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.networks.layers import Dense, require_sane_size
from oryx_marl.networks.sable import Acted, Choose
from oryx_marl.networks.tokens import ActionTokens, Codes, action_tokens, previous_codes
from oryx_marl.ops.distributions import Actions
from oryx_marl.types import Observation, Spec

GAIN = 1.0
"""Of the last layers of attention and feed-forward at the start. Public versions have 0.01; but the
choices of other agents reach the output through these alone, and are learned several times later
then."""


@dataclass(frozen=True)
class TransformerConfig:
    """Size of the transformer."""

    width: int = 128
    """Features per token."""
    num_heads: int = 1
    """Attention heads."""
    num_blocks: int = 3
    """Blocks of the encoder and of the decoder."""

    def __post_init__(self) -> None:
        require_sane_size(self.width, self.num_heads, self.num_blocks)


class LayerNorm(eqx.Module):
    """Zero mean and unit variance over features, scaled and shifted."""

    scale: Float[Array, " D"]
    shift: Float[Array, " D"]

    def __init__(self, width: int) -> None:
        self.scale, self.shift = jnp.ones(width), jnp.zeros(width)

    def __call__(self, x: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-6) * self.scale + self.shift


class Attention(eqx.Module):
    """softmax(q kᵀ / √K) v over the tokens that may be seen."""

    query: Dense
    key: Dense
    value: Dense
    out: Dense
    num_heads: int = eqx.field(static=True)

    def __init__(self, key: Array, width: int, num_heads: int) -> None:
        self.query, self.key, self.value, self.out = (
            Dense(k, width, width, orthogonal(GAIN), use_bias=True)
            for k in jax.random.split(key, 4)
        )
        self.num_heads = num_heads

    def __call__(
        self,
        queries: Float[Array, "*B N D"],
        tokens: Float[Array, "*B N D"],
        seen: Bool[Array, "*B N N"],
    ) -> Float[Array, "*B N D"]:
        q, k, v = (
            x.reshape(*x.shape[:-1], self.num_heads, -1)
            for x in (self.query(queries), self.key(tokens), self.value(tokens))
        )
        scores = jnp.einsum("...nhk,...mhk->...hnm", q, k) / jnp.sqrt(q.shape[-1])
        shares = jax.nn.softmax(jnp.where(seen[..., None, :, :], scores, -jnp.inf), axis=-1)
        return self.out(jnp.einsum("...hnm,...mhk->...nhk", shares, v).reshape(queries.shape))


class FeedForward(eqx.Module):
    """Dense, GELU, Dense."""

    hidden: Dense
    out: Dense

    def __init__(self, key: Array, width: int, hidden: int | None = None) -> None:
        keys, hidden = jax.random.split(key), hidden or width
        self.hidden = Dense(keys[0], width, hidden, orthogonal(2**0.5), use_bias=True)
        self.out = Dense(keys[1], hidden, width, orthogonal(GAIN), use_bias=True)

    def __call__(self, x: Float[Array, "*B N D"]) -> Float[Array, "*B N D"]:
        return self.out(jax.nn.gelu(self.hidden(x)))


class EncoderBlock(eqx.Module):
    """Attention over all agents, then a feed-forward."""

    attention: Attention
    feed_forward: FeedForward
    norms: tuple[LayerNorm, LayerNorm]

    def __init__(self, key: Array, config: TransformerConfig) -> None:
        keys = jax.random.split(key)
        self.attention = Attention(keys[0], config.width, config.num_heads)
        self.feed_forward = FeedForward(keys[1], config.width)
        self.norms = LayerNorm(config.width), LayerNorm(config.width)

    def __call__(
        self, x: Float[Array, "*B N D"], seen: Bool[Array, "*B N N"]
    ) -> Float[Array, "*B N D"]:
        x = self.norms[0](x + self.attention(x, x, seen))
        return self.norms[1](x + self.feed_forward(x))


class DecoderBlock(eqx.Module):
    """Attention over earlier choices, then of the observations over those, then a feed-forward."""

    self_attention: Attention
    cross_attention: Attention
    feed_forward: FeedForward
    norms: tuple[LayerNorm, LayerNorm, LayerNorm]

    def __init__(self, key: Array, config: TransformerConfig) -> None:
        keys = jax.random.split(key, 3)
        self.self_attention, self.cross_attention = (
            Attention(k, config.width, config.num_heads) for k in keys[:2]
        )
        self.feed_forward = FeedForward(keys[2], config.width)
        self.norms = LayerNorm(config.width), LayerNorm(config.width), LayerNorm(config.width)

    def __call__(
        self,
        x: Float[Array, "*B N D"],
        encoded: Float[Array, "*B N D"],
        seen: Bool[Array, "*B N N"],
    ) -> Float[Array, "*B N D"]:
        x = self.norms[0](x + self.self_attention(x, x, seen))
        x = self.norms[1](encoded + self.cross_attention(encoded, x, seen))
        return self.norms[2](x + self.feed_forward(x))


class Transformer(eqx.Module):
    """Encoder and decoder over agents; every step stands alone."""

    observation_norm: LayerNorm
    observation_encoder: Dense
    encoded_norm: LayerNorm
    encoder_blocks: tuple[EncoderBlock, ...]
    action_rows: Dense
    action_norm: LayerNorm
    decoder_blocks: tuple[DecoderBlock, ...]
    tokens: ActionTokens = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)

    def __init__(self, key: Array, spec: Spec, config: TransformerConfig) -> None:
        keys = jax.random.split(key, 4)
        width = config.width
        inputs = spec.num_agents + spec.observation_size
        self.num_agents = spec.num_agents
        self.tokens = action_tokens(spec.action)
        self.observation_norm = LayerNorm(inputs)
        self.observation_encoder = Dense(keys[0], inputs, width, orthogonal(2**0.5), use_bias=True)
        self.action_rows = Dense(keys[1], self.tokens.num_inputs, width, orthogonal(2**0.5))
        self.encoded_norm, self.action_norm = LayerNorm(width), LayerNorm(width)
        self.encoder_blocks = tuple(
            EncoderBlock(k, config) for k in jax.random.split(keys[2], config.num_blocks)
        )
        self.decoder_blocks = tuple(
            DecoderBlock(k, config) for k in jax.random.split(keys[3], config.num_blocks)
        )

    def init_state(self) -> tuple[()]:
        """Nothing is remembered."""
        return ()

    def __call__(
        self, observation: Observation, actions: Actions, ids: Int[Array, " N"]
    ) -> tuple[Float[Array, "*B T N D"], Float[Array, "*B T N D"]]:
        """Encoder's and decoder's features; agents stand in the order of `ids`."""
        agent_mask = observation.agent_mask
        encoded = self._encode(observation.features, ids, agent_mask)
        codes = previous_codes(self.tokens, actions, agent_mask)
        return encoded, self._decode(codes, encoded, agent_mask)

    def resume(
        self,
        observation: Observation,
        actions: Actions,
        ids: Int[Array, " N"],
        recurrent_state: tuple[()],
    ) -> tuple[Float[Array, "*B T N D"], Float[Array, "*B T N D"], tuple[()]]:
        """The same; nothing is remembered."""
        return *self(observation, actions, ids), recurrent_state

    def remember_last(
        self, recurrent_state: tuple[()], actions: Actions, agent_mask: Bool[Array, "*B N"]
    ) -> tuple[()]:
        """Nothing is remembered."""
        return recurrent_state

    def act(
        self,
        recurrent_state: tuple[()],
        observation: Observation,
        choose: Choose,
        noise: Float[Array, "N A"],
    ) -> Acted:
        """One step of all agents, one after the other; see Sable.act."""
        agent_mask = observation.agent_mask
        agents = jnp.arange(self.num_agents)
        encoded = self._encode(observation.features, agents, agent_mask)

        def one_agent(actions: Actions, inputs: tuple[Array, Array, Array]) -> tuple[Array, Any]:
            agent, action_mask, noise = inputs
            codes = previous_codes(self.tokens, actions, agent_mask)
            features = self._decode(codes, encoded, agent_mask)
            action, info = choose(features[agent], action_mask, noise)
            return actions.at[agent].set(action), info

        # What is chosen has the shape and type of one action, whatever kind it is.
        like = jax.eval_shape(choose, encoded[0], observation.action_mask[0], noise[0])[0]
        start = jnp.zeros((self.num_agents, *like.shape), like.dtype)
        actions, info = jax.lax.scan(one_agent, start, (agents, observation.action_mask, noise))
        return Acted(recurrent_state, actions, info, encoded)

    def _encode(
        self, features: Array, ids: Int[Array, " N"], agent_mask: Bool[Array, "*B N"]
    ) -> Float[Array, "*B N D"]:
        one_hot = jax.nn.one_hot(ids, self.num_agents)
        one_hot = jnp.broadcast_to(one_hot, (*agent_mask.shape, self.num_agents))
        inputs = jnp.concatenate([one_hot, features.astype(one_hot.dtype)], axis=-1)
        x = jax.nn.gelu(self.observation_encoder(self.observation_norm(inputs)))
        x = self.encoded_norm(x)
        seen = agent_mask[..., None, :] | jnp.eye(len(ids), dtype=bool)
        for block in self.encoder_blocks:
            x = block(x, seen)
        return x

    def _decode(
        self,
        codes: Codes,
        encoded: Float[Array, "*B N D"],
        agent_mask: Bool[Array, "*B N"],
    ) -> Float[Array, "*B N D"]:
        x = self.action_rows(self.tokens.inputs(codes, encoded.dtype))
        x = self.action_norm(jax.nn.gelu(x))
        count = agent_mask.shape[-1]
        seen = jnp.tril(jnp.ones((count, count), bool)) & (
            agent_mask[..., None, :] | jnp.eye(count, dtype=bool)
        )
        for block in self.decoder_blocks:
            x = block(x, encoded, seen)
        return x
