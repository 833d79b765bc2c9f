"""How agents act that know what actions are worth: the best one, and now and then one at random; alone or side by side.

Quantiles are taken in the middles of equal parts, not drawn: their mean is nearer to the expected worth than that of as
many drawn ones, it depends on nothing but the weights, and how a middle is embedded is computed once for all decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from torch import nn

from keisei.environment import Array, Float32, Int64
from keisei.networks.quantile import ActionValueNetwork, Architecture
from keisei.networks.stacked import Stack
from keisei.policy import Decision, Encoder, LegalChoices, Policy

Actions = Literal["stacked", "looped"]
"""Whether agents act in one stacked call for all networks of one architecture, or one by one."""


class ValuePolicy:
    """A network that says what actions are worth, and how its input is made. Its buffer says how often it explores."""

    def __init__(self, network: ActionValueNetwork, encode: Encoder) -> None:
        self.network = network
        self.encode = encode

    @cached_property
    def _stack(self) -> Stack:
        return Stack([self.network])  # not before it is needed: it holds a copy of the weights

    def act(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Decision:
        """One legal action per lane; `uniform [B]` in [0, 1) decides whether it is a random one, and which."""
        worth = self.worth(seen)
        exploration = np.full(len(seen), self._stack.exploration[0], np.float32)
        return explore(worth, legal, exploration, uniform)

    def act_greedily(self, seen: Array, legal: LegalChoices) -> Decision:
        """The legal action of each lane that is worth most; among equals, the first."""
        return _best(self.worth(seen), legal)

    def values(self, seen: Array) -> Float32:
        """What the best action is worth `[B]`, whether it is legal or not."""
        best: Float32 = self.worth(seen).max(1)
        return best

    def worth(self, seen: Array) -> Float32:
        """What each action is worth, `[B, A]`; valid until the next call."""
        worth: Float32 = self._stack.expected(self.encode(seen)[None])[0].cpu().numpy()
        return worth


class Society:
    """The policies of several agents, whose lanes lie side by side. Lanes that do not act are computed and not used."""

    def __init__(self, policies: Sequence[ValuePolicy | Policy], lanes: Sequence[Int64], actions: Actions) -> None:
        """`lanes` are those of each agent; every lane belongs to one."""
        self.network = nn.ModuleList(policy.network for policy in policies)
        self._parts = _parts(policies, lanes, actions)
        self._lanes = sum(len(own) for own in lanes)
        self._whole = self._parts[0] if np.array_equal(self._parts[0].lanes, np.arange(self._lanes)) else None

    def act(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Decision:
        """One legal action per lane, each as its own agent chooses it."""
        if self._whole is not None:
            return self._whole.act(seen, legal, uniform)
        found = self._blank()
        for part in self._parts:
            _write(found, part.lanes, part.act(seen[part.lanes], legal.of(part.lanes), uniform[part.lanes]))
        return found

    def act_greedily(self, seen: Array, legal: LegalChoices) -> Decision:
        """The best legal action of each lane, as its own agent sees it."""
        found = self._blank()
        for part in self._parts:
            _write(found, part.lanes, part.act_greedily(seen[part.lanes], legal.of(part.lanes)))
        return found

    def values(self, seen: Array) -> Float32:
        """The values `[B]` of what the lanes see, each as its own agent sees it."""
        found = np.zeros(self._lanes, np.float32)
        for part in self._parts:
            found[part.lanes] = part.values(seen[part.lanes])
        return found

    def _blank(self) -> Decision:
        lanes = self._lanes
        return Decision(
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.float32),
            np.zeros(lanes, np.float32),
        )


def _write(found: Decision, lanes: Int64, some: Decision) -> None:
    found.choice[lanes], found.action[lanes] = some.choice, some.action
    found.log_probability[lanes], found.value[lanes] = some.log_probability, some.value


class _Alone:
    """An agent that acts by itself."""

    def __init__(self, policy: ValuePolicy | Policy, lanes: Int64) -> None:
        self.lanes = lanes
        self.act, self.act_greedily, self.values = policy.act, policy.act_greedily, policy.values


class _Together:
    """Agents of one architecture, with the same number of lanes each."""

    def __init__(self, policies: Sequence[ValuePolicy], lanes: Sequence[Int64]) -> None:
        self.lanes = np.concatenate(lanes)
        self._agents, self._each = len(policies), len(lanes[0])
        self._encode = policies[0].encode
        self._stack = Stack([policy.network for policy in policies])

    def act(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Decision:
        worth = self._worth(seen)
        return explore(worth, legal, self._stack.exploration.repeat(self._each), uniform)

    def act_greedily(self, seen: Array, legal: LegalChoices) -> Decision:
        return _best(self._worth(seen), legal)

    def values(self, seen: Array) -> Float32:
        best: Float32 = self._worth(seen).max(1)
        return best

    def _worth(self, seen: Array) -> Float32:
        encoded = self._encode(seen)
        worth: Float32 = self._stack.expected(encoded.view(self._agents, self._each, *encoded.shape[1:])).cpu().numpy()
        return worth.reshape(len(seen), -1)


def _parts(
    policies: Sequence[ValuePolicy | Policy], lanes: Sequence[Int64], actions: Actions
) -> list[_Alone | _Together]:
    parts: list[_Alone | _Together] = []
    alike: dict[tuple[Architecture, int], list[int]] = {}
    for agent, policy in enumerate(policies):
        if actions == "stacked" and isinstance(policy, ValuePolicy):
            alike.setdefault((policy.network.architecture, len(lanes[agent])), []).append(agent)
        else:
            parts.append(_Alone(policy, lanes[agent]))
    for agents in alike.values():
        several = [policy for agent in agents if isinstance(policy := policies[agent], ValuePolicy)]
        parts.append(_Together(several, [lanes[agent] for agent in agents]))
    return parts


def explore(worth: Float32, legal: LegalChoices, exploration: Float32, uniform: Float32) -> Decision:
    """The best legal action of each lane, or where `uniform < exploration` one at random: `uniform` says which.

    `worth [B, A]`, `exploration [B]`, `uniform [B]`.
    """
    mask, actions = legal.mask.numpy(), None if legal.actions is None else legal.actions.numpy()
    known = worth if actions is None else np.take_along_axis(worth, actions, 1)
    lanes = np.arange(len(worth))
    best = np.where(mask, known, -np.inf).argmax(1)
    upto = np.add.accumulate(mask, 1, np.int64)
    count, explores = upto[:, -1], uniform < exploration
    drawn = (uniform / np.maximum(exploration, np.float32(1e-9)) * count).astype(np.int64)
    choice = np.where(explores, (upto > np.minimum(drawn, count - 1)[:, None]).argmax(1), best)
    probability = exploration / count + (1 - exploration) * (choice == best)
    return Decision(
        choice=choice,
        action=choice if actions is None else actions[lanes, choice],
        log_probability=np.log(probability).astype(np.float32),
        value=known[lanes, best].astype(np.float32),
    )


def _best(worth: Float32, legal: LegalChoices) -> Decision:
    never: Float32 = np.zeros(len(worth), np.float32)
    return explore(worth, legal, never, never)
