"""The reference of the configuration, `docs/configuration.md`, from the models themselves: `make docs` writes it."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from keisei.config import (
    FREE_TO_CHANGE,
    Config,
    GymnasiumGameConfig,
    ParallelConfig,
    PettingZooGameConfig,
    PythonGameConfig,
    ShogiConfig,
    WorldsParallelConfig,
)
from keisei.config_agents import AgentsConfig
from keisei.config_learner import DQNConfig, IQNConfig, PPOConfig
from keisei.config_worlds import GridworldConfig, SeatsViewConfig
from keisei.sections import Section, allowed

_INTRODUCTION = """# Configuration

One YAML file is a whole run; `key=value` on the command line changes single keys, such as
`keisei train configs/shogi.yaml learner.learning_rate=1e-4`. Unknown keys and values out of range are refused before
anything starts. What is left out has its default. The resolved configuration lies in the run's folder and beside every
checkpoint.

`keisei resume RUN [key=value …]` takes the keys that change no bit of the weights: {free}.
"""


_GAMES: tuple[type[Section], ...] = (
    ShogiConfig,
    PythonGameConfig,
    GymnasiumGameConfig,
    PettingZooGameConfig,
    GridworldConfig,
)


def sections() -> list[tuple[str, type[Section]]]:
    """The sections of a run with their names; all kinds of game share one name, and all kinds of learner."""
    games: list[tuple[str, type[Section]]] = [("environment", game) for game in _GAMES]
    games.append(("environment.views", SeatsViewConfig))
    found: list[tuple[str, type[Section]]] = []
    for name, field in Config.model_fields.items():
        if name == "environment":
            found += games
        elif name == "learner":
            found += [("learner", learner) for learner in (PPOConfig, DQNConfig, IQNConfig)]
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            found.append((name, field.annotation))
    of_worlds: list[tuple[str, type[Section]]] = [("parallel", WorldsParallelConfig), ("agents", AgentsConfig)]
    return found + of_worlds


def reference() -> str:
    """The whole page."""
    free = ", ".join(f"`{key}`" for key in FREE_TO_CHANGE)
    return "\n".join([_INTRODUCTION.format(free=free), *(_section(name, section) for name, section in sections())])


def _section(name: str, section: type[Section]) -> str:
    known = ParallelConfig.model_fields if section is WorldsParallelConfig else {}
    rows = [
        _row(field.alias or key, field)
        for key, field in section.model_fields.items()
        if key not in known or known[key].default != field.default
    ]
    head = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    return "\n".join([f"## `{name}`", "", f"{(section.__doc__ or '').strip()}", "", *head, *rows, ""])


def _row(key: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    shown = "–" if default is PydanticUndefined else f"`{default}`"
    meaning = " ".join((field.description or "").split())  # a row is one line
    return f"| `{key}` | {shown} | {allowed(field)} | {meaning} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
