"""What the ended games of a rollout tell, as numbers of a record: of each agent, and of the world as a whole.

`agents/3/return` is a mean over the worlds, `agents/3/return_spread` the deviation between them; `world/return` is the
mean over all agents, `world/gini` a mean over worlds. What made no sense in any world is left out.
"""

from __future__ import annotations

import warnings

import numpy as np

from keisei.environment import WORLD_FIGURE, Float32
from keisei.rollout import Rollout

RETURN = "return"


def figure_numbers(rollout: Rollout, agents: int) -> dict[str, float]:
    """The numbers of a rollout in which lane `l` is agent `l % agents`."""
    if not rollout.group.figures:
        return {}
    games = rollout.ended.sum(1).reshape(-1, agents)  # [worlds, agents]
    ended = np.where(games > 0, games, np.nan).astype(np.float32)
    means = rollout.figures.reshape(*games.shape, -1) / ended[..., None]
    return numbers_of({name: means[..., i] for i, name in enumerate(rollout.group.figures)})


def numbers_of(figures: dict[str, Float32], prefix: str = "") -> dict[str, float]:
    """The numbers of figures `[worlds, agents]` by name."""
    found: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is not a number
        for name, each in figures.items():
            if name.startswith(WORLD_FIGURE):
                found[name] = float(np.nanmean(each[:, 0]))
                continue
            found[f"{WORLD_FIGURE}{name}"] = float(np.nanmean(each))
            found |= {f"agents/{agent}/{name}": value for agent, value in enumerate(np.nanmean(each, 0).tolist())}
        found |= _spread(figures[RETURN])
    return {f"{prefix}{name}": value for name, value in found.items() if np.isfinite(value)}


def _spread(returns: Float32) -> dict[str, float]:
    """How far the worlds' returns are apart."""
    if len(returns) < 2:
        return {}
    each = {f"agents/{agent}/return_spread": one for agent, one in enumerate(np.nanstd(returns, 0).tolist())}
    return {**each, f"{WORLD_FIGURE}return_spread": float(np.nanstd(np.nanmean(returns, 1)))}
