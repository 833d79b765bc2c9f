"""V-trace: experience of older weights is believed as far as the present ones would choose the same."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest

from keisei.environment import LegalForm
from keisei.learning.trust import full_trust, v_trace
from lived import random_experience
from small_ppo import SETTINGS, learner, linear_policy, same, weights
from test_ppo import slow_copy
from tiny_runs import STEPS, final_sha256, records

FORMS: tuple[LegalForm, ...] = ("list", "mask", "bits")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("together", [1, 4, 1000])
def test_trust_is_the_ratio_of_probabilities_up_to_one(form: LegalForm, together: int) -> None:
    experience = random_experience(3, form)
    experience.rollout.acted[0, 1] = False
    slow = slow_copy(learner())
    expected = np.ones(experience.rollout.reward.shape)
    for place in experience.decisions:
        seen = experience.rollout.observation[place].tolist()
        logits = {
            action: sum(float(w) * x for w, x in zip(slow.policy[action], seen, strict=True)) + slow.policy_bias[action]
            for action in experience.legal[place]
        }
        probability = exp(logits[experience.action[place]]) / sum(map(exp, logits.values()))
        expected[place] = min(1.0, probability / exp(float(experience.rollout.log_probability[place])))
    found = v_trace(linear_policy(), experience.rollout, together)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (found < 0.9).any()
    assert (found == 1).any()
    assert (full_trust(linear_policy(), experience.rollout, together) == 1).all()


def test_experience_of_ones_own_is_believed_and_other_experience_teaches_otherwise() -> None:
    rollout = random_experience(3).rollout
    plain, tracing = learner(), learner()
    tracing.trust = v_trace
    assert plain.learn(rollout, 0, 0.0)["trust"] == 1
    assert tracing.learn(rollout, 0, 0.0)["trust"] < 0.95
    assert not same(weights(plain), weights(tracing))
    nothing = random_experience(3).rollout
    nothing.acted[:] = False
    assert learner(replace(SETTINGS, epochs=2)).learn(nothing, 0, 0.0)["updates"] == 0


def test_run_corrects_for_its_lag_only_when_it_is_told_to(tmp_path: Path) -> None:
    run = f"run.total_steps={6 * STEPS}", "parallel.async_learning=true", "learner.learning_rate=0.1"
    plain = final_sha256(tmp_path / "plain", *run)
    assert final_sha256(tmp_path / "traced", *run, "parallel.v_trace=true") != plain
    trust = [record["learn/trust"] for record in records(tmp_path / "traced")]
    assert trust[0] == pytest.approx(1, abs=1e-6)
    assert min(float(str(one)) for one in trust) < 1
    assert {record["learn/trust"] for record in records(tmp_path / "plain")} == {1.0}
