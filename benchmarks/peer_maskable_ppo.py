"""MaskablePPO of sb3-contrib on connect four. Runs in .venv-peers, as a program of its own."""

import time
from collections.abc import Callable
from functools import cached_property, partial
from importlib import metadata

import torch
from c4env import C4
from runner import serve
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from torch import Tensor, nn

COPIES, STEPS, EPOCHS, MINIBATCH = 16, 128, 4, 512
WIDTH = 64


class Body(BaseFeaturesExtractor):
    """Two layers shared by policy and value: the network of Keisei's side."""

    def __init__(self, observation_space) -> None:
        super().__init__(observation_space, WIDTH)
        self.layers = nn.Sequential(nn.Linear(84, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())

    def forward(self, seen: Tensor) -> Tensor:
        return self.layers(seen)


class Clock(BaseCallback):
    """Ends learning after an iteration, when the time is up."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        super().__init__()
        self.clock = clock
        self.start = clock()
        self.seconds = seconds
        self.spent = 0.0
        self.steps = 0

    def _on_rollout_start(self) -> None:
        self.spent = self.clock() - self.start
        self.steps = self.num_timesteps

    def _on_step(self) -> bool:
        return self.spent < self.seconds


def build(vectorized: type[DummyVecEnv | SubprocVecEnv]) -> MaskablePPO:
    """The learner, with the sizes of Keisei's side."""
    return MaskablePPO(
        MaskableActorCriticPolicy,
        vectorized([partial(C4, seed=i) for i in range(COPIES)]),
        learning_rate=1e-3,
        n_steps=STEPS,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.01,
        policy_kwargs={"features_extractor_class": Body, "net_arch": []},
        seed=1,
        device="cpu",
    )


class Training:
    """One learner, built when somebody first asks, which learns on for a while whenever somebody asks again."""

    def __init__(self, vectorized: type[DummyVecEnv | SubprocVecEnv], clock: Callable[[], float]) -> None:
        self.vectorized = vectorized
        self.clock = clock

    @cached_property
    def model(self) -> MaskablePPO:
        """The learner."""
        return build(self.vectorized)

    def measure(self, seconds: float) -> tuple[float, float]:
        """Whole training steps, by the clock."""
        before = self.model.num_timesteps
        clock = Clock(self.clock, seconds)
        self.model.learn(10**9, callback=clock, reset_num_timesteps=False)
        return clock.steps - before, clock.spent


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(
        "maskable_ppo",
        metadata.version("sb3-contrib"),
        {
            "ppo": Training(DummyVecEnv, time.process_time).measure,
            "in_process": Training(DummyVecEnv, time.perf_counter).measure,
            "workers": Training(SubprocVecEnv, time.perf_counter).measure,
        },
    )
