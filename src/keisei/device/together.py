"""Several processes that learn one network, each from games of its own: one process per GPU, or several on the CPU."""

from __future__ import annotations

import torch
import torch.distributed as distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from keisei.device.policy import DevicePolicy
from keisei.device.ppo import DevicePPO, Tell
from keisei.device.rows import Minibatch
from keisei.learning.ppo import PPOSettings


class _Judge(nn.Module):
    """A policy's network as the module that others learn as well."""

    def __init__(self, policy: DevicePolicy) -> None:
        super().__init__()
        self.network = policy.network
        self._policy = policy

    def forward(self, seen: Tensor, actions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits and values."""
        return self._policy.judge(seen, actions)


class TogetherPPO(DevicePPO):
    """Learns from its own rollouts; gradients are the means of those of all processes, so all weights stay alike.

    Every process must learn as often as the others; rollouts may have different numbers of decisions.
    """

    def __init__(
        self,
        policy: DevicePolicy,
        settings: PPOSettings,
        seed: int,
        *,
        micro_batch: int | None = None,
        same_weights: bool = True,
        tell: Tell = lambda kind, text: None,
    ) -> None:
        """All processes begin with the weights of the first; `torch.distributed` is set up."""
        super().__init__(policy, settings, seed, micro_batch=micro_batch, same_weights=same_weights, tell=tell)
        device = policy.place.device
        self._judge = DistributedDataParallel(
            _Judge(policy), device_ids=[device] if policy.place.is_gpu else None, broadcast_buffers=False
        )

    def _judged(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        if not torch.is_grad_enabled():  # nobody else computes this
            return super()._judged(minibatch)
        found: tuple[Tensor, Tensor] = self._judge(minibatch.seen, minibatch.actions)
        return found

    def _parts_of(self, rows: int) -> int:
        """As many minibatches as whoever has most decisions needs."""
        most = torch.tensor(rows, device=self.device_policy.place.device)
        distributed.all_reduce(most, distributed.ReduceOp.MAX)
        return super()._parts_of(int(most))

    def _agreed(self, means: Tensor) -> Tensor:
        """What is reported is the mean over all, so that all stop or go on alike."""
        distributed.all_reduce(means)
        return means / distributed.get_world_size()
