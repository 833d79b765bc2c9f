"""The configuration of a whole run: one typed section per component, and what each key means.

How a section is read and how errors are worded is in `sections.py`; which part a section builds is in `build.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, Strict, model_validator

from keisei.config_agents import AgentsConfig
from keisei.config_device import DeviceConfig
from keisei.config_learner import LearnerConfig, Number, PPOConfig
from keisei.config_network import NetworkConfig
from keisei.config_worlds import WORLDS, GridworldConfig, ViewConfig
from keisei.errors import ConfigError
from keisei.sections import Section, check, load, read_values

Words = Annotated[tuple[str, ...], Strict(False)]


def _as_text(value: object) -> object:
    """A number as its text: YAML reads 27 as a number, and the rule is a name."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class RunConfig(Section):
    """The run as a whole."""

    seed: int = Field(default=0, ge=0, le=2**64 - 1)
    """What all random choices of the run are drawn from."""
    total_steps: int = Field(default=1_000_000, ge=1)
    """The budget, in steps of lanes (for Shogi: plies); the run ends with the iteration that reaches it."""
    checkpoint_interval: int = Field(default=50, ge=1)
    """A checkpoint every so many iterations; one is always written at the end."""
    keep_checkpoints: int = Field(default=5, ge=1)
    """So many of the newest checkpoints are kept."""


class ShogiConfig(Section):
    """Shogi, many games at once."""

    name: Literal["shogi"] = "shogi"
    """Which game is played."""
    observation: Literal["packed", "uint8", "float32"] = "packed"
    """How a position is written: 99 packed bytes, or 46 planes of 9×9 in that type."""
    legal: Literal["list", "mask", "bits"] = "list"
    """How the legal moves are written: 16-bit numbers with offsets, a byte or a bit per action."""
    declaration: Annotated[Literal["27", "24", "none"], BeforeValidator(_as_text)] = "27"
    """Which rule a king in the enemy's camp may declare by."""
    move_limit: int = Field(default=512, ge=1, le=65535)
    """A game is cut off after so many plies."""
    openings: Annotated[Words, Field(min_length=1)] = ("startpos",)
    """Where games begin: SFENs, `startpos`, or names of handicaps."""
    random_plies: int = Field(default=0, ge=0, le=65534)
    """Up to so many random legal moves are played before the first decision; fewer than the move limit."""
    random_share: Number = Field(default=1.0, ge=0, le=1)
    """The share of games that begin with them, of those that begin from an opening."""
    remembered_share: Number = Field(default=0.0, ge=0, le=1)
    """The share of games that begin in the middle of an earlier game, which was played from an opening in that lane."""
    remembered_positions: int = Field(default=16, ge=1, le=1024)
    """Each lane remembers one position, drawn at random, of so many of its last games; kept with the lane's state."""
    copies: int = Field(default=256, ge=1, le=2**24)
    """How many games are played at once."""
    threads: int = Field(default=1, ge=1, le=1024)
    """How many native threads step the games; changes no bit of what they do."""

    @model_validator(mode="after")
    def _leaves_plies_to_play(self) -> Self:
        if self.random_plies >= self.move_limit:
            raise ValueError(f"random_plies ({self.random_plies}) must be less than move_limit ({self.move_limit})")
        return self


class ShogiEnvironmentConfig(ShogiConfig):
    """The keyword arguments of `keisei.make("shogi", …)`: an environment that stands alone."""

    observation: Literal["packed", "uint8", "float32"] = "uint8"
    """How a position is written: 99 packed bytes, or 46 planes of 9×9 in that type."""
    copies: int = Field(default=1, ge=1, le=2**24)
    """How many games are played at once."""
    seed: int = Field(default=0, ge=0, le=2**64 - 1)
    """What all random choices of the environment are drawn from."""
    first_lane: int = Field(default=0, ge=0, le=2**63)
    """The number of the first game among all games of the run; its random stream depends on it."""


class PythonGameConfig(Section):
    """A game of your own: a class with the `Environment` contract in a Python file."""

    name: Literal["python"]
    """Which game is played."""
    path: str
    """The file, from the folder in which the command runs."""
    cls: str = Field(alias="class")
    """The class; it is called with `copies`, `seed`, `first_lane` and the options."""
    options: dict[str, object] = Field(default_factory=dict)
    """Further keyword arguments of the class."""
    copies: int = Field(default=256, ge=1, le=2**24)
    """How many games are played at once."""


class GymnasiumGameConfig(Section):
    """Any Gymnasium environment with discrete actions."""

    name: Literal["gymnasium"]
    """Which game is played."""
    id: str
    """Its name in Gymnasium's registry, such as `CartPole-v1`; or `module:name` of a class, or of what makes one."""
    options: dict[str, object] = Field(default_factory=dict)
    """Further keyword arguments of `gymnasium.make`, or of the class."""
    copies: int = Field(default=16, ge=1, le=2**24)
    """How many games are played at once."""


class PettingZooGameConfig(Section):
    """Any PettingZoo environment with discrete actions, of which all agents see and do the same kind of thing."""

    name: Literal["pettingzoo"]
    """Which game is played."""
    id: str
    """Its name in PettingZoo's registry, such as `classic/connect_four_v3`; its module; or `module:name`."""
    api: Literal["auto", "aec", "parallel"] = "auto"
    """Its interface: one agent after the other, or all at once; `auto` prefers all at once where there are both."""
    lanes: Literal["auto", "game", "seat"] = "auto"
    """`game`: two seats take turns in a lane, one gains what the other loses; `seat`: a lane each; `auto`: by seats."""
    learners: Literal["one", "each"] = "one"
    """`one` network plays all seats; `each`: every agent has a lane, a network, a learner and a memory of its own."""
    options: dict[str, object] = Field(default_factory=dict)
    """Further keyword arguments of what makes it."""
    copies: int = Field(default=16, ge=1, le=2**24)
    """How many games are played at once."""


class ParallelConfig(Section):
    """How experience is collected, and by how many processes."""

    enabled: bool = True
    """Worker processes play the blocks; false: the same blocks are played in this process, where a breakpoint works."""
    num_workers: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    """How many; `auto` measures, and may choose to stay in this process."""
    block_size: int = Field(default=32, ge=1)
    """Copies per block, the unit of parallel work."""
    rollout_length: int = Field(default=64, ge=1)
    """Steps per rollout."""
    episodes_per_worker: int | None = Field(default=None, ge=1)
    """Instead of `rollout_length`: every copy of a block plays exactly so many games for a rollout."""
    inference: Literal["worker", "learner"] = "worker"
    """Who acts: each worker for its own block, or this process for all blocks in one batch, which workers only step."""
    model_sync_interval: int = Field(default=1, ge=1)
    """Publish weights every so many iterations."""
    async_learning: bool = False
    """Learn while collecting, with a fixed lag."""
    max_lag: int = Field(default=1, ge=1, le=100)
    """With `async_learning`: each rollout is collected with the weights of so many iterations before."""
    queue_maxsize: int = Field(default=100, ge=1)
    """How many finished rollouts of blocks may wait before collection pauses; one whole rollout always may."""
    worker_timeout: Number = Field(default=30.0, gt=0)
    """After so many seconds without a sign of life a worker counts as hung."""
    max_restarts: int = Field(default=10, ge=0)
    """So many workers are replaced in a run."""
    on_failure: Literal["serial", "stop"] = "serial"
    """When they are used up: go on in this process, or stop with a checkpoint."""
    use_shared_memory: bool = True
    """Rollouts lie in shared memory; false: they travel through pipes, for systems without `memfd`."""
    compression: Literal["none", "fp16", "bf16"] = "none"
    """How weights are rounded when they are published; every collector acts with them as rounded."""
    v_trace: bool = False
    """Believe what older weights have made as far as the present ones would choose the same (V-trace)."""
    use_threads: bool = True
    """With `async_learning`: where no workers do, a thread of the learner's process collects; false: the learner has a
    process of its own, beside at least one worker."""
    learner_threads: int = Field(default=1, ge=1, le=1024)
    """Torch threads of the learner."""

    @model_validator(mode="after")
    def _has_somebody_to_collect(self) -> Self:
        if self.async_learning and not self.enabled and not self.use_threads:
            raise ValueError("without workers a thread collects ahead: set use_threads or enabled to true")
        if self.async_learning and self.inference == "learner" and not self.use_threads:
            raise ValueError("inference 'learner' acts in the learner's process, which use_threads: false keeps free")
        return self


Chunk = Annotated[int, Field(ge=1, le=128)]


class WorldsParallelConfig(ParallelConfig):
    """How a society of agents lives and learns, beside what there is for every game."""

    episodes_per_worker: int | None = Field(default=1, ge=1)
    """An epoch is so many episodes of every world; null: it is `rollout_length` steps."""
    train_interval: int = Field(default=1, ge=1, le=10_000)
    """Train every so many epochs, from all that was lived in them: together they are one iteration."""
    parallel_actions: Literal["auto", "looped", "stacked"] = "auto"
    """Act for one agent after the other, or for all that are alike in one call; `auto` measures before the first step,
    and the resolved configuration says what was chosen."""
    parallel_training: Literal["auto", "looped", "stacked", "threads"] | Chunk = "auto"
    """Train one agent after the other, all that are alike at once, so many of them at once, or over `learner_threads`
    threads; `auto` measures before the first step, and the resolved configuration says what was chosen."""
    measured: Words = ()
    """Written by the run itself into its resolved configuration: which of these two keys were `auto`."""


class OpponentsConfig(Section):
    """Frozen opponents in training: past networks that play one seat."""

    checkpoints: Words = ()
    """Folders of checkpoints to play against."""
    share: Number = Field(default=0.5, ge=0, le=1)
    """The share of blocks that play against one of them, drawn anew for each rollout."""
    past_selves: int = Field(default=0, ge=0, le=1000)
    """So many earlier versions of the run's own network are kept to play against; 0: none."""
    past_interval: int = Field(default=20, ge=1)
    """A new one every so many iterations; the oldest one goes."""
    past_share: Number = Field(default=0.5, ge=0, le=1)
    """The share of the other blocks that play against one of them: it has one seat of each game, by turns."""


class EvaluationConfig(Section):
    """Matches during training."""

    interval: int = Field(default=100, ge=0)
    """Every so many iterations; 0: only at the end."""
    games: int = Field(default=100, ge=0)
    """Games per match; 0: no matches."""
    final_games: int = Field(default=200, ge=0)
    """Games per match at the end of the run; 0: no matches."""
    against: Annotated[tuple[Literal["random", "greedy", "past"], ...], Strict(False)] = ("random", "past")
    """Who is played: random moves, greed (takes what is worth most), and the oldest checkpoint that the run has."""
    opening_plies: int = Field(default=8, ge=0)
    """Each opening is up to so many random moves; each is played with both colours."""
    play: Literal["sample", "greedy"] = "sample"
    """How the network chooses its moves."""


class Config(Section):
    """A whole run: what one YAML file says."""

    run: RunConfig = RunConfig()
    environment: ShogiConfig | PythonGameConfig | GymnasiumGameConfig | PettingZooGameConfig | GridworldConfig
    network: NetworkConfig = NetworkConfig()
    learner: LearnerConfig = PPOConfig()
    parallel: ParallelConfig = ParallelConfig()
    opponents: OpponentsConfig = OpponentsConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    device: DeviceConfig = DeviceConfig()

    @model_validator(mode="before")
    @classmethod
    def _has_no_society(cls, values: object) -> object:
        """Keys of societies say what they are for; where there is one learner, they are not just unknown."""
        if isinstance(values, dict) and not issubclass(cls, SocietyRun):
            parallel = values.get("parallel")
            for key in _OF_SOCIETIES & (parallel.keys() if isinstance(parallel, dict) else set()):
                raise ValueError(f"parallel.{key} is for societies: in this game one learner plays all seats")
            if "agents" in values:
                raise ValueError("agents is for societies: in this game one learner plays all seats")
        return values

    @model_validator(mode="after")
    def _learner_fits(self) -> Self:
        if self.parallel.v_trace and self.learner.kind != "ppo":
            raise ValueError(f"parallel.v_trace is for learner ppo, not for '{self.learner.kind}'")
        return self

    @model_validator(mode="after")
    def _blocks_fit(self) -> Self:
        copies, size = self.environment.copies, self.parallel.block_size
        if copies % size:
            raise ValueError(f"environment.copies ({copies}) must be a multiple of parallel.block_size ({size})")
        return self


class ShogiRun(Config):
    """A run of Shogi."""

    environment: ShogiConfig = ShogiConfig()


class PythonGameRun(Config):
    """A run of a game of one's own."""

    environment: PythonGameConfig


class GymnasiumRun(Config):
    """A run of a Gymnasium environment."""

    environment: GymnasiumGameConfig


class PettingZooRun(Config):
    """A run of a PettingZoo environment."""

    environment: PettingZooGameConfig


class SocietyRun(Config):
    """A run in which every agent learns for itself."""

    agents: Annotated[tuple[AgentsConfig, ...], Strict(False)] = ()
    parallel: WorldsParallelConfig = WorldsParallelConfig()


class GridworldRun(SocietyRun):
    """A run of a gridworld."""

    environment: GridworldConfig


class PettingZooSociety(SocietyRun):
    """A run of a PettingZoo environment whose agents learn each for itself."""

    environment: PettingZooGameConfig

    @model_validator(mode="after")
    def _fits_societies(self) -> Self:
        if self.environment.lanes == "game":
            raise ValueError("environment.lanes must be seat or auto where learners is each: every agent has a lane")
        if any(section.window != ViewConfig() for section in self.agents):
            raise ValueError("agents' window is for gridworlds: here an environment says what its agents see")
        return self


_OF_SOCIETIES = WorldsParallelConfig.model_fields.keys() - ParallelConfig.model_fields.keys()


_RUNS: dict[str, type[Config]] = {
    "shogi": ShogiRun,
    "python": PythonGameRun,
    "gymnasium": GymnasiumRun,
    "pettingzoo": PettingZooRun,
    **dict.fromkeys(WORLDS, GridworldRun),
}


def load_run(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """The run in a YAML file, changed by overrides such as `environment.copies=8`; `environment.name` says of what."""
    return load(_kind_of_run(read_values(path, overrides)), path, overrides)


def check_run(values: Mapping[str, object], where: str) -> Config:
    """The run with these values; `where` is the end of an error's line."""
    return check(_kind_of_run(values), values, where)


def _kind_of_run(values: Mapping[str, object]) -> type[Config]:
    environment = values.get("environment")
    name = environment.get("name", "shogi") if isinstance(environment, dict) else "shogi"
    if name not in _RUNS:
        raise ConfigError(f"'environment.name' must be one of {', '.join(_RUNS)}, not {name!r}")
    if name == "pettingzoo" and isinstance(environment, dict) and environment.get("learners") == "each":
        return PettingZooSociety
    return _RUNS[name]


FREE_TO_CHANGE = (
    "run.total_steps",
    "run.checkpoint_interval",
    "run.keep_checkpoints",
    "environment.threads",
    "environment.debug",
    "evaluation",
    "device.threads",
    "parallel.enabled",
    "parallel.num_workers",
    "parallel.queue_maxsize",
    "parallel.worker_timeout",
    "parallel.max_restarts",
    "parallel.on_failure",
    "parallel.use_shared_memory",
    "parallel.use_threads",
)
"""Keys and sections that `keisei resume` takes: they change no bit of the weights, but for a longer run's schedules."""


def load_resumed(path: Path, overrides: Sequence[str]) -> Config:
    """The configuration of a run that goes on; refuses overrides that would change its bits."""
    for override in overrides:
        key = override.partition("=")[0]
        if not any(key == free or key.startswith(f"{free}.") for free in FREE_TO_CHANGE):
            free_keys = ", ".join(FREE_TO_CHANGE)
            raise ConfigError(f"'{key}' cannot change when a run goes on: its weights depend on it (free: {free_keys})")
    return load_run(path, overrides)


def as_yaml(config: Config) -> str:
    """The resolved configuration, as `load_run` reads it again."""
    return yaml.safe_dump(config.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)
