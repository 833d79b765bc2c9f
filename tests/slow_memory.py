"""A memory as one would tell it: every lane's episodes, decision by decision, and the windows over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lived import Experience


@dataclass
class Moment:
    """A decision, and what came of it until the next one."""

    seen: tuple[float, ...]
    legal: tuple[int, ...]
    action: int
    reward: float
    factor: float


@dataclass
class Episode:
    """One game in one lane, as far as it has come."""

    moments: list[Moment] = field(default_factory=list)
    ended: bool = False
    final: tuple[float, ...] | None = None  # where it was cut off


@dataclass(frozen=True)
class Window:
    """What the memory should say of a decision; `next_seen` is empty where the game ended."""

    seen: tuple[float, ...]
    action: int
    reward: float
    factor: float
    next_seen: tuple[float, ...]
    next_legal: tuple[int, ...]


def episodes(experiences: Sequence[Experience], gamma: float) -> list[list[Episode]]:
    """By lane, over rollouts that follow each other."""
    blocks, _, lanes = experiences[0].rollout.reward.shape
    return [_episodes_of(experiences, block, lane, gamma) for block in range(blocks) for lane in range(lanes)]


def _episodes_of(experiences: Sequence[Experience], block: int, lane: int, gamma: float) -> list[Episode]:
    found = [Episode()]
    for experience in experiences:
        rollout = experience.rollout
        for step in range(rollout.reward.shape[1]):
            at = block, step, lane
            now = found[-1].moments
            reward, factor = float(rollout.reward[at]), gamma * float(rollout.discount[at])
            if rollout.acted[at]:
                seen = tuple(rollout.observation[at].tolist())
                legal = tuple(sorted(experience.legal[at]))
                now.append(Moment(seen, legal, experience.action[at], reward, factor))
            elif now:
                now[-1].reward += now[-1].factor * reward
                now[-1].factor *= factor
            if rollout.ended[at]:
                found[-1].ended = True
                if rollout.cut_off[at]:
                    found[-1].final = tuple(rollout.final_observation[at].tolist())
                found.append(Episode())
    return found


def rows_of(lane: Sequence[Episode]) -> list[tuple[Episode, int | None]]:
    """What a lane's ring holds in this order: decisions by their number, and last positions (None)."""
    rows: list[tuple[Episode, int | None]] = []
    for episode in lane:
        rows += [(episode, number) for number in range(len(episode.moments))]
        if episode.final is not None:
            rows.append((episode, None))
    return rows


def window(episode: Episode, number: int, steps: int, actions: int) -> Window | None:
    """The window over so many decisions that begins with this one; None while its outcome is not known."""
    first = episode.moments[number]
    reward, factor = 0.0, 1.0
    for moment in episode.moments[number : number + steps]:
        reward += factor * moment.reward
        factor *= moment.factor
    if number + steps < len(episode.moments):
        after = episode.moments[number + steps]
        return Window(first.seen, first.action, reward, factor, after.seen, after.legal)
    if episode.final is not None:
        return Window(first.seen, first.action, reward, factor, episode.final, tuple(range(actions)))
    return Window(first.seen, first.action, reward, 0.0, (), ()) if episode.ended else None
