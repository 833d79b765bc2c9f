"""The configuration of the device that acts and learns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from keisei.sections import Section

Auto = Literal["auto"]


class DeviceConfig(Section):
    """Where networks are computed. What is `auto` is chosen before the first step and written into the run's config."""

    kind: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """`cpu`, `cuda`, `cuda:1`, …; `auto`: a GPU if there is one."""
    pipelined: bool | Auto = "auto"
    """Groups of blocks take turns: one is computed while native threads step another; `auto`: on a GPU."""
    groups: Annotated[int, Field(ge=1, le=64)] | Auto = "auto"
    """With `pipelined`: so many fixed sets of blocks; `auto` measures."""
    threads: Annotated[int, Field(ge=1, le=1024)] | Auto = "auto"
    """With `pipelined`: native threads that step a group; `auto`: all processors, shared by the groups."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """Of the network's body; heads, log-probabilities, values and losses are float32. `auto`: bf16 on a GPU."""
    compile: bool | Auto = "auto"
    """Compile acting and learning, and replay acting as a CUDA graph; `auto`: on a GPU. Plain steps agree but for
    rounding."""
    deterministic: bool = False
    """Only operations that round alike each time. A CPU always does; a GPU then learns more slowly."""
    micro_batch: Annotated[int, Field(ge=1)] | Auto = "auto"
    """With `pipelined`: so many steps of a minibatch are computed at once; `auto`: all of them."""
