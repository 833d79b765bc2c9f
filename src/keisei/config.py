"""The configuration of a whole run: one typed section per component, and what each key means.

How a section is read and how errors are worded is in `sections.py`; which part a section builds is in `build.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, Strict, model_validator

from keisei.config_learner import LearnerConfig, Number, PPOConfig
from keisei.errors import ConfigError
from keisei.sections import Section, load, read_values

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
    options: dict[str, object] = Field(default_factory=dict)
    """Further keyword arguments of what makes it."""
    copies: int = Field(default=16, ge=1, le=2**24)
    """How many games are played at once."""


class ViewConfig(Section):
    """What agents see of a world; what is left out is as the world's own file says."""

    radius: int | None = Field(default=None, ge=0, le=127)
    """Of the window around the agent: it is 2·radius + 1 cells high and wide."""
    frames: int | None = Field(default=None, ge=1, le=1000)
    """This window and those of the decisions before it, so many in all."""
    position: bool | None = None
    """Where the agent stands."""
    inventory: bool | None = None
    """How many items of each kind the agent took in this episode."""
    cells: Literal["kinds", "colours"] | None = None
    """A plane for each kind of thing, or three for red, green and blue."""


class SeatsViewConfig(ViewConfig):
    """What some seats see; what is left out is as for all."""

    seats: str = Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")
    """Which seats, such as `0-3` or `0,2,5`."""


class GridworldConfig(ViewConfig):
    """A world in which several agents live, many times over."""

    name: Literal["treasure_hunt", "cleanup", "tag", "stag_hunt", "iowa", "empty", "gridworld"]
    """Which world; `gridworld` for one's own."""
    world: str | None = None
    """The file of one's own world, from the folder in which the command runs."""
    agents: int | None = Field(default=None, ge=1, le=128)
    """How many agents live in each world; the world's own number by default."""
    max_turns: int | None = Field(default=None, ge=1)
    """Turns of an episode, which then is cut off; the world's own number by default."""
    numbers: dict[str, Number] = Field(default_factory=dict)
    """Other numbers of the world, by name; `keisei worlds NAME` says which it has."""
    turns: Literal["simultaneous", "sequential"] = "simultaneous"
    """All agents decide on the world as it stands, or each sees what the ones before it did."""
    views: Annotated[tuple[SeatsViewConfig, ...], Strict(False)] = ()
    """What some seats see instead."""
    observation: Literal["packed", "uint8", "float32"] = "packed"
    """How a window is written: a byte for each cell, layer and frame, or planes in that type."""
    debug: bool = False
    """Run the world as plain Python, slowly, so that a breakpoint works; changes no bit of what it does."""
    copies: int = Field(default=64, ge=1, le=2**24)
    """How many worlds are played at once."""
    threads: int = Field(default=1, ge=1, le=1024)
    """How many native threads step the worlds; changes no bit of what they do."""

    @model_validator(mode="after")
    def _names_one_world(self) -> Self:
        if (self.name == "gridworld") != (self.world is not None):
            raise ValueError("'world' names the file of one's own world, and needs the name 'gridworld'")
        return self


class GridworldEnvironmentConfig(GridworldConfig):
    """The keyword arguments of `keisei.make("treasure_hunt", …)`: an environment that stands alone."""

    observation: Literal["packed", "uint8", "float32"] = "uint8"
    """How a window is written: a byte for each cell, layer and frame, or planes in that type."""
    copies: int = Field(default=1, ge=1, le=2**24)
    """How many worlds are played at once."""
    seed: int = Field(default=0, ge=0, le=2**64 - 1)
    """What all random choices of the environment are drawn from."""
    first_lane: int = Field(default=0, ge=0, le=2**63)
    """The number of the first lane among all lanes of the run; the worlds' random streams depend on it."""


class NetworkConfig(Section):
    """The network that acts and learns."""

    kind: Literal["residual", "convolutional", "mlp"] = "residual"
    """A residual tower with squeeze-and-excite, a plain stack of convolutions, or a multi-layer perceptron."""
    depth: int = Field(default=6, ge=1, le=200)
    """Residual blocks, convolutions or layers."""
    width: int = Field(default=96, ge=1, le=8192)
    """Channels of each convolution, or units of each layer."""
    normalization: Literal["none", "group"] = "none"
    """Of residual blocks. Neither kind lets one row depend on another."""
    policy: Literal["convolution", "dense"] = "convolution"
    """Logits as sums of a few cells of a convolution, or one weight per feature and action."""
    value_reach: Number = Field(default=1.0, gt=0)
    """Values are between minus this and this: 1 for games that are won and lost, the largest return for others."""

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        if self.kind != "residual" and self.normalization != "none":
            raise ValueError(f"normalization is for residual networks, not for kind '{self.kind}'")
        if self.kind == "mlp" and self.policy != "dense":
            raise ValueError("kind 'mlp' has no cells for a convolution: set policy to 'dense'")
        return self


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


class GridworldRun(Config):
    """A run of a gridworld."""

    environment: GridworldConfig


WORLDS = ("treasure_hunt", "cleanup", "tag", "stag_hunt", "iowa", "empty", "gridworld")
"""The names of a gridworld's section."""

_RUNS: dict[str, type[Config]] = {
    "shogi": ShogiRun,
    "python": PythonGameRun,
    "gymnasium": GymnasiumRun,
    "pettingzoo": PettingZooRun,
    **dict.fromkeys(WORLDS, GridworldRun),
}


def load_run(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """The run in a YAML file, changed by overrides such as `environment.copies=8`; `environment.name` says of what."""
    environment = read_values(path, overrides).get("environment")
    name = environment.get("name", "shogi") if isinstance(environment, dict) else "shogi"
    if name not in _RUNS:
        raise ConfigError(f"'environment.name' must be one of {', '.join(_RUNS)}, not {name!r}")
    return load(_RUNS[name], path, overrides)


FREE_TO_CHANGE = (
    "run.total_steps",
    "run.checkpoint_interval",
    "run.keep_checkpoints",
    "environment.threads",
    "environment.debug",
    "evaluation",
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
