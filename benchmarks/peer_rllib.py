"""PPO of Ray's RLlib on connect four. Runs in .venv-peers-rllib, as a program of its own."""

import logging
import os
import time
from functools import cached_property
from importlib import metadata

import ray
import torch
from c4env import C4
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME
from ray.tune.registry import register_env
from runner import serve

COPIES, STEPS, EPOCHS, MINIBATCH = 16, 128, 4, 512
BATCH = COPIES * STEPS
WIDTH = 64
GAME = "connect_four"


def build(runners: int) -> Algorithm:
    """The learner, with the sizes of Keisei's side; with 0 runners the games are played in this process."""
    if not ray.is_initialized():
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    register_env(GAME, lambda config: C4(seed=config.worker_index * COPIES + getattr(config, "vector_index", 0)))
    config = (
        PPOConfig()
        .environment(GAME)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=COPIES // max(1, runners),
            rollout_fragment_length=STEPS,
        )
        .learners(num_learners=0)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[WIDTH, WIDTH], fcnet_activation="relu", head_fcnet_hiddens=[], vf_share_layers=True
            )
        )
        .training(
            train_batch_size_per_learner=BATCH,
            minibatch_size=MINIBATCH,
            num_epochs=EPOCHS,
            lr=1e-3,
            gamma=0.99,
            lambda_=0.95,
            clip_param=0.2,
            entropy_coeff=0.01,
            vf_loss_coeff=0.5,
            grad_clip=0.5,
            use_kl_loss=False,
        )
        .reporting(min_time_s_per_iteration=0, metrics_num_episodes_for_smoothing=1)
        .debugging(seed=1, log_level="ERROR")
    )
    return config.build_algo()


class Training:
    """One learner, built when somebody first asks, which learns on for a while whenever somebody asks again."""

    def __init__(self, runners: int) -> None:
        self.runners = runners

    @cached_property
    def algorithm(self) -> Algorithm:
        """The learner."""
        return build(self.runners)

    def measure(self, seconds: float) -> tuple[float, float]:
        """Whole training steps, by the clock on the wall."""
        steps, before = 0, self._steps()
        start = time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            steps = self._steps() - before
        return steps, spent

    def _steps(self) -> int:
        return int(self.algorithm.train()[ENV_RUNNER_RESULTS][NUM_ENV_STEPS_SAMPLED_LIFETIME])


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.environ["PYTHONWARNINGS"] = "ignore"  # those of its workers
    serve("rllib", metadata.version("ray"), {"in_process": Training(0).measure, "workers": Training(2).measure})
    ray.shutdown()
