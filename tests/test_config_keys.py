"""Every key of the configuration is read somewhere, and the reference in docs/ says what all of them mean."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from keisei.config import (
    Config,
    GymnasiumGameConfig,
    PettingZooGameConfig,
    PythonGameConfig,
    ShogiConfig,
    WorldsParallelConfig,
)
from keisei.config_agents import AgentsConfig
from keisei.config_learner import DQNConfig, IQNConfig, PPOConfig
from keisei.config_reference import reference, sections
from keisei.config_worlds import GridworldConfig, SeatsViewConfig
from keisei.sections import Section
from keisei.shogi import ShogiEnvironment

ROOT = Path(__file__).parent.parent
READERS = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("build", "cli")
    for path in sorted((ROOT / "src" / "keisei" / folder).glob("*.py"))
)


def is_read(key: str) -> bool:
    return re.search(rf"\.{key}\b", READERS) is not None


KEYS = [(name, key) for name, section in sections() if section is not ShogiConfig for key in section.model_fields]


@pytest.mark.parametrize(("section", "key"), [pair for pair in KEYS if pair[1] != "name"])
def test_key_is_read_where_parts_are_built(section: str, key: str) -> None:
    assert is_read(key), f"nothing reads {section}.{key}"


def test_key_that_nobody_reads_is_noticed() -> None:
    assert not is_read("learing_rate")


def test_every_key_of_shogi_is_a_keyword_of_its_environment() -> None:
    keywords = inspect.signature(ShogiEnvironment).parameters.keys()
    assert ShogiConfig.model_fields.keys() - {"name"} <= keywords


def test_reference_is_up_to_date() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == reference(), "run `make docs`"


def test_reference_names_every_section() -> None:
    games: set[type[Section]] = {
        ShogiConfig,
        PythonGameConfig,
        GymnasiumGameConfig,
        PettingZooGameConfig,
        GridworldConfig,
    }
    expected = {*games, SeatsViewConfig, PPOConfig, DQNConfig, IQNConfig, WorldsParallelConfig, AgentsConfig}
    fields = [field.annotation for field in Config.model_fields.values()]
    expected |= {kind for kind in fields if isinstance(kind, type) and issubclass(kind, Section)}
    assert {section for _, section in sections()} == expected
