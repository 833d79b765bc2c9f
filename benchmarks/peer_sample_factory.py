"""APPO of Sample Factory on connect four. Runs in .venv-peers-sample_factory, as a program of its own.

It trains by itself once it has begun, so each mode is a program of its own below this one, which tells how often it has
trained; between requests all of its processes are stopped.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib import metadata

import psutil
from c4env import C4
from runner import serve

COPIES, STEPS, EPOCHS, MINIBATCHES = 16, 128, 4, 4
BATCH = COPIES * STEPS
WIDTH = 64
GAME = "connect_four"
COMMON = {
    "algo": "APPO",
    "env": GAME,
    "device": "cpu",
    "seed": 1,
    "rollout": STEPS,
    "batch_size": BATCH // MINIBATCHES,
    "num_batches_per_epoch": MINIBATCHES,
    "num_epochs": EPOCHS,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "ppo_clip_ratio": 0.2,
    "ppo_clip_value": 0.2,
    "exploration_loss_coeff": 0.01,
    "value_loss_coeff": 0.5,
    "max_grad_norm": 0.5,
    "learning_rate": 1e-3,
    "adam_eps": 1e-5,
    "nonlinearity": "relu",
    "use_rnn": False,
    "normalize_input": False,
    "normalize_returns": False,
    "decorrelate_experience_max_seconds": 0,
    "set_workers_cpu_affinity": False,
    "heartbeat_reporting_interval": 86_400,
    "save_every_sec": 86_400,
    "save_best_every_sec": 86_400,
    "log_to_file": False,
}
MODES = {
    "in_process": {"serial_mode": True, "async_rl": False, "num_workers": 1, "num_envs_per_worker": COPIES},
    "workers": {"num_workers": 2, "num_envs_per_worker": COPIES // 2},
    "workers_batched": {"num_workers": 2, "num_envs_per_worker": COPIES // 2, "batched_sampling": True},
    "workers_synchronous": {"num_workers": 2, "num_envs_per_worker": COPIES // 2, "async_rl": False},
}


def copy(name: str, config: object, env_config: object, render_mode: str | None = None) -> C4:
    """One game; the first is built to look at its spaces, and has no number."""
    return C4(seed=getattr(env_config, "env_id", 0))


def train(mode: str, folder: str) -> None:
    """Train until somebody ends it; writes a line with the time of day after each iteration."""
    from sample_factory.algo.runners.runner import AlgoObserver
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import make_runner

    class Teller(AlgoObserver):
        """Tells of each iteration."""

        def on_training_step(self, runner: object, training_iteration_since_resume: int) -> None:
            print(time.monotonic(), file=out, flush=True)

    out, sys.stdout = sys.stdout, sys.stderr
    register_env(GAME, copy)
    settings = COMMON | MODES[mode] | {"experiment": mode, "train_dir": folder}
    arguments = [f"--{key}={value}" for key, value in settings.items()]
    arguments += ["--encoder_mlp_layers", str(WIDTH), str(WIDTH)]
    parser, _ = parse_sf_args(arguments)
    _, runner = make_runner(parse_full_cfg(parser, arguments))
    runner.register_observer(Teller())
    runner.init()
    runner.run()


class Training:
    """One mode, begun when somebody first asks, and let go on whenever somebody asks again."""

    def __init__(self, mode: str, folder: str) -> None:
        self.begin = partial(self._begin, mode, folder)
        self.program: subprocess.Popen[str] | None = None

    def _begin(self, mode: str, folder: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-E", "-s", __file__, mode, folder]
        one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=one_thread)

    def measure(self, seconds: float) -> tuple[float, float]:
        """Whole training steps, by the clock on the wall, from the end of an iteration to that of another."""
        if self.program is None:
            self.program = self.begin()
        else:
            self._signal("resume")
        resumed = time.monotonic()
        first = self._next(after=resumed)
        iterations, last = 0, first
        while last - first < seconds:
            last = self._next(after=resumed)
            iterations += 1
        self._signal("suspend")
        return iterations * BATCH, last - first

    def _next(self, after: float) -> float:
        """When the next iteration ended; what was written before the program was stopped does not count."""
        assert self.program is not None
        assert self.program.stdout is not None
        for line in self.program.stdout:
            if (when := float(line)) > after:
                return when
        raise SystemExit("Sample Factory has ended")

    def _signal(self, what: str) -> None:
        """Suspend or resume all processes."""
        top = psutil.Process(self.program.pid)
        for one in [top, *top.children(recursive=True)]:
            getattr(one, what)()

    def end(self) -> None:
        """End all processes."""
        if self.program is not None:
            self._signal("kill")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(*sys.argv[1:])
    else:
        with tempfile.TemporaryDirectory() as folder:
            modes = {mode: Training(mode, folder) for mode in MODES}
            try:
                version = metadata.version("sample-factory")
                serve("sample_factory", version, {mode: one.measure for mode, one in modes.items()})
            finally:
                for one in modes.values():
                    one.end()
