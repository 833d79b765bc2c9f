"""One network on a device: its bare passes, collecting with it, and training it, as contenders that take turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from keisei import build
from keisei.bench.gpu_busy import BusyGpu
from keisei.bench.harness import Sample
from keisei.build.collectors import device_numbers
from keisei.build.devices import placed
from keisei.build.learners import learner
from keisei.collect.pipelined import PipelinedCollector
from keisei.config import Config, load_run
from keisei.device.graphs import captured
from keisei.device.lists import pad, width_for
from keisei.device.policy import DevicePolicy
from keisei.device.ppo import DevicePPO
from keisei.device.rows import DeviceRows, Minibatch
from keisei.rollout import Rollout

AT_THE_END = 1.0
"""The progress at which the learning rate is 0: with weights that stay as they are, all rounds are alike."""


@dataclass(frozen=True)
class Shape:
    """How large everything is."""

    games: int
    groups: int
    threads: int
    rollout: int
    minibatch: int


@dataclass(frozen=True)
class Tower:
    """A residual network by its depth and width."""

    depth: int
    width: int

    @property
    def name(self) -> str:
        """As in `10x128`."""
        return f"{self.depth}x{self.width}"


def configuration(tower: Tower, shape: Shape, kind: str) -> Config:
    """A run of Shogi with such a network on a device; all else is as on a GPU."""
    gpu = "true" if kind != "cpu" else "false"
    size = shape.games // shape.groups
    overrides = (
        f"environment={{name: shogi, copies: {shape.games}, random_plies: 40}}",
        f"network={{kind: residual, depth: {tower.depth}, width: {tower.width}}}",
        f"learner={{minibatch_size: {shape.minibatch}, final_learning_rate: 0, entropy: 0.005}}",
        f"parallel={{block_size: {size}, rollout_length: {shape.rollout}}}",
        f"device={{kind: '{kind}', pipelined: true, groups: {shape.groups}, threads: {shape.threads}, compile: {gpu}}}",
        "run.seed=7",
    )
    return placed(load_run(None, overrides))


class Parts:
    """What is measured of one network: a collector, a learner, and a rollout that they had."""

    def __init__(self, tower: Tower, shape: Shape, kind: str) -> None:
        self.tower, self.shape = tower, shape
        self.config = configuration(tower, shape, kind)
        game = build.game(self.config)
        self.collector = build.collectors.pipelined(self.config, game)
        found = learner(self.config, game)
        assert isinstance(found, DevicePPO)
        self.learner = found
        self.device = found.device_policy.place.device
        self.iteration = 0
        self.rollout = self.collect()

    @property
    def policy(self) -> DevicePolicy:
        """Who acts."""
        assert isinstance(self.collector.policy, DevicePolicy)
        return self.collector.policy

    def collect(self) -> Rollout:
        """The next rollout."""
        self.rollout = self.collector.collect(self.iteration)
        self.iteration += 1
        return self.rollout

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        """Give everything back."""
        self.collector.close()

    @property
    def numbers(self) -> dict[str, float]:
        """Bytes moved, and seconds taken by compiling."""
        found = dict(device_numbers(self.policy))
        compiled = found["device/compile_acting_seconds"] + self.learner.compile_seconds
        return {
            "bytes_up_per_move": found["device/bytes_up_per_move"] + self.learner.bytes_up_per_row,
            "bytes_down_per_move": found["device/bytes_down_per_move"],
            "compile_seconds": compiled,
        }


class Timed:
    """Something that is done again and again, by the clock on the wall; the device has finished when time is read."""

    def __init__(self, name: str, parts: Parts, once: Callable[[], int]) -> None:
        """`once` gives how much work was done; it is called once before anything is measured."""
        self.name = name
        self._parts = parts
        self._once = once

    def measure(self, seconds: float) -> Sample:
        """Work for about so long."""
        self._parts.synchronize()
        work, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds or not work:
            work += self._once()
            self._parts.synchronize()
        return Sample(work, spent)


def collecting(parts: Parts) -> Timed:
    """Whole rollouts: planes, lists, network, samples, games."""
    return Timed(f"collect_{parts.tower.name}", parts, lambda: parts.collect().steps)


def forward(parts: Parts) -> Timed:
    """The bare forward pass at the same batch: planes and lists are ready, nothing is sampled."""
    seen, actions = _ready(parts)
    network, place = parts.policy.network, parts.policy.place

    @torch.no_grad()
    def step() -> Tensor:
        with place.body():
            features = network.body(seen)
        logits, value = network.judge(features.float(), actions)
        return logits.sum(1) + value

    again = torch.compile(step, dynamic=False) if place.compiled else step
    again()
    run = captured(again) if place.is_gpu and place.compiled else again

    def several() -> int:
        for _ in range(_REPEATS):
            run()
        return _REPEATS * len(seen)

    return Timed(f"forward_{parts.tower.name}", parts, several)


_REPEATS = 8


def _ready(parts: Parts) -> tuple[Tensor, Tensor]:
    """The planes and padded lists of one group's step."""
    rollout, policy = parts.rollout.block(0), parts.policy
    offsets = rollout.legal_offsets[0, 0]
    lengths = np.diff(offsets)
    flat = torch.from_numpy(rollout.legal_actions[0, : offsets[-1]].view(np.int16)).to(parts.device)
    starts, counts = (torch.from_numpy(array).to(parts.device) for array in (offsets[:-1].copy(), lengths))
    actions, _ = pad(flat, starts, counts, width_for(int(lengths.max()), rollout.group.most_legal))
    seen = torch.from_numpy(np.ascontiguousarray(rollout.observation[0, 0])).to(parts.device)
    return policy.make_input(seen).contiguous(memory_format=torch.channels_last), actions


def backward(parts: Parts) -> Timed:
    """Bare training steps on a minibatch that is ready: forward, loss, backward, clipping, Adam; nothing comes back."""
    teacher, minibatch = parts.learner, _lesson(parts)
    weight, rows = torch.tensor(0.005, device=parts.device), len(minibatch.weight)
    parameters = list(teacher.network.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.0, fused=True)

    def once() -> int:
        optimizer.zero_grad()
        teacher.part(minibatch, weight, rows)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        return rows

    once()
    return Timed(f"backward_{parts.tower.name}", parts, once)


def _lesson(parts: Parts) -> Minibatch:
    rollout = parts.rollout
    numbers = np.zeros((4, rollout.reward.size), np.float32)
    numbers[0] = rollout.log_probability.ravel()
    rows = np.arange(min(parts.shape.minibatch, numbers.shape[1]))
    return DeviceRows(rollout, numbers, parts.device).minibatch(rows, parts.shape.minibatch)


def training(parts: Parts) -> Timed:
    """Whole iterations: collect, learn with one pass over each step, publish."""
    collector: PipelinedCollector = parts.collector

    def once() -> int:
        rollout = parts.collect()
        parts.learner.learn(rollout, parts.iteration, AT_THE_END)
        collector.publish(parts.learner.network.state_dict(), parts.iteration)
        return rollout.steps

    once()
    return Timed(f"train_{parts.tower.name}", parts, once)


class Watched:
    """A contender beside whom somebody looks how busy the GPU is."""

    def __init__(self, contender: Timed, busy: BusyGpu) -> None:
        self.name = contender.name
        self._contender = contender
        self._busy = busy

    def measure(self, seconds: float) -> Sample:
        """Work for about so long."""
        with self._busy:
            return self._contender.measure(seconds)
