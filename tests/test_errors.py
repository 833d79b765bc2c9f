"""The error tree, and that the drawing of it tells the truth."""

from __future__ import annotations

import inspect
import re

import pytest

from keisei import errors
from keisei.errors import KeiseiError

ALL = [found for _, found in inspect.getmembers(errors, inspect.isclass) if found.__module__ == errors.__name__]


@pytest.mark.parametrize("error", ALL)
def test_every_error_is_a_keisei_error(error: type[Exception]) -> None:
    assert issubclass(error, KeiseiError)


def test_the_drawing_shows_every_error_and_what_else_it_is() -> None:
    drawn = dict(re.findall(r"─ (\w+) \((\w+)\)", errors.__doc__ or ""))
    actual = {error.__name__: error.__bases__[-1].__name__ for error in ALL if error is not KeiseiError}
    assert drawn == actual


@pytest.mark.parametrize(
    "error", [errors.ConfigError, errors.NotationError, errors.IllegalMoveError, errors.ActionError]
)
def test_wrong_input_is_a_value_error(error: type[KeiseiError]) -> None:
    assert issubclass(error, ValueError)


@pytest.mark.parametrize("error", [errors.ContractError, errors.WorkerError, errors.CheckpointError])
def test_failure_is_a_runtime_error(error: type[KeiseiError]) -> None:
    assert issubclass(error, RuntimeError)
