"""Networks: from what the deciding seat sees to a logit per legal action and a value, both for that seat."""

from keisei.networks.network import DenseNetwork, Network, TwoHeadedNetwork
from keisei.networks.resnet import ResidualTower
from keisei.networks.small import MLP, ConvolutionalTower

__all__ = ["MLP", "ConvolutionalTower", "DenseNetwork", "Network", "ResidualTower", "TwoHeadedNetwork"]
