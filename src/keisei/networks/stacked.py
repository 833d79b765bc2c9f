"""N networks of action values of one architecture, computed as one: batched products and grouped convolutions.

Forward and backward passes are written out: a graph would take longer to build than most of these layers to compute.
Networks keep their own memory; what is computed with is a copy, or the memory of one network alone. No row of one
network ever meets a row of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from keisei.environment import Float32
from keisei.networks.flat import Layout, Pair, Weights, noisy_layers, plain_weights
from keisei.networks.quantile import ActionValueNetwork, Architecture, cosines, middles

FEW_ROWS = 4
"""Up to so many rows of each network, the first layer reads only the weights of inputs that are not 0."""

_CPU = torch.device("cpu")


class Scratch:
    """Memory for what is computed on the way; the same name and shape is the same memory again. For one thread."""

    def __init__(self, device: torch.device = _CPU) -> None:
        self.device = device
        self._kept: dict[tuple[str, tuple[int, ...], torch.dtype], Tensor] = {}
        self._beside: Scratch | None = None

    def __call__(self, name: str, *shape: int, dtype: torch.dtype) -> Tensor:
        """Memory of that shape, full of whatever was there."""
        key = (name, shape, dtype)
        if key not in self._kept:
            self._kept[key] = torch.empty(shape, dtype=dtype, device=self.device)
        return self._kept[key]

    def beside(self, device: torch.device) -> Scratch:
        """Memory on another device that belongs to this."""
        if self._beside is None:
            self._beside = Scratch(device)
        return self._beside

    def have(self, other: Scratch) -> None:
        """Have everything that lies in other memory, under the same names; nothing to do where it is this."""
        for (name, shape, dtype), tensor in other._kept.items() if other is not self else ():
            self(name, *shape, dtype=dtype).copy_(tensor, non_blocking=True)


@dataclass(frozen=True)
class Pass:
    """What a forward pass leaves for the backward pass, of n networks, B rows and K quantiles each (K = 1: none)."""

    convolved: list[Tensor]  # inputs of the convolutions, then their last output: [B, n · channels, H, W]
    dense: list[Tensor]  # inputs of the fully connected layers, then their last output: [n, B, features]
    cosines: Tensor | None  # [n, B · K, cosines]
    embedded: Tensor | None  # [n, B · K, features]
    product: Tensor  # [n, B · K, features] what goes into the last hidden layer
    hidden: Tensor  # [n, B · K, layer]
    worth: Tensor  # [n, B · K, A]


def forward(
    weights: Weights, architecture: Architecture, seen: Tensor, shares: Tensor | None, scratch: Scratch, name: str
) -> Pass:
    """`seen [n, B, *shape]`, `shares [n, B, K]` → what each action is worth; valid until the next pass of that name."""
    convolved, dense = _body(weights, architecture, seen, scratch, name)
    features, dtype = dense[-1], seen.dtype
    n, rows, width = features.shape
    if weights.embedding is None or shares is None:
        product, embedded, cosine = features, None, None
    else:
        quantiles = shares.shape[2]
        cosine = cosines(shares.flatten(1), architecture.cosines)
        embedded = _layer(
            cosine, weights.embedding, scratch(f"{name} embedded", n, rows * quantiles, width, dtype=dtype)
        ).relu_()
        split = (n, rows, quantiles, width)
        product = scratch(f"{name} product", n, rows * quantiles, width, dtype=dtype)
        torch.mul(features[:, :, None], embedded.view(split), out=product.view(split))
    n, wide, _ = product.shape
    hidden = _layer(
        product, weights.hidden, scratch(f"{name} hidden", n, wide, architecture.layer, dtype=dtype)
    ).relu_()
    worth = _layer(hidden, weights.worth, scratch(f"{name} worth", n, wide, architecture.actions, dtype=dtype))
    return Pass(convolved, dense, cosine, embedded, product, hidden, worth)


def expected(
    weights: Weights, architecture: Architecture, seen: Tensor, middle: Tensor | None, scratch: Scratch, name: str
) -> Tensor:
    """What each action is worth, `[n, B, A]`; `middle [n, K, features]` are the embedded middles of equal parts.

    The mean over quantiles is taken before the last layer, which is linear.
    """
    _, dense = _body(weights, architecture, seen, scratch, name)
    features, dtype = dense[-1], seen.dtype
    n, rows, width = features.shape
    if middle is None:
        hidden = _layer(
            features, weights.hidden, scratch(f"{name} hidden", n, rows, architecture.layer, dtype=dtype)
        ).relu_()
    else:
        count = middle.shape[1]
        product = scratch(f"{name} product", n, rows * count, width, dtype=dtype)
        torch.mul(features[:, :, None], middle[:, None], out=product.view(n, rows, count, width))
        wide = scratch(f"{name} hidden", n, rows * count, architecture.layer, dtype=dtype)
        _layer(product, weights.hidden, wide).relu_()
        hidden = scratch(f"{name} mean", n, rows, architecture.layer, dtype=dtype)
        torch.mean(wide.view(n, rows, count, architecture.layer), 2, out=hidden)
    return _layer(hidden, weights.worth, scratch(f"{name} expected", n, rows, architecture.actions, dtype=dtype))


def embedded_middles(weights: Weights, architecture: Architecture) -> Tensor | None:
    """The embedded middles of equal parts of 0..1, `[n, K, features]`; they depend on nothing that is seen."""
    if weights.embedding is None:
        return None
    weight, bias = weights.embedding
    cosine = cosines(middles(architecture.quantiles).to(weight), architecture.cosines)
    return torch.baddbmm(bias[:, None], cosine.expand(len(weight), -1, -1), weight.transpose(1, 2)).relu_()


def backward(weights: Weights, found: Pass, by_worth: Tensor, gradients: Weights, scratch: Scratch) -> None:
    """From the gradient by what actions are worth `[n, B · K, A]` to those by all weights, written into `gradients`."""
    _by_layer(by_worth, found.hidden, gradients.worth)
    by_hidden = torch.bmm(
        by_worth, weights.worth[0], out=scratch("by hidden", *found.hidden.shape, dtype=by_worth.dtype)
    )
    _through_relu(by_hidden, found.hidden)
    _by_layer(by_hidden, found.product, gradients.hidden)
    by_product = torch.bmm(
        by_hidden, weights.hidden[0], out=scratch("by product", *found.product.shape, dtype=by_worth.dtype)
    )
    _body_backward(weights, found, _by_features(found, by_product, gradients, scratch), gradients, scratch)


def _by_features(found: Pass, by_product: Tensor, gradients: Weights, scratch: Scratch) -> Tensor:
    features = found.dense[-1]
    if found.embedded is None or found.cosines is None or gradients.embedding is None:
        return by_product
    n, rows, width = features.shape
    split = (n, rows, -1, width)
    by_embedded = scratch("by embedded", *by_product.shape, dtype=by_product.dtype)
    torch.mul(by_product.view(split), features[:, :, None], out=by_embedded.view(n, rows, -1, width))
    _through_relu(by_embedded, found.embedded)
    _by_layer(by_embedded, found.cosines, gradients.embedding)
    by_each = by_product.mul_(found.embedded).view(split)
    return torch.sum(by_each, 2, out=scratch("by features", n, rows, width, dtype=by_product.dtype))


def _body(
    weights: Weights, architecture: Architecture, seen: Tensor, scratch: Scratch, name: str
) -> tuple[list[Tensor], list[Tensor]]:
    n, rows = seen.shape[:2]
    convolved: list[Tensor] = []
    if weights.convolutions:
        convolved.append(seen.transpose(0, 1).flatten(1, 2))
        for weight, bias in weights.convolutions:
            convolved.append(torch.conv2d(convolved[-1], weight.flatten(0, 1), bias.flatten(), padding=1, groups=n))
            convolved[-1].relu_()
        flat = convolved[-1].reshape(rows, n, -1).transpose(0, 1).contiguous()
    else:
        flat = seen.flatten(2)
    dense = [flat]
    for i, pair in enumerate(weights.dense):
        dense.append(
            _layer(dense[-1], pair, scratch(f"{name} dense {i}", n, rows, pair[1].shape[1], dtype=seen.dtype)).relu_()
        )
    return convolved, dense


def _body_backward(weights: Weights, found: Pass, by_features: Tensor, gradients: Weights, scratch: Scratch) -> None:
    by_output = by_features
    for i in reversed(range(len(weights.dense))):
        _through_relu(by_output, found.dense[i + 1])
        _by_layer(by_output, found.dense[i], gradients.dense[i])
        if i > 0 or weights.convolutions:
            by_output = torch.bmm(
                by_output,
                weights.dense[i][0],
                out=scratch(f"by dense {i}", *found.dense[i].shape, dtype=by_features.dtype),
            )
    if weights.convolutions:
        _convolutions_backward(weights, found, by_output, gradients)


def _convolutions_backward(weights: Weights, found: Pass, by_output: Tensor, gradients: Weights) -> None:
    n, last = len(by_output), found.convolved[-1]
    by_planes = by_output.transpose(0, 1).reshape(last.shape)
    for i in reversed(range(len(weights.convolutions))):
        by_planes = torch.ops.aten.threshold_backward(by_planes, found.convolved[i + 1], 0)
        weight = weights.convolutions[i][0].flatten(0, 1)
        by_planes, by_weight, by_bias = torch.ops.aten.convolution_backward(
            by_planes, found.convolved[i], weight, [len(weight)], [1, 1], [1, 1], [1, 1], False, [0, 0], n,
            [i > 0, True, True],
        )  # fmt: skip
        target = gradients.convolutions[i]
        target[0].copy_(by_weight.view(target[0].shape))
        target[1].copy_(by_bias.view(target[1].shape))


def _layer(inputs: Tensor, pair: Pair, out: Tensor) -> Tensor:
    return torch.baddbmm(pair[1][:, None], inputs, pair[0].transpose(1, 2), out=out)


def _by_layer(by_output: Tensor, inputs: Tensor, gradients: Pair) -> None:
    torch.bmm(by_output.transpose(1, 2), inputs, out=gradients[0])
    torch.sum(by_output, 1, out=gradients[1])


def _through_relu(gradient: Tensor, output: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)


class Stack:
    """N networks of one architecture, acting as one with a copy of their weights, which `refresh` renews."""

    def __init__(self, networks: Sequence[ActionValueNetwork]) -> None:
        self.networks = tuple(networks)
        self.architecture = networks[0].architecture
        assert all(network.architecture == self.architecture for network in networks)
        self._tensors = [tensor for network in networks for tensor in network.state_dict(keep_vars=True).values()]
        self._layout = Layout.of(networks[0])
        first = next(networks[0].parameters()).detach()
        self._flat = first.new_zeros((len(networks), self._layout.size))
        self._views = self._layout.views(self._flat)
        self._scratch = Scratch(first.device)
        self._copied = -1
        self._sparse: _Sparse | None = None
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the networks' weights where any has changed since."""
        versions = sum(tensor._version for tensor in self._tensors)
        if versions == self._copied:
            return
        self._copied = versions
        for name, view in self._views.items():
            torch.stack([network.get_parameter(name).detach() for network in self.networks], out=view)
        self._weights = plain_weights(self._views, self.architecture, self._noise())
        self._middles = embedded_middles(self._weights, self.architecture)
        self._sparse = None
        self.exploration: Float32 = torch.stack([one.exploration for one in self.networks]).float().cpu().numpy()

    def _noise(self) -> dict[str, tuple[Tensor, Tensor]]:
        layers = [noisy_layers(network) for network in self.networks]
        return {
            name: (
                torch.stack([of[name].noise_in for of in layers]),
                torch.stack([of[name].noise_out for of in layers]),
            )
            for name in layers[0]
        }

    @torch.inference_mode()
    def expected(self, seen: Tensor) -> Tensor:
        """`seen [N, B, *shape]` → what each action is worth, `[N, B, A]`; valid until the next call."""
        self.refresh()
        seen = seen.to(self._flat.device)
        weights, architecture, name = self._weights, self.architecture, f"of {seen.shape[1]}"
        if not seen.is_cuda and seen.shape[1] <= FEW_ROWS and weights.dense and not weights.convolutions:
            self._sparse = self._sparse or _Sparse.of(weights, architecture)
            seen, weights, architecture = self._sparse.first(seen), self._sparse.weights, self._sparse.architecture
        return expected(weights, architecture, seen, self._middles, self._scratch, name)


class FirstLayer:
    """The first fully connected layer for few rows, each mostly zeros: it reads the weights of the other inputs alone.

    What agents see is one number in each cell that is not 0. To read all weights for one row takes longer than all
    that follows, as soon as those of many networks do not fit into a cache. Each row is summed up by itself.
    """

    def __init__(self, pair: Pair) -> None:
        weight, bias = pair
        self._rows = weight.transpose(1, 2).flatten(0, 1)  # [n · inputs, outputs], a copy
        self._bias = bias[:, None]

    def __call__(self, seen: Tensor) -> Tensor:
        """`seen [n, B, …]` → `[n, B, outputs]`, after the rectifier."""
        n, rows = seen.shape[:2]
        flat = seen.numpy().reshape(n * rows, -1)
        row, column = flat.nonzero()
        starts = row.searchsorted(np.arange(n * rows))
        place = column + row // rows * flat.shape[1]
        summed = torch.embedding_bag(
            self._rows,
            torch.from_numpy(place),
            torch.from_numpy(starts),
            per_sample_weights=torch.from_numpy(flat[row, column]),
        )[0]
        return summed.view(n, rows, -1).add_(self._bias).relu_()


@dataclass(frozen=True)
class _Sparse:
    """Networks whose first layer is computed by itself."""

    first: FirstLayer
    weights: Weights  # of the others
    architecture: Architecture

    @classmethod
    def of(cls, weights: Weights, architecture: Architecture) -> _Sparse:
        first = architecture.widths[0]
        others = replace(architecture, shape=(first,), widths=architecture.widths[1:])
        return cls(FirstLayer(weights.dense[0]), replace(weights, dense=weights.dense[1:]), others)
