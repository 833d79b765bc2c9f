"""Pgx's Shogi on whatever device JAX has: random legal moves in many games at once, ended games begin again.

Runs in the environment `.venv-peers-pgx` or `.venv-peers`, as a program of its own. Seconds are those of the clock on
the wall, since the work is done on a device.
"""

import importlib.metadata
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import pgx
from pgx.experimental.wrappers import auto_reset
from runner import serve

GAMES, STEPS = 16_384, 16


def measure_shogi(seconds: float) -> tuple[float, float]:
    environment = pgx.make("shogi")
    step = auto_reset(environment.step, environment.init)

    def one(state, key):
        logits = jnp.log(state.legal_action_mask.astype(jnp.float32))
        action = jax.random.categorical(key, logits, axis=-1)
        return jax.vmap(step)(state, action, jax.random.split(key, GAMES)), None

    play = jax.jit(lambda state, key: jax.lax.scan(one, state, jax.random.split(key, STEPS))[0])
    state = jax.vmap(environment.init)(jax.random.split(jax.random.PRNGKey(0), GAMES))
    state = jax.block_until_ready(play(state, jax.random.PRNGKey(1)))
    work, start, number = 0, time.perf_counter(), 2
    while (spent := time.perf_counter() - start) < seconds or not work:
        state = jax.block_until_ready(play(state, jax.random.PRNGKey(number)))
        work, number = work + GAMES * STEPS, number + 1
    return float(work), spent


if __name__ == "__main__":
    serve("pgx", importlib.metadata.version("pgx"), {"shogi": measure_shogi})
