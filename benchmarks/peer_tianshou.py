"""PPO of Tianshou on connect four. Runs in .venv-peers-tianshou, as a program of its own.

Its collector, buffer and algorithm, called in turns as its trainer does, without the trainer's progress bar and tests.
"""

import time
from collections.abc import Callable
from functools import partial
from importlib import metadata

import torch
from c4env import C4
from runner import serve
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import BaseVectorEnv, DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import policy_within_training_step

COPIES, STEPS, EPOCHS, MINIBATCH = 16, 128, 4, 512
WIDTH = 64


def build() -> PPO:
    """The learner, with the sizes of Keisei's side: a body of two layers shared by policy and value."""
    body = Net(state_shape=84, hidden_sizes=[WIDTH, WIDTH])
    game = C4()
    policy = DiscreteActorPolicy(
        actor=DiscreteActor(preprocess_net=body, action_shape=7, softmax_output=False),
        action_space=game.action_space,
        observation_space=game.observation_space,
    )
    return PPO(
        policy=policy,
        critic=DiscreteCritic(preprocess_net=body),
        optim=AdamOptimizerFactory(lr=1e-3, eps=1e-5),
        eps_clip=0.2,
        vf_coef=0.5,
        ent_coef=0.01,
        max_grad_norm=0.5,
        gae_lambda=0.95,
        gamma=0.99,
        max_batchsize=COPIES * STEPS,
    )


class Training:
    """One learner, built when somebody first asks, which learns on for a while whenever somebody asks again."""

    def __init__(self, vectorized: type[BaseVectorEnv]) -> None:
        self.begin = partial(self._begin, vectorized)
        self.iterate: Callable[[], int] | None = None

    def _begin(self, vectorized: type[BaseVectorEnv]) -> Callable[[], int]:
        torch.manual_seed(1)
        algorithm = build()
        games = vectorized([partial(C4, seed=i) for i in range(COPIES)])
        collector = Collector(algorithm, games, VectorReplayBuffer(COPIES * STEPS, COPIES))
        collector.reset()

        def iterate() -> int:
            with policy_within_training_step(algorithm.policy):
                collected = collector.collect(n_step=COPIES * STEPS)
                algorithm.update(buffer=collector.buffer, batch_size=MINIBATCH, repeat=EPOCHS)
            collector.reset_buffer(keep_statistics=True)
            return collected.n_collected_steps

        return iterate

    def measure(self, seconds: float) -> tuple[float, float]:
        """Whole training steps, by the clock on the wall."""
        if self.iterate is None:
            self.iterate = self.begin()
        steps = 0
        start = time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            steps += self.iterate()
        return steps, spent


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(
        "tianshou",
        metadata.version("tianshou"),
        {
            "in_process": Training(DummyVectorEnv).measure,
            "workers": Training(SubprocVectorEnv).measure,
            "workers_shared_memory": Training(ShmemVectorEnv).measure,
        },
    )
