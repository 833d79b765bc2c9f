"""Networks, policies and opponents, from configuration, names and checkpoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keisei.build.devices import group_lanes, make_input, place
from keisei.build.games import Game, game
from keisei.config import Config, SocietyRun, load_run
from keisei.config_device import DeviceConfig
from keisei.config_learner import DQNConfig, IQNConfig, PPOConfig
from keisei.config_network import NetworkConfig
from keisei.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

    from keisei.acting import ValuePolicy
    from keisei.arena.evaluation import BuildOpponent
    from keisei.device.policy import DevicePolicy
    from keisei.networks import Network
    from keisei.networks.quantile import Architecture
    from keisei.opponents import Opponent
    from keisei.policy import Actor, Policy


_ON_CPU = DeviceConfig(kind="cpu", pipelined=False)
_OPPONENT = 2
"""Added to the seed of a match: what a network plays against the challenger, by chance, is its own."""


def network(section: NetworkConfig, of: Game, seed: int) -> Network:
    """A network with fresh weights; the same seed gives the same, on however many processors."""
    import torch

    from keisei.threads import torch_threads

    with torch.random.fork_rng(devices=[]), torch_threads(1):
        torch.manual_seed(seed)
        if section.kind == "mlp":
            return _dense_network(section, of)
        body = _body(section, of)
        built = _two_headed(section, of, body)
    return built.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _dense_network(section: NetworkConfig, of: Game) -> Network:
    from keisei.networks import MLP, DenseNetwork

    body = MLP(of.input_shape, [section.width] * section.depth)
    return DenseNetwork(body, section.width, of.group.actions, reach=section.value_reach)


def _body(section: NetworkConfig, of: Game) -> nn.Module:
    from keisei.networks import ConvolutionalTower, ResidualTower

    if len(of.input_shape) != 3:
        raise ConfigError(f"'network.kind' must be mlp for observations of shape {list(of.input_shape)}")
    if section.kind == "convolutional":
        return ConvolutionalTower(of.input_shape[0], section.depth, section.width)
    return ResidualTower(of.input_shape[0], section.depth, section.width, section.normalization)


def _two_headed(section: NetworkConfig, of: Game, body: nn.Module) -> Network:
    import torch

    from keisei.networks import TwoHeadedNetwork
    from keisei.networks.network import ConvolutionalPolicy, DensePolicy, ValueHead

    cells = of.input_shape[1] * of.input_shape[2]
    value = ValueHead(section.width, cells, reach=section.value_reach)
    if section.policy == "dense":
        return TwoHeadedNetwork(body, DensePolicy(section.width * cells, of.group.actions), value)
    if of.policy_cells is None:
        raise ConfigError("'network.policy' must be dense: this game does not say which cells its actions belong to")
    parts = torch.from_numpy(np.asarray(of.policy_cells.parts()))
    policy = ConvolutionalPolicy(section.width, of.policy_cells.planes, of.policy_cells.cells, parts)
    return TwoHeadedNetwork(body, policy, value)


def policy(section: NetworkConfig, of: Game, seed: int) -> Policy:
    """A policy with a network of its own."""
    return policy_of(network(section, of, seed), of)


def policy_of(network: Network, of: Game) -> Policy:
    """A policy that acts by a network in the way that is fastest for a game."""
    from keisei.policy import CellPolicy, Policy, cell_head

    if of.draw is not None and cell_head(network) is not None:
        return CellPolicy(network, of.encoder(), of.draw)
    return Policy(network, of.encoder())


def actor(config: Config, of: Game) -> Actor:
    """Who acts in a run: as its learner needs it, or all its agents together."""
    if isinstance(config, SocietyRun):
        from keisei.build.societies import society_actor

        return society_actor(config, of)
    section, seed = config.learner, config.run.seed
    if config.device.pipelined is True:
        return device_policy(config, of)
    if isinstance(section, PPOConfig):
        return policy(config.network, of, seed)
    return values(config.network, section, of, seed)


def device_policy(config: Config, of: Game) -> DevicePolicy:
    """A policy that acts on the run's device."""
    from keisei.device.policy import DevicePolicy

    where = place(config.device)
    where.set_up()
    built = network(config.network, of, config.run.seed)
    return DevicePolicy(built, make_input(of, where), where, of.group, group_lanes(config, of))


def values(network: NetworkConfig, learner: DQNConfig, of: Game, seed: int, device: str = "cpu") -> ValuePolicy:
    """A policy that knows what actions are worth, with a network of its own."""
    from keisei.acting import ValuePolicy
    from keisei.networks.quantile import action_values
    from keisei.threads import torch_threads

    made_of = architecture(network, learner, of.input_shape, of.group.actions)
    with torch_threads(1):
        built = action_values(made_of, seed)
    return ValuePolicy(built.to(device), of.encoder())


def architecture(
    network: NetworkConfig, learner: DQNConfig, input_shape: tuple[int, ...], actions: int
) -> Architecture:
    """What a network of action values is made of; raises ConfigError where there is none of that kind."""
    from keisei.networks.quantile import Architecture

    planes = network.kind == "convolutional"
    if network.kind == "residual" or (planes and len(input_shape) != 3):
        fitting = "mlp or convolutional" if len(input_shape) == 3 else "mlp"
        raise ConfigError(f"'network.kind' must be {fitting} for learner '{learner.kind}', not {network.kind}")
    return Architecture(
        shape=input_shape,
        actions=actions,
        convolutions=network.depth if planes else 0,
        channels=network.width if planes else 0,
        widths=() if planes else (network.width,) * network.depth,
        layer=learner.layer,
        dueling=learner.dueling,
        noisy=learner.noisy,
        quantiles=learner.quantiles if isinstance(learner, IQNConfig) else 0,
        cosines=learner.cosines if isinstance(learner, IQNConfig) else 0,
    )


def checkpoint_policy(folder: Path, device: DeviceConfig = _ON_CPU) -> Actor:
    """The policy of a checkpoint, built as its own configuration says, but for another device."""
    from keisei.checkpoint import read, restore

    found = read(folder, groups=())
    config = load_run(folder / "config.yaml").model_copy(update={"device": device})
    built = actor(config, game(config))
    restore(built.network, found.weights)
    return built


def opponent(name: str, of: Game, run: Path | None = None) -> BuildOpponent:
    """An opponent by name: `random`, `greedy`, `past` (the oldest checkpoint that the run keeps), or a folder."""
    from keisei.opponents import GreedyOpponent, RandomOpponent

    if name == "random":
        return RandomOpponent
    if name == "greedy":
        if of.action_values is None:
            raise ConfigError("there is no greedy opponent: this game does not say what its actions are worth")
        return partial(GreedyOpponent, values=of.action_values)
    if name == "past" and run is not None:
        return partial(_oldest, run)
    return partial(_of_folder, Path(name))


def _oldest(run: Path, seed: int) -> Opponent | None:
    from keisei.arena.player import PastSelf
    from keisei.checkpoint import folder_of, numbers

    there = numbers(run)
    if not there:
        return None
    return PastSelf(checkpoint_policy(folder_of(run, there[0])), seed + _OPPONENT, "sample", iteration=there[0])


def _of_folder(folder: Path, seed: int) -> Opponent:
    from keisei.arena.player import NetworkOpponent

    return NetworkOpponent(checkpoint_policy(folder), seed + _OPPONENT, "sample")
