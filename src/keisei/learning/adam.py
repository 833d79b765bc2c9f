"""A step of Adam, for networks so small that finding out what to do takes longer than doing it."""

from __future__ import annotations

import torch
from torch.optim import Adam


@torch.no_grad()
def step(optimizer: Adam) -> None:
    """What `optimizer.step()` does, bit for bit, for a fused Adam with one group of parameters on one device.

    From the second step on it is one call: torch would look first at the kind and the place of every tensor.
    """
    (group,) = optimizer.param_groups
    moved = [parameter for parameter in group["params"] if parameter.grad is not None]
    states = [optimizer.state[parameter] for parameter in moved if parameter in optimizer.state]
    if len(states) < len(moved):
        optimizer.step()
        return
    steps = [state["step"] for state in states]
    torch._foreach_add_(steps, 1)
    torch._fused_adam_(
        moved,
        [parameter.grad for parameter in moved],
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        steps,
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        amsgrad=False,
        maximize=False,
    )
