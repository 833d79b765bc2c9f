"""Which device computes a run, and how its groups and threads are chosen before the first step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from keisei.build.automatic import measured
from keisei.build.games import Game, agents_of_run
from keisei.config import Config, GridworldRun, SocietyRun
from keisei.config_device import DeviceConfig
from keisei.errors import ConfigError

if TYPE_CHECKING:
    from keisei.collect.collector import Collector
    from keisei.device.place import Place
    from keisei.device.planes import MakeInput

_GROUPS = (2, 3, 4)

Tell = Callable[[str, str], None]


def placed(config: Config) -> Config:
    """The configuration with a device and a way to compute, in place of what is `auto`."""
    from keisei.device.place import available, missing

    section = config.device
    kind = available(section.kind)
    if why := missing(kind):
        raise ConfigError(f"'device.kind' is {section.kind}, but {why}")
    society = isinstance(config, GridworldRun)
    fits = config.learner.kind == "ppo" and not society
    gpu = kind != "cpu" and fits
    pipelined = gpu if section.pipelined == "auto" else section.pipelined
    if pipelined and not fits:
        raise ConfigError(f"'device.pipelined' is for one learner of kind ppo, not for {_learners(config)}")
    if not pipelined and not (society and _suits_gpu(config)):
        kind = "cpu"  # plain policies and learners compute there
    chosen = {
        "kind": kind,
        "pipelined": pipelined,
        "precision": ("bf16" if gpu else "float32") if section.precision == "auto" else section.precision,
        "compile": gpu if section.compile == "auto" else section.compile,
    }
    return _with(config, **chosen)


def settled(config: Config, tell: Tell, collector: Callable[[Config], Collector]) -> Config:
    """The configuration with nothing left that is `auto` about the device; says what was found.

    `collector` makes one of a configuration, with the run's first weights.
    """
    config = placed(config)
    section = config.device
    if not section.pipelined:
        return _with(config, groups=1, threads=1)
    candidates = [_with(config, groups=groups, threads=_threads(section, groups)) for groups in _groups(config)]
    best = candidates[0]
    if len(candidates) > 1:
        rates = [_rate(candidate, collector) for candidate in candidates]
        best = candidates[rates.index(max(rates))]
        found = ", ".join(f"{one.device.groups}: {rate:,.0f}" for one, rate in zip(candidates, rates, strict=True))
        tell("mode", f"{best.device.groups} groups take turns on {best.device.kind} (steps/s by groups: {found})")
    else:
        tell("mode", f"{best.device.groups} groups take turns on {best.device.kind}")
    return best


def place(section: DeviceConfig) -> Place:
    """The device of a configuration in which nothing is `auto`."""
    from keisei.device.place import Place

    return Place(
        section.kind,
        bf16=section.precision == "bf16",
        compiled=section.compile is True,
        deterministic=section.deterministic,
    )


def make_input(of: Game, where: Place) -> MakeInput:
    """How a game's observations become a network's input on the device."""
    from keisei.device.planes import DevicePlanes, numbers

    return numbers if of.plane_table is None else DevicePlanes(of.plane_table(), where.device)


def group_lanes(config: Config, of: Game) -> int:
    """How many lanes ask the network at once."""
    groups = config.device.groups
    assert groups != "auto"
    return config.environment.copies // groups * of.lanes_per_copy


def _groups(config: Config) -> list[int]:
    """The numbers of groups that are worth a try."""
    blocks, wanted = config.environment.copies // config.parallel.block_size, config.device.groups
    if wanted == "auto":
        return [groups for groups in _GROUPS if blocks % groups == 0] or [1]
    if blocks % wanted:
        raise ConfigError(f"'device.groups' must divide the {blocks} blocks, which {wanted} does not")
    return [wanted]


def _threads(section: DeviceConfig, groups: int) -> int:
    """Native threads of a group: one group is computed, the others share the processors."""
    if section.threads != "auto":
        return section.threads
    return max(1, len(os.sched_getaffinity(0)) // max(1, groups - 1))


def _rate(config: Config, collector: Callable[[Config], Collector]) -> float:
    """Steps per second, not compiled: compiling for each candidate would take longer than any can gain."""
    made = collector(_with(config, compile=False))
    try:
        return measured(made)[0]
    finally:
        made.close()


def _suits_gpu(config: Config) -> bool:
    """Whether all agents learn action values, which are stacked, and act in this process."""
    from keisei.build.gridworlds import agents_of

    assert isinstance(config, GridworldRun)
    return not config.parallel.enabled and all(
        agent.learner.kind != "ppo" for agent in agents_of_run(config, agents_of(config.environment))
    )


def _learners(config: Config) -> str:
    return "societies" if isinstance(config, SocietyRun) else f"'{config.learner.kind}'"


def _with(config: Config, **chosen: object) -> Config:
    """The configuration with other keys of its device; the games are stepped by as many threads as that says."""
    section = config.device.model_copy(update=chosen)
    found = config.model_copy(update={"device": section})
    if section.pipelined is True and section.threads != "auto" and hasattr(config.environment, "threads"):
        environment = config.environment.model_copy(update={"threads": section.threads})
        found = found.model_copy(update={"environment": environment})
    return found
