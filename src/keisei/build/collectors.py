"""Who collects a run's experience, from its configuration: this process or others, at once or ahead of the learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keisei.build.automatic import chosen, fitting
from keisei.build.games import Game, game
from keisei.build.players import actor, checkpoint_policy
from keisei.build.societies import society_rules
from keisei.config import Config, ParallelConfig, SocietyRun, check_run
from keisei.errors import ConfigError
from keisei.sections import Section

if TYPE_CHECKING:
    from keisei.collect.blocks import BlockRules
    from keisei.collect.collector import Collector
    from keisei.collect.frozen import ChooseFrozen
    from keisei.collect.pipelined import PipelinedCollector
    from keisei.collect.serial import SerialCollector
    from keisei.parallel.manager import ParallelManager
    from keisei.policy import Actor

Tell = Callable[[str, str], None]
"""Gets what a collector has to say: `mode` or `alarm`, and a text."""


def collector(config: Config, of: Game, tell: Tell) -> Collector:
    """Who collects a run's experience."""
    from keisei.collect.ahead import AheadCollector

    section = config.parallel
    plain = _plain(config, of, tell)
    if not section.async_learning:
        return plain
    return AheadCollector(plain, section.max_lag, blocks=_blocks(config), most_waiting=section.queue_maxsize)


def _plain(config: Config, of: Game, tell: Tell) -> Collector:
    section = config.parallel
    if config.device.pipelined is True:
        return pipelined(config, of)
    if not section.enabled:
        return serial(config, of)
    if section.num_workers != "auto":
        return workers(config, of, section.num_workers, tell=tell)
    if section.async_learning and not section.use_threads:
        return workers(config, of, fitting(config), tell=tell)
    return chosen(config, partial(serial, config, of), partial(workers, config, of, tell=tell), tell)


def serial(config: Config, of: Game, steps: int | None = None) -> SerialCollector:
    """This process plays the blocks; with `steps`, so many of them are a rollout, whatever the configuration says."""
    from keisei.collect.block_set import set_rules
    from keisei.collect.serial import SerialCollector

    rules, blocks = block_rules(config, of), _blocks(config)
    if steps is not None:
        rules = replace(rules, steps=steps, games=None)
    if config.parallel.inference == "learner":
        rules, blocks = set_rules(rules, blocks), 1
    return SerialCollector(
        rules,
        blocks=blocks,
        buffers=_buffers(config.parallel),
        compression=config.parallel.compression,
    )


def pipelined(config: Config, of: Game) -> PipelinedCollector:
    """Groups of blocks take turns on the run's device."""
    from keisei.collect.pipelined import PipelinedCollector

    groups = config.device.groups
    assert groups != "auto"
    return PipelinedCollector(
        block_rules(config, of),
        blocks=_blocks(config),
        groups=groups,
        buffers=_buffers(config.parallel),
        compression=config.parallel.compression,
        twin=twin_of,
        numbers=device_numbers,
    )


def twin_of(actor: Actor) -> Actor:
    """A policy on the same device, computed by the same engine, with weights of its own."""
    from keisei.device.policy import DevicePolicy

    assert isinstance(actor, DevicePolicy)
    return actor.twin()


def device_numbers(actor: Actor) -> Mapping[str, float]:
    """What acting on a device has moved and taken."""
    from keisei.device.policy import DevicePolicy

    assert isinstance(actor, DevicePolicy)
    counts, moves = actor.engine.counts, max(1, actor.engine.counts.moves)
    return {
        "device/bytes_up_per_move": counts.bytes_up / moves,
        "device/bytes_down_per_move": counts.bytes_down / moves,
        "device/compile_acting_seconds": counts.compile_seconds,
    }


def workers(config: Config, of: Game, number: int, *, tell: Tell) -> ParallelManager:
    """Worker processes play the blocks, or step them; there are never more of them than blocks."""
    from keisei.parallel.manager import ParallelManager, ParallelSettings

    section, blocks = config.parallel, _blocks(config)
    if number > blocks:
        tell("mode", f"{number} workers would share {blocks} blocks of {section.block_size}: {blocks} are started")
    settings = ParallelSettings(
        blocks=blocks,
        num_workers=min(number, blocks),
        model_sync_interval=section.model_sync_interval,
        buffers=_buffers(section),
        worker_timeout=section.worker_timeout,
        max_restarts=section.max_restarts,
        on_failure=section.on_failure,
        use_shared_memory=section.use_shared_memory,
        compression=section.compression,
        inference=section.inference,
    )
    return ParallelManager(block_rules(config, of), settings, partial(tell, "alarm"))


def parallel_manager(
    environment_config: Section | Mapping[str, object],
    network_config: Section | Mapping[str, object],
    parallel_config: Section | Mapping[str, object],
    *,
    seed: int,
    tell: Callable[[str], None] = print,
) -> ParallelManager:
    """Worker processes to use outside any run: sections as in a run's file, `num_workers` with a number.

    `tell` gets what goes wrong, in lines.
    """
    sections = {"environment": environment_config, "network": network_config, "parallel": parallel_config}
    plain = {name: one.model_dump() if isinstance(one, Section) else one for name, one in sections.items()}
    config = check_run({"run": {"seed": seed}, **plain}, "in keisei.build.parallel_manager()")
    number = config.parallel.num_workers
    if number == "auto":
        raise ConfigError("'parallel.num_workers' must be a number here: only a run can measure how many are best")
    return workers(config, game(config), number, tell=lambda _, text: tell(text))


def block_rules(config: Config, of: Game) -> BlockRules:
    """What playing a run's blocks needs, in whatever process."""
    from keisei.collect.blocks import BlockRules
    from keisei.collect.past import PastRules

    section = config.parallel
    rules = BlockRules(
        build_environment=of.build_environment,
        build_policy=partial(actor, config, of),
        build_frozen=partial(frozen_pools, config, of),
        steps=section.rollout_length,
        seed=config.run.seed,
        games=section.episodes_per_worker,
        finals=config.learner.kind != "ppo",
        past=PastRules(config.opponents.past_selves, config.opponents.past_interval),
    )
    return society_rules(rules, config, of) if isinstance(config, SocietyRun) else rules


def frozen_pools(config: Config, of: Game, past: Sequence[Actor]) -> ChooseFrozen:
    """The frozen opponents of a run: the checkpoints that it names, and its own past selves."""
    from keisei.collect.frozen import OF_CHECKPOINTS, OF_PAST, FrozenPool, first_of

    section, seed, size = config.opponents, config.run.seed, config.parallel.block_size
    policies = [checkpoint_policy(Path(folder), config.device) for folder in section.checkpoints]
    for key, wanted in (("checkpoints", policies), ("past_selves", section.past_selves)):
        if wanted and not of.duel:
            raise ConfigError(f"'opponents.{key}' needs a game in which two seats take turns")
    checkpoints = FrozenPool(policies, section.share, seed, size, OF_CHECKPOINTS)
    return first_of([checkpoints, FrozenPool(past, section.past_share, seed, size, OF_PAST)])


def _blocks(config: Config) -> int:
    return config.environment.copies // config.parallel.block_size


def _buffers(section: ParallelConfig) -> int:
    """How many rollouts must stay valid at once."""
    return section.max_lag + 1 if section.async_learning else 1
