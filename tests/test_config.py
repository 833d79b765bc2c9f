"""Configuration: YAML, overrides, and errors of one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field, ValidationError, model_validator

from keisei.config import ShogiEnvironmentConfig, load_run
from keisei.config import ShogiRun as Config
from keisei.errors import ConfigError
from keisei.sections import Section, check, load

CONFIGS = Path(__file__).parent.parent / "configs"


class Seat(Section):
    """A section inside a list."""

    window: int = Field(default=5, ge=1)


class Learner(Section):
    """A section with what Shogi's does not have: floats, flags, nothing, a check of its own."""

    learning_rate: float = Field(default=1e-3, gt=0)
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    clip: bool = True
    warm_up: int | None = Field(default=None, ge=1)
    path: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Learner:
        if self.path == "nowhere":
            raise ValueError("there is no such path as 'nowhere'")
        return self


class Run(Section):
    """A whole run made of them."""

    learner: Learner = Learner()
    agents: Annotated[tuple[Seat, ...], Field(strict=False)] = ()


def load_text(tmp_path: Path, text: str, *overrides: str) -> Run:
    file = tmp_path / "run.yaml"
    file.write_text(text, encoding="utf-8")
    return load(Run, file, overrides)


def message(tmp_path: Path, text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_text(tmp_path, text, *overrides)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_without_a_file_everything_has_its_default() -> None:
    assert load(Config) == Config()
    assert load(Config).environment.openings == ("startpos",)


@pytest.mark.parametrize("text", ["", "learner:\n", "# nothing\n---\n", "learner: {}"])
def test_what_is_left_out_has_its_default(tmp_path: Path, text: str) -> None:
    assert load_text(tmp_path, text) == Run()


def test_file_and_overrides_are_read(tmp_path: Path) -> None:
    run = load_text(
        tmp_path,
        "learner:\n  learning_rate: 1e-4\n  clip: false\nagents:\n- window: 7\n- {}\n",
        "learner.momentum=.5",
        "learner.path=a=b",
        "agents.1.window=9",
    )
    assert run.learner == Learner(learning_rate=1e-4, clip=False, momentum=0.5, path="a=b")
    assert [agent.window for agent in run.agents] == [7, 9]


def test_the_last_override_of_a_key_wins(tmp_path: Path) -> None:
    assert load_text(tmp_path, "", "learner.momentum=0.1", "learner.momentum=0.2").learner.momentum == 0.2


@pytest.mark.parametrize("text", ["1e-4", "0.0001", "1.0E-4", "+.0001", "1_0e-5"])
def test_numbers_are_written_as_people_write_them(tmp_path: Path, text: str) -> None:
    assert load_text(tmp_path, f"learner:\n  learning_rate: {text}").learner.learning_rate == 1e-4


@pytest.mark.parametrize("text", ["on", "no", "2026-01-01", "010", "1:30", "0x10"])
def test_text_stays_text(tmp_path: Path, text: str) -> None:
    assert load_text(tmp_path, "", f"learner.path={text}").learner.path == text


def test_sections_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Config().run.seed = 3  # type: ignore[misc]


def test_unknown_key_names_the_nearest_known_one(tmp_path: Path) -> None:
    said = message(tmp_path, "learner:\n  learing_rate: 1\n")
    assert said == "unknown key 'learner.learing_rate' in run.yaml (did you mean 'learning_rate'?)"
    said = message(tmp_path, "", "lerner.learning_rate=1")
    assert said == "unknown key 'lerner' on the command line (did you mean 'learner'?)"
    said = message(tmp_path, "agents:\n- windo: 1\n")
    assert said == "unknown key 'agents.0.windo' in run.yaml (did you mean 'window'?)"


def test_unknown_key_that_resembles_nothing_lists_the_known_ones(tmp_path: Path) -> None:
    assert message(tmp_path, "xyz: 1") == "unknown key 'xyz' in run.yaml (known are learner, agents)"


def test_unknown_key_is_said_before_other_errors(tmp_path: Path) -> None:
    said = message(tmp_path, "learner: {momentum: 2, momentun: 0}")
    assert said == "unknown key 'learner.momentun' in run.yaml (did you mean 'momentum'?) (and 1 more)"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("learner.learning_rate=0", "'learner.learning_rate' on the command line must be a number above 0, not 0"),
        ("learner.momentum=1", "'learner.momentum' on the command line must be a number of at least 0 below 1, not 1"),
        (
            "learner.momentum=x",
            "'learner.momentum' on the command line must be a number of at least 0 below 1, not 'x'",
        ),
        ("learner.clip=on", "'learner.clip' on the command line must be true or false, not 'on'"),
        ("learner.warm_up=0", "'learner.warm_up' on the command line must be a whole number of at least 1, not 0"),
        ("learner.warm_up=1.0", "'learner.warm_up' on the command line must be a whole number of at least 1, not 1.0"),
        ("learner.path=3", "'learner.path' on the command line must be text, not 3"),
        ("learner=3", "'learner' on the command line must be a section of keys, not 3"),
        ("learner.path=nowhere", "'learner' on the command line: there is no such path as 'nowhere'"),
        ("agents=3", "'agents' on the command line must be a list, not 3"),
        ("agents=[3]", "'agents.0' on the command line must be a section of keys, not 3"),
        ("agents.0.window=3", "'agents' on the command line must be a list, not {'0': {'window': 3}}"),
        ("run.x.0.y=[3]", "unknown key 'run' on the command line (known are learner, agents)"),
        ("learner.path.x=3", "'learner.path' on the command line must be text, not {'x': 3}"),
        ("learner", "expected key=value, such as environment.copies=8, got 'learner' on the command line"),
        ("=3", "expected key=value, such as environment.copies=8, got '=3' on the command line"),
        (
            "learner..path=3",
            "expected key=value, such as environment.copies=8, got 'learner..path=3' on the command line",
        ),
    ],
)
def test_wrong_override_says_what_is_allowed(tmp_path: Path, override: str, expected: str) -> None:
    assert message(tmp_path, "", override) == expected


def test_override_of_an_item_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = message(tmp_path, "agents: [{}]", "agents.1.window=3")
    assert said == "there is no place for '1' of 'agents.1.window=3' on the command line"
    said = message(tmp_path, "learner: 3", "learner.clip=true")
    assert said == "there is no place for 'clip' of 'learner.clip=true' on the command line"


def test_error_says_whether_file_or_command_line_is_to_blame(tmp_path: Path) -> None:
    assert "in run.yaml" in message(tmp_path, "learner: {momentum: 2}", "learner.clip=true")
    assert "on the command line" in message(tmp_path, "learner: {momentum: 0}", "learner.momentum=2")
    assert "on the command line" in message(tmp_path, "", "learner={momentum: 2}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learner: [", "run.yaml line 1"),
        ("learner:\n  clip: true\n  clip: false\n", "key 'clip' is written twice in run.yaml line 3"),
        ("3: 4", "a key is not a word in run.yaml line 1"),
        ("? [1]\n: 4", "a key is not a word in run.yaml line 1"),
        ("- 3", "expected sections such as 'environment:', got [3] in run.yaml"),
        ("learner: !!python/name:os.system", "could not determine a constructor"),
        ("a: 1\n---\nb: 2", "run.yaml line 2"),
        ("a: \x00", "special characters are not allowed in run.yaml"),
        ("learner: *nothing", "found undefined alias"),
    ],
)
def test_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in message(tmp_path, text)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*absent.yaml: No such file"):
        load(Run, tmp_path / "absent.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*bytes.yaml: it is not UTF-8 text"):
        load(Run, tmp_path / "bytes.yaml")


def test_values_of_one_section_are_checked() -> None:
    assert check(ShogiEnvironmentConfig, {"copies": 8, "openings": ["startpos"]}, "here").copies == 8
    with pytest.raises(ConfigError, match=r"unknown key 'copys' in keisei.make\('shogi'\) \(did you mean 'copies'\?\)"):
        check(ShogiEnvironmentConfig, {"copys": 8}, "in keisei.make('shogi')")
    with pytest.raises(ConfigError, match=r"'move_limit' here must be a whole number from 1 to 65535, not 65536"):
        check(ShogiEnvironmentConfig, {"move_limit": 65536}, "here")


@pytest.mark.parametrize(("given", "rule"), [("27", "27"), (27, "27"), (24, "24"), ("none", "none")])
def test_declaration_rule_may_be_written_as_a_number(given: object, rule: str) -> None:
    assert check(ShogiEnvironmentConfig, {"declaration": given}, "here").declaration == rule


@pytest.mark.parametrize("given", [28, True, "NONE", None, 27.0])
def test_other_declaration_rules_are_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="'declaration' here must be one of 27, 24, none"):
        check(ShogiEnvironmentConfig, {"declaration": given}, "here")


def test_random_plies_leave_something_to_play() -> None:
    with pytest.raises(ConfigError, match=r"^here: random_plies \(9\) must be less than move_limit \(9\)$"):
        check(ShogiEnvironmentConfig, {"random_plies": 9, "move_limit": 9}, "here")
    with pytest.raises(ConfigError, match=r"^'environment' on the command line: random_plies \(600\) must be less"):
        load(Config, None, ["environment.random_plies=600"])


def test_a_position_may_stand_on_the_command_line() -> None:
    sfen = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
    run = load(Config, None, [f"environment.openings=[startpos, {sfen}]"])
    assert run.environment.openings == ("startpos", sfen)


def test_no_openings_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="'openings' here must be a list that is not empty"):
        check(ShogiEnvironmentConfig, {"openings": []}, "here")


@pytest.mark.parametrize(
    "section", [Config, *(type(value) for value in dict(Config()).values() if isinstance(value, Section))]
)
def test_every_key_says_what_it_means(section: type[Section]) -> None:
    if section is not Config:
        assert [name for name, field in section.model_fields.items() if not field.description] == []
    assert section.__doc__


def test_every_run_that_is_handed_out_loads_as_it_stands() -> None:
    loaded = {path.stem: load_run(path) for path in CONFIGS.glob("*.yaml")}
    worlds = {name.replace("-", "_") for name in loaded if not name.startswith(("shogi", "smoke"))}
    assert {run.environment.name for run in loaded.values()} == {"shogi"} | worlds
