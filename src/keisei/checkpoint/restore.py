"""Tensors back into the networks and optimisers that they came from, bit for bit. Knows no file.

Everything is checked before anything is changed: a CheckpointError leaves the target as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer  # AdamW is an Adam

from keisei.checkpoint.text import JSON, quoted
from keisei.errors import CheckpointError

Named = Iterable[tuple[str, nn.Parameter]]
"""Parameters with their names: `module.named_parameters()`."""

_REQUIRED: dict[type[Optimizer], frozenset[str]] = {
    Adam: frozenset({"step", "exp_avg", "exp_avg_sq"}),
    SGD: frozenset({"momentum_buffer"}),
}
"""What an optimiser keeps for each parameter that it has moved."""
_ALLOWED = {Adam: frozenset({"max_exp_avg_sq"}), SGD: frozenset[str]()}
_NO_SETTINGS = ("params", "param_names", "foreach", "fused", "capturable", "differentiable")
"""Keys of a group that say how the optimiser computes, not what, or that are saved otherwise: they stay as built."""


def restore(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into a module's parameters and buffers, whose device and memory layout stay as they are.

    Raises CheckpointError naming the first tensor that is missing, unexpected, or of another shape or dtype.
    """
    targets: dict[str, Tensor] = module.state_dict()
    _compare_names(targets.keys(), tensors.keys(), "the network")
    for name, target in targets.items():
        _compare(name, target, tensors[name])
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(tensors[name])


def optimizer_tensors(optimizer: Optimizer, named: Named) -> dict[str, Tensor]:
    """The state of Adam, AdamW or SGD as tensors called `conv.weight.exp_avg`; they share the optimiser's memory."""
    names = _names(optimizer, named)
    tensors = {}
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"{names[parameter]}.{key}"] = value
            elif value is not None:
                raise CheckpointError(f"state {key} of {names[parameter]} is no tensor: {type(value).__name__}")
    return tensors


def optimizer_facts(optimizer: Optimizer, named: Named) -> dict[str, JSON]:
    """What else the optimiser is: its kind, and each group's settings with the names of its parameters."""
    names = _names(optimizer, named)
    groups: list[JSON] = []
    for group in optimizer.param_groups:
        settings = {key: _plain(value) for key, value in group.items() if key not in _NO_SETTINGS}
        groups.append({**settings, "parameters": [names[parameter] for parameter in group["params"]]})
    return {"kind": type(optimizer).__name__, "groups": groups}


def restore_optimizer(
    optimizer: Optimizer, named: Named, tensors: Mapping[str, Tensor], facts: Mapping[str, JSON]
) -> None:
    """Bring an optimiser of the same kind over the same parameters to the state that `optimizer_tensors` and
    `optimizer_facts` told; raises CheckpointError where they are another optimiser's."""
    names = _names(optimizer, named)
    settings = _settings(optimizer, names, facts)
    states = _states(optimizer, {name: parameter for parameter, name in names.items()}, tensors)
    for group, group_settings in zip(optimizer.param_groups, settings, strict=True):
        for key, value in group_settings.items():
            if isinstance(group[key], Tensor):
                group[key].fill_(value)
            else:
                group[key] = value
    optimizer.state.clear()
    optimizer.state.update(states)


def _names(optimizer: Optimizer, named: Named) -> dict[Tensor, str]:
    """The name of each parameter that the optimiser moves."""
    known: dict[Tensor, str] = {parameter: name for name, parameter in named}
    moved: list[Tensor] = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if nameless := [parameter for parameter in moved if parameter not in known]:
        raise CheckpointError(f"{len(nameless)} parameters of the optimizer are none of the network's")
    _kind(optimizer)
    return {parameter: known[parameter] for parameter in moved}


def _kind(optimizer: Optimizer) -> type[Optimizer]:
    for kind in _REQUIRED:
        if isinstance(optimizer, kind):
            return kind
    raise CheckpointError(f"the state of {type(optimizer).__name__} cannot be saved, only that of Adam, AdamW and SGD")


def _plain(value: object) -> JSON:
    """A setting as JSON: tuples become lists, tensors numbers."""
    if isinstance(value, Tensor):
        return float(value.item())
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CheckpointError(f"a setting of the optimizer cannot be saved: {quoted(value)}")


def _settings(optimizer: Optimizer, names: Mapping[Tensor, str], facts: Mapping[str, JSON]) -> list[dict[str, object]]:
    """The saved settings of each group, in the types that the optimiser has them in."""
    kind, groups = facts.get("kind"), facts.get("groups")
    if kind != type(optimizer).__name__:
        raise CheckpointError(f"the optimizer is {type(optimizer).__name__}, the saved one was {quoted(kind)}")
    if not isinstance(groups, list) or len(groups) != len(optimizer.param_groups):
        raise CheckpointError(
            f"the optimizer has {len(optimizer.param_groups)} groups of parameters, the saved one not"
        )
    settings = []
    for number, (group, saved) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        parameters = [names[parameter] for parameter in group["params"]]
        if not isinstance(saved, Mapping) or saved.get("parameters") != parameters:
            raise CheckpointError(f"group {number} of the optimizer had other parameters when it was saved")
        present = {key: value for key, value in group.items() if key not in _NO_SETTINGS}
        _compare_names(present.keys(), saved.keys() - {"parameters"}, f"group {number} of the optimizer")
        settings.append({key: _typed(key, value, saved[key]) for key, value in present.items()})
    return settings


def _typed(key: str, present: object, saved: JSON) -> object:
    if isinstance(present, tuple) and isinstance(saved, list) and len(saved) == len(present):
        return tuple(_typed(key, one, other) for one, other in zip(present, saved, strict=True))
    if type(present) is type(saved) or (_is_number(present) and _is_number(saved)):
        return saved
    raise CheckpointError(f"the optimizer's setting {key} cannot be {quoted(saved)}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Tensor)) and not isinstance(value, bool)


def _states(
    optimizer: Optimizer, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> dict[Tensor, dict[str, Tensor]]:
    """The saved state of each parameter, on its device and in its memory layout."""
    kind = _kind(optimizer)
    saved: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        parameter, _, key = name.rpartition(".")
        if parameter not in parameters or key not in _REQUIRED[kind] | _ALLOWED[kind]:
            raise CheckpointError(f"tensor {quoted(name)} belongs to no parameter of the optimizer")
        saved.setdefault(parameter, {})[key] = tensor
    groups = {parameter: group for group in optimizer.param_groups for parameter in group["params"]}
    states = {}
    for owner, state in saved.items():
        if missing := _REQUIRED[kind] - state.keys():
            raise CheckpointError(f"tensor {owner}.{min(missing)} of the optimizer is missing")
        moved = parameters[owner]
        states[moved] = {key: _placed(f"{owner}.{key}", value, moved, groups[moved]) for key, value in state.items()}
    return states


def _placed(name: str, value: Tensor, parameter: Tensor, group: Mapping[str, object]) -> Tensor:
    if name.endswith(".step"):
        on_device = group.get("capturable") or group.get("fused")
        target = torch.empty((), dtype=torch.float32, device=parameter.device if on_device else "cpu")
    else:
        target = torch.empty_like(parameter, requires_grad=False)
    _compare(name, target, value)
    return target.copy_(value)


def _compare_names(expected: Iterable[str], found: Iterable[str], owner: str) -> None:
    expected, found = set(expected), set(found)
    if missing := expected - found:
        raise CheckpointError(f"{quoted(min(missing))} of {owner} is missing ({len(missing)} in all)")
    if unexpected := found - expected:
        raise CheckpointError(f"{owner} has no {quoted(min(unexpected))} ({len(unexpected)} in all)")


def _compare(name: str, expected: Tensor, found: Tensor) -> None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise CheckpointError(
            f"tensor {name} is {found.dtype} {list(found.shape)}, expected {expected.dtype} {list(expected.shape)}"
        )
