"""PPO in one file, in the manner of CleanRL's `ppo.py`, on connect four. Runs in .venv-peers, as a program of its own.

Written for this comparison: the structure is CleanRL's (`SyncVectorEnv`, storage as tensors, one loop), the network is
the one that Keisei's side of the comparison has, a body of two layers shared by policy and value.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata

import gymnasium
import numpy as np
import torch
from c4env import C4
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from runner import serve
from torch import Tensor, nn
from torch.distributions import Categorical

COPIES, STEPS, EPOCHS, MINIBATCHES = 16, 128, 4, 4
BATCH = COPIES * STEPS
WIDTH = 64
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2
ENTROPY_WEIGHT, VALUE_WEIGHT, GRADIENT_NORM = 0.01, 0.5, 0.5
LEARNING_RATE = 1e-3


def layer(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A linear layer with orthogonal weights."""
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.constant_(made.bias, 0.0)
    return made


class Agent(nn.Module):
    """Policy and value."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(layer(84, WIDTH, 2**0.5), nn.ReLU(), layer(WIDTH, WIDTH, 2**0.5), nn.ReLU())
        self.actor = layer(WIDTH, 7, 0.01)
        self.critic = layer(WIDTH, 1, 1.0)

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(self.body(x))

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        hidden = self.body(x)
        probs = Categorical(logits=self.actor(hidden))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


def copy(seed: int) -> gymnasium.Env:
    """One game."""
    return gymnasium.wrappers.RecordEpisodeStatistics(C4(seed=seed))


def train(vectorized: type[SyncVectorEnv | AsyncVectorEnv]) -> Iterator[int]:
    """Train for ever; gives the number of steps after each iteration."""
    torch.manual_seed(1)
    envs: VectorEnv = vectorized([partial(copy, i) for i in range(COPIES)], autoreset_mode=AutoresetMode.SAME_STEP)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE, eps=1e-5)
    obs = torch.zeros((STEPS, COPIES, 84))
    actions, logprobs, rewards, dones, values = (torch.zeros((STEPS, COPIES)) for _ in range(5))
    next_obs = torch.Tensor(envs.reset(seed=1)[0])
    next_done = torch.zeros(COPIES)
    while True:
        for step in range(STEPS):
            obs[step] = next_obs
            dones[step] = next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            seen, reward, terminations, truncations, _ = envs.step(action.numpy())
            rewards[step] = torch.tensor(reward).view(-1)
            next_obs, next_done = torch.Tensor(seen), torch.Tensor(np.logical_or(terminations, truncations))
        advantages, returns = estimate(agent, rewards, dones, values, next_obs, next_done)
        update(agent, optimizer, obs, actions, logprobs, values, advantages, returns)
        yield BATCH


def estimate(
    agent: Agent, rewards: Tensor, dones: Tensor, values: Tensor, next_obs: Tensor, next_done: Tensor
) -> tuple[Tensor, Tensor]:
    """Generalised advantages, and returns."""
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(rewards)
        lastgaelam = torch.zeros(COPIES)
        for t in reversed(range(STEPS)):
            nonterminal = 1.0 - (next_done if t == STEPS - 1 else dones[t + 1])
            nextvalues = next_value if t == STEPS - 1 else values[t + 1]
            delta = rewards[t] + GAMMA * nextvalues * nonterminal - values[t]
            advantages[t] = lastgaelam = delta + GAMMA * LAMBDA * nonterminal * lastgaelam
    return advantages, advantages + values


def update(agent: Agent, optimizer: torch.optim.Optimizer, obs: Tensor, *stored: Tensor) -> None:
    """Epochs of minibatches."""
    b_obs = obs.reshape(-1, 84)
    b_actions, b_logprobs, b_values, b_advantages, b_returns = (one.reshape(-1) for one in stored)
    b_inds = np.arange(BATCH)
    clipfracs = []
    for _ in range(EPOCHS):
        np.random.shuffle(b_inds)
        for start in range(0, BATCH, BATCH // MINIBATCHES):
            mb = b_inds[start : start + BATCH // MINIBATCHES]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions.long()[mb])
            logratio = newlogprob - b_logprobs[mb]
            ratio = logratio.exp()
            with torch.no_grad():
                ((ratio - 1) - logratio).mean()  # the KL divergence, for the log
                clipfracs += [((ratio - 1.0).abs() > CLIP).float().mean().item()]
            mb_advantages = b_advantages[mb]
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            pg_loss1 = -mb_advantages * ratio
            pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
            pg_loss = torch.max(pg_loss1, pg_loss2).mean()
            newvalue = newvalue.view(-1)
            v_loss_unclipped = (newvalue - b_returns[mb]) ** 2
            v_clipped = b_values[mb] + torch.clamp(newvalue - b_values[mb], -CLIP, CLIP)
            v_loss = 0.5 * torch.max(v_loss_unclipped, (v_clipped - b_returns[mb]) ** 2).mean()
            loss = pg_loss - ENTROPY_WEIGHT * entropy.mean() + v_loss * VALUE_WEIGHT
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), GRADIENT_NORM)
            optimizer.step()


class Training:
    """The loop, begun when somebody first asks, and run on for a while whenever somebody asks again."""

    def __init__(self, vectorized: type[SyncVectorEnv | AsyncVectorEnv], clock: Callable[[], float]) -> None:
        self.loop = train(vectorized)
        self.clock = clock

    def measure(self, seconds: float) -> tuple[float, float]:
        """Whole training steps, by the clock."""
        steps = 0
        start = self.clock()
        while (spent := self.clock() - start) < seconds:
            steps += next(self.loop)
        return steps, spent


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(
        "cleanrl",
        f"written here, with gymnasium {metadata.version('gymnasium')}",
        {
            "ppo": Training(SyncVectorEnv, time.process_time).measure,
            "in_process": Training(SyncVectorEnv, time.perf_counter).measure,
            "workers": Training(AsyncVectorEnv, time.perf_counter).measure,
        },
    )
