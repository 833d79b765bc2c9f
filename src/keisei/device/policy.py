"""A policy that acts on a device: packed positions and legal lists go there, and decisions come back."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from keisei.device import choosing
from keisei.device.engine import Engine, judge
from keisei.device.exchange import packed_answer, read_answer
from keisei.device.lists import width_for
from keisei.device.place import Place
from keisei.device.planes import MakeInput
from keisei.environment import Array, Float32, Group
from keisei.networks import Network
from keisei.networks.flat import flatten
from keisei.policy import Decision, Evaluation, LegalChoices, ListedChoices, Policy


class DevicePolicy(Policy):
    """An `Actor` whose network, input and samples are computed on a device."""

    def __init__(
        self,
        network: Network,
        make_input: MakeInput,
        place: Place,
        group: Group,
        rows: int,
        engine: Engine | None = None,
    ) -> None:
        """`rows` are the lanes that usually ask together; an engine may compute for several policies."""
        super().__init__(network.to(place.device), self._encoded)
        self.make_input = make_input
        self.place = place
        self.group = group
        self.rows = rows
        self._weights = flatten(self.network)
        self.engine = engine or Engine(self.network, make_input, place, group, rows)

    def twin(self) -> DevicePolicy:
        """A policy with weights of its own that is computed by the same engine."""
        network = copy.deepcopy(self.network)
        return DevicePolicy(network, self.make_input, self.place, self.group, self.rows, self.engine)

    # --- as an actor -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def act(self, seen: Array, legal: LegalChoices, uniform: Float32) -> Decision:
        """Sample one legal action per lane; `uniform [B]` in [0, 1) decides which."""
        if not isinstance(legal, ListedChoices):
            return self._decide(seen, legal, lambda said, mask: choosing.sample(said, mask, self._there(uniform)))
        longest = int(np.diff(legal.offsets).max(initial=0))
        line = self.engine.line(self.engine.size_for(len(seen)), width_for(longest, self.group.most_legal))
        size = line.host.fill(seen, legal, uniform)
        self.engine.ask(line, size, len(seen), self._weights)
        return read_answer(line.answer, len(seen))

    @torch.no_grad()
    def act_greedily(self, seen: Array, legal: LegalChoices) -> Decision:
        """Take the most probable legal action of each lane; among equals, the first."""
        return self._decide(seen, legal, lambda said, mask: said.argmax(1))

    @torch.no_grad()
    def values(self, seen: Array) -> Float32:
        """The values `[B]` of what the deciding seats see."""
        made = self._encoded(seen)
        with self.place.body():
            features = self.network.body(made)
        found: Float32 = self.network.judge_value(features.float()).cpu().numpy()
        return found

    def evaluate(self, seen: Array, legal: LegalChoices, choice: Tensor) -> Evaluation:
        """What the network now says of earlier choices, with gradients."""
        device = self.place.device
        mask = legal.mask.to(device)
        logits, value = self.judge(self._there(seen), None if legal.actions is None else legal.actions.to(device))
        said = choosing.log_probabilities(logits, mask)
        chosen = said.gather(1, choice.to(device)[:, None]).squeeze(1)
        return Evaluation(chosen, choosing.entropy(said, mask), value)

    # --- on the device -----------------------------------------------------------------------------------------------

    def judge(self, seen: Tensor, actions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits and values of what lies on the device, float32."""
        return judge(self.network, self.make_input(seen), actions, self.place)

    def _decide(self, seen: Array, legal: LegalChoices, choose: Callable[[Tensor, Tensor], Tensor]) -> Decision:
        """Any batch, in any form, without haste."""
        actions = None if legal.actions is None else legal.actions.to(self.place.device)
        mask = legal.mask.to(self.place.device)
        logits, value = self.judge(self._there(seen), actions)
        said = choosing.log_probabilities(logits, mask)
        choice = choose(said, mask)[:, None]
        action = choice if actions is None else actions.gather(1, choice)
        answer = packed_answer(choice.squeeze(1), action.squeeze(1), said.gather(1, choice).squeeze(1), value)
        return read_answer(answer.cpu(), len(seen))

    def _encoded(self, seen: Array) -> Tensor:
        return self.make_input(self._there(seen))

    def _there(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.place.device)
