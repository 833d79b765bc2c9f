"""Small networks of action values, with weights and noise that say something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from keisei.networks.flat import noisy_layers
from keisei.networks.quantile import ActionValueNetwork, Architecture, action_values
from slow_values import SlowNetwork

PLAIN = Architecture((6,), 3, 0, 0, (5,), 4, False, False, 0, 0)
PLANES = replace(PLAIN, shape=(2, 3, 4), convolutions=2, channels=3, widths=())
ARCHITECTURES = {
    "plain": PLAIN,
    "dueling": replace(PLAIN, dueling=True, widths=(5, 7)),
    "noisy": replace(PLAIN, noisy=True),
    "dueling, noisy": replace(PLAIN, dueling=True, noisy=True),
    "quantiles": replace(PLAIN, quantiles=4, cosines=5),
    "quantiles, dueling, noisy": replace(PLAIN, dueling=True, noisy=True, quantiles=3, cosines=6),
    "planes": PLANES,
    "planes, quantiles, dueling, noisy": replace(PLANES, dueling=True, noisy=True, quantiles=3, cosines=6, widths=(5,)),
}
FLAT = [name for name in ARCHITECTURES if "planes" not in name]


def small_network(
    name: str = "plain", seed: int = 0, dtype: torch.dtype = torch.float64, architecture: Architecture | None = None
) -> ActionValueNetwork:
    """A network whose weights, biases and noise are all of some size."""
    network = action_values(architecture or ARCHITECTURES[name], seed).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.empty_like(parameter).normal_(0, 0.4, generator=generator))
        for layer in noisy_layers(network).values():
            layer.noise_in.normal_(generator=generator)
            layer.noise_out.normal_(generator=generator)
    return network


def slow_copy(network: ActionValueNetwork, *, noise: bool = True) -> SlowNetwork:
    """The same network, as the formulas say."""
    parameters = {name: one.detach().double().numpy().copy() for name, one in network.named_parameters()}
    layers = noisy_layers(network) if noise else {}
    drawn = {
        name: (layer.noise_in.double().numpy(), layer.noise_out.double().numpy()) for name, layer in layers.items()
    }
    return SlowNetwork(parameters, drawn)


def observations(architecture: Architecture, *leading: int, seed: int = 0) -> torch.Tensor:
    """Observations of any numbers."""
    numbers = np.random.default_rng(seed).normal(size=(*leading, *architecture.shape))
    return torch.from_numpy(numbers)
