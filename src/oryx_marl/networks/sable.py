"""Sable: a retention encoder over observations and a retention decoder over actions.

One set of weights, two ways to run it: `__call__` on a whole logged sequence (training), and `act`
on one step at a time with constant memory. Both give the same numbers on the same history.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import orthogonal
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.config import added
from oryx_marl.errors import OryxError
from oryx_marl.networks.layers import Dense, RMSNorm, SwiGLU, require_sane_size
from oryx_marl.networks.observations import AgentId, ObservationEncoder
from oryx_marl.networks.retention import Context, MultiHeadRetention, States
from oryx_marl.networks.tokens import ActionTokens, Codes, action_tokens, latest_codes
from oryx_marl.ops.distributions import Actions
from oryx_marl.ops.retention import head_decays
from oryx_marl.types import Observation, Spec


@dataclass(frozen=True)
class NetworkConfig:
    """Size and wiring of the encoder and the decoder."""

    width: int = 0
    """Features per token (0: 64 to 256, by the number of features and of logged steps)."""
    num_heads: int = 4
    """Retention heads; each remembers over a different span."""
    num_blocks: int = 1
    """Blocks of the encoder and of the decoder; at least 2 where a width of 256 is chosen."""
    shortest_memory: float = added(8, before=32)
    """Steps over which the first head forgets: 7/8 of its memory survives a step (paper: 32)."""
    longest_memory: float = 512
    """The same of the last head; those between are spaced evenly by their logarithm."""
    decay_scale: float = 1.0
    """Factor of what survives a step, for all heads (0.5 in the paper's T-Maze)."""
    agent_id: AgentId = "onehot"
    """How the network tells agents apart; ids are never part of the data."""
    gate_stream: Literal["query", "key"] = "key"
    """Which input gates the decoder's cross-retention: observations, or actions."""
    feed_forward: bool = True
    """Feed-forward part of each block (never active in the published code)."""
    autoregressive: bool = True
    """Agents see what the agents before them chose; off (the paper's ablation): nothing chosen."""
    remember_last_action: bool = True
    """The first agent's token shows the last agent's action of the step before (paper: no)."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of features in training. Weights, norms, states, losses and acting are always float32."""

    def __post_init__(self) -> None:
        require_sane_size(self.width or self.num_heads, self.num_heads, self.num_blocks)
        if not 0 < self.decay_scale <= 1:
            raise OryxError(f"decay_scale must be in (0, 1], got {self.decay_scale}")
        if not 1 < self.shortest_memory <= self.longest_memory:
            raise OryxError(
                "shortest_memory must be above 1 step and at most longest_memory, got "
                f"{self.shortest_memory} and {self.longest_memory}"
            )


class RecurrentState(NamedTuple):
    """All that is carried from step to step: one state per block and head, [L, H, K, K]."""

    encoder: Float[Array, "L H K K"]
    decoder_self: Float[Array, "L H K K"]
    decoder_cross: Float[Array, "L H K K"]
    last_action: Codes
    """Of the last present agent in the step before."""


class Acted(NamedTuple):
    """What one step of acting gives."""

    recurrent_state: Any
    actions: Actions
    """[N] ids or [N, A] vectors."""
    info: Any
    """What `choose` said of each agent, stacked."""
    encoded: Float[Array, "N D"]
    """The encoder's features of each agent."""


class EncoderBlock(eqx.Module):
    """Retention over all agents of a step, then a feed-forward, each with residual and norm."""

    pre_norm: RMSNorm
    retention: MultiHeadRetention
    norm: RMSNorm
    feed_forward: SwiGLU | None
    out_norm: RMSNorm

    def __init__(self, key: Array, config: NetworkConfig) -> None:
        keys = jax.random.split(key)
        self.pre_norm, self.norm, self.out_norm = (RMSNorm(config.width) for _ in range(3))
        self.retention = MultiHeadRetention(keys[0], config.width, config.num_heads, causal=False)
        self.feed_forward = SwiGLU(keys[1], config.width) if config.feed_forward else None

    def __call__(
        self, x: Float[Array, "*B T N D"], context: Context, state: States
    ) -> tuple[Float[Array, "*B T N D"], States]:
        x = self.pre_norm(x)
        mixed, state = self.retention(x, x, context, state)
        y = self.norm(x + mixed)
        return self.out_norm(y if self.feed_forward is None else y + self.feed_forward(y)), state


class DecoderBlock(eqx.Module):
    """Retention over earlier agents' actions, then of the observations over those."""

    pre_norm: RMSNorm
    self_retention: MultiHeadRetention
    self_norm: RMSNorm
    cross_retention: MultiHeadRetention
    cross_norm: RMSNorm
    feed_forward: SwiGLU | None
    out_norm: RMSNorm

    def __init__(self, key: Array, config: NetworkConfig) -> None:
        keys = jax.random.split(key, 3)
        self.pre_norm, self.self_norm, self.cross_norm, self.out_norm = (
            RMSNorm(config.width) for _ in range(4)
        )
        self.self_retention, self.cross_retention = (
            MultiHeadRetention(k, config.width, config.num_heads, causal=True, gate_stream=stream)
            for k, stream in zip(keys[:2], (None, config.gate_stream), strict=True)
        )
        self.feed_forward = SwiGLU(keys[2], config.width) if config.feed_forward else None

    def __call__(
        self,
        x: Float[Array, "*B T N D"],
        encoded: Float[Array, "*B T N D"],
        context: Context,
        self_state: States,
        cross_state: States,
    ) -> tuple[Float[Array, "*B T N D"], States, States]:
        x = self.pre_norm(x)
        mixed, self_state = self.self_retention(x, x, context, self_state)
        u = self.self_norm(x + mixed)
        mixed, cross_state = self.cross_retention(encoded, u, context, cross_state)
        y = self.cross_norm(encoded + mixed)
        y = self.out_norm(y if self.feed_forward is None else y + self.feed_forward(y))
        return y, self_state, cross_state


BlockStates = Float[Array, "*B L H K K"] | None


def _of_block(states: BlockStates, index: int) -> States:
    return None if states is None else states[..., index, :, :, :]


def _stack(states: list[States]) -> BlockStates:
    kept = [state for state in states if state is not None]
    return jnp.stack(kept, axis=-4) if kept else None


Choose = Callable[[Array, Array, Array], tuple[Array, Any]]
"""`(features [D], action_mask [A], noise [A]) -> (action, info)` of one agent."""


class Sable(eqx.Module):
    """Encoder and decoder; heads on the features they give are the algorithms' business."""

    observation_encoder: ObservationEncoder
    encoder_blocks: tuple[EncoderBlock, ...]
    action_rows: Dense
    decoder_blocks: tuple[DecoderBlock, ...]
    tokens: ActionTokens = eqx.field(static=True)
    config: NetworkConfig = eqx.field(static=True)

    def __init__(self, key: Array, spec: Spec, config: NetworkConfig) -> None:
        keys = jax.random.split(key, 4)
        self.config = config
        self.tokens = action_tokens(spec.action, config.remember_last_action)
        self.observation_encoder = ObservationEncoder(keys[0], spec, config.width, config.agent_id)
        self.action_rows = Dense(keys[1], self.tokens.num_inputs, config.width, orthogonal(2**0.5))
        self.encoder_blocks = tuple(
            EncoderBlock(k, config) for k in jax.random.split(keys[2], config.num_blocks)
        )
        self.decoder_blocks = tuple(
            DecoderBlock(k, config) for k in jax.random.split(keys[3], config.num_blocks)
        )

    def init_state(self) -> RecurrentState:
        """Memory at the start of an episode: nothing remembered."""
        head_width = self.config.width // self.config.num_heads
        shape = (self.config.num_blocks, self.config.num_heads, head_width, head_width)
        zeros = jnp.zeros(shape)
        return RecurrentState(zeros, zeros, zeros, self.tokens.nothing(()))

    def __call__(
        self,
        observation: Observation,
        actions: Actions,
        ids: Int[Array, " N"],
        recurrent_state: RecurrentState | None = None,
    ) -> tuple[Float[Array, "*B T N D"], Float[Array, "*B T N D"]]:
        """Encoder's and decoder's features [*B, T, N, D] for logged sequences of all agents.

        The agents stand in the order in which they choose; `ids` says who they are.
        """
        encoded, decoded, _ = self._run(observation, actions, ids, recurrent_state, ends_here=True)
        return encoded, decoded

    def resume(
        self,
        observation: Observation,
        actions: Actions,
        ids: Int[Array, " N"],
        recurrent_state: RecurrentState,
    ) -> tuple[Float[Array, "*B T N D"], Float[Array, "*B T N D"], RecurrentState]:
        """The same, and the recurrent state after the last step."""
        return self._run(observation, actions, ids, recurrent_state, ends_here=False)

    def remember_last(
        self,
        recurrent_state: RecurrentState,
        actions: Actions,
        agent_mask: Bool[Array, "*B N"],
    ) -> RecurrentState:
        """The state with the last present agent's action of the step before, whose agents now stand
        in another order."""
        last = latest_codes(self.tokens, actions, agent_mask)
        axis = agent_mask.ndim - 1
        last = jax.lax.index_in_dim(last, -1, axis, keepdims=False)
        kept = self.tokens.where(self.tokens.exists(last), last, recurrent_state.last_action)
        return recurrent_state._replace(last_action=kept)

    def _run(
        self,
        observation: Observation,
        actions: Actions,
        ids: Int[Array, " N"],
        recurrent_state: RecurrentState | None,
        ends_here: bool,
    ) -> tuple[Float[Array, "*B T N D"], Float[Array, "*B T N D"], Any]:
        reset, agent_mask = observation.reset, observation.agent_mask
        batch = reset.shape[:-1]
        remembered: tuple[BlockStates, BlockStates, BlockStates] = (None, None, None)
        last_action = self.tokens.nothing(batch)
        if recurrent_state is not None:
            remembered, last_action = recurrent_state[:3], recurrent_state.last_action
        context = Context(self._decays(), reset, agent_mask, ends_here)
        dtype = jnp.bfloat16 if self.config.precision == "bfloat16" else None
        encoded, encoder = self._encode(observation.features, ids, context, remembered[0], dtype)
        find_codes = self._codes
        for _ in batch:
            find_codes = jax.vmap(find_codes)
        codes, last_action = find_codes(actions, agent_mask, reset, last_action)
        decoded, own, cross = self._decode(codes, encoded, context, *remembered[1:])
        after = None if ends_here else RecurrentState(encoder, own, cross, last_action)  # type: ignore[arg-type]
        return encoded, decoded, after

    def act(
        self,
        recurrent_state: RecurrentState,
        observation: Observation,
        choose: Choose,
        noise: Float[Array, "N A"],
    ) -> Acted:
        """One step of all agents, one after the other; `choose` decides for one agent."""
        ids = jnp.arange(len(observation.agent_mask))
        fresh = observation.reset
        context = Context(self._decays(), fresh[None], observation.agent_mask[None])
        encoded, encoder_state = self._encode(
            observation.features[None], ids, context, recurrent_state.encoder
        )
        # The decoder meets the agents one at a time, so its states decay once, before the first.
        kept = jnp.where(fresh, 0, self._decays())[:, None, None]
        last_action = self.tokens.where(fresh, self.tokens.nothing(()), recurrent_state.last_action)
        start = self._start(last_action)
        recurrent_state = RecurrentState(
            encoder_state,  # type: ignore[arg-type]
            recurrent_state.decoder_self * kept,
            recurrent_state.decoder_cross * kept,
            last_action,
        )
        undecayed = jnp.ones(self.config.num_heads)

        def one_agent(
            carry: tuple[RecurrentState, Array], inputs: tuple[Array, ...]
        ) -> tuple[tuple[RecurrentState, Array], tuple[Array, Any]]:
            recurrent_state, code = carry
            encoded, action_mask, agent_mask, noise = inputs
            here = Context(undecayed, jnp.zeros(1, bool), agent_mask[None, None])
            features, self_state, cross_state = self._decode(
                code[None, None],
                encoded[None, None],
                here,
                recurrent_state.decoder_self,
                recurrent_state.decoder_cross,
            )
            action, info = choose(features[0, 0], action_mask, noise)
            chosen = self.tokens.encode(action)
            last_action = self.tokens.where(agent_mask, chosen, recurrent_state.last_action)
            recurrent_state = recurrent_state._replace(
                decoder_self=self_state,  # type: ignore[arg-type]
                decoder_cross=cross_state,  # type: ignore[arg-type]
                last_action=last_action,
            )
            if self.config.autoregressive:
                code = self.tokens.where(agent_mask, chosen, code)
            return (recurrent_state, code), (action, info)

        (recurrent_state, _), (actions, info) = jax.lax.scan(
            one_agent,
            (recurrent_state, start),
            (encoded[0], observation.action_mask, observation.agent_mask, noise),
        )
        return Acted(recurrent_state, actions, info, encoded[0])

    @property
    def _dtype(self) -> DTypeLike:
        return self.action_rows.weight.dtype

    def _decays(self) -> Float[Array, " H"]:
        config = self.config
        return head_decays(
            config.num_heads, config.decay_scale, config.shortest_memory, config.longest_memory
        )

    def _encode(
        self,
        features: Array,
        ids: Array,
        context: Context,
        state: BlockStates,
        dtype: DTypeLike | None = None,
    ) -> tuple[Float[Array, "*B T N D"], BlockStates]:
        x = self.observation_encoder(features, ids).astype(dtype or self._dtype)
        states = []
        for index, block in enumerate(self.encoder_blocks):
            x, new_state = block(x, context, _of_block(state, index))
            states.append(new_state)
        return x, _stack(states)

    def _decode(
        self,
        codes: Codes,
        encoded: Float[Array, "*B T N D"],
        context: Context,
        self_state: BlockStates,
        cross_state: BlockStates,
    ) -> tuple[Float[Array, "*B T N D"], BlockStates, BlockStates]:
        x = jax.nn.gelu(self.action_rows(self.tokens.inputs(codes, encoded.dtype)))
        self_states, cross_states = [], []
        for index, block in enumerate(self.decoder_blocks):
            x, *states = block(
                x, encoded, context, _of_block(self_state, index), _of_block(cross_state, index)
            )
            self_states.append(states[0])
            cross_states.append(states[1])
        return x, _stack(self_states), _stack(cross_states)

    def _codes(
        self,
        actions: Actions,
        agent_mask: Bool[Array, "T N"],
        reset: Bool[Array, " T"],
        last_action: Codes,
    ) -> tuple[Codes, Codes]:
        """What each agent of a sequence is told: the action of the last present agent before it;
        and the last action of all, to be remembered after the sequence."""
        tokens, nothing = self.tokens, self.tokens.nothing
        chosen = latest_codes(tokens, actions, agent_mask)
        steps = jnp.arange(len(reset))
        acted = jax.lax.cummax(jnp.where(tokens.exists(chosen[:, -1]), steps, -1))
        began = jax.lax.cummax(jnp.where(reset, steps, -1))
        before = jnp.concatenate([jnp.full(1, -1), acted[:-1]])
        carried = tokens.where((before < 0) & (began < 0), last_action, nothing(reset.shape))
        known = (before >= 0) & (before >= began)
        start = self._start(tokens.where(known, chosen[before, -1], carried))[:, None]
        told = jnp.concatenate([nothing((len(reset), 1)), chosen[:, :-1]], axis=1)
        if not self.config.autoregressive:
            told = nothing(agent_mask.shape)
        codes = tokens.where(tokens.exists(told), told, start)
        ended_known = (acted[-1] >= 0) & (acted[-1] >= began[-1])
        kept = tokens.where((acted[-1] < 0) & (began[-1] < 0), last_action, nothing(()))
        return codes, tokens.where(ended_known, chosen[acted[-1], -1], kept)

    def _start(self, last_action: Codes) -> Codes:
        """What whoever has nobody before it in this step is told."""
        if not (self.config.autoregressive and self.config.remember_last_action):
            return self.tokens.nothing(self.tokens.exists(last_action).shape)
        return self.tokens.as_last(last_action)
