"""The errors that Keisei raises. Nothing else lives here.

KeiseiError
├── ConfigError (ValueError)          a configuration that cannot be used: unknown key, value out of range
├── NotationError (ValueError)        text that is no position and no move: SFEN, USI, KIF, CSA
├── IllegalMoveError (ValueError)     a well-written move that the rules do not allow in this position
├── ActionError (ValueError)          actions that an environment cannot execute: illegal, out of range, wrong dtype
├── StateError (ValueError)           a saved environment state that cannot be loaded
├── ContractError (RuntimeError)      an environment that does not do what the contract says
├── WorldError (RuntimeError)         a gridworld whose own functions break a rule of the engine
├── WorkerError (RuntimeError)        a worker process that died, hung or failed
├── NoWorkersError (WorkerError)      so many workers were lost that no others are started: go on another time
├── LearningError (RuntimeError)      learning that cannot go on: updates that stay non-finite, or fail again
│   └── GivenUpError (LearningError)  updates that fail again and again, with all else as it should be
├── CheckpointError (RuntimeError)    a checkpoint that cannot be written or read
└── RunError (RuntimeError)           a run's folder that cannot be used, or holds nothing to read

A message is one line: what was expected, what came, where. On the command line it ends the command with that line and
the status 2 (NoWorkersError: 75); a traceback is for bugs.
"""

from __future__ import annotations


class KeiseiError(Exception):
    """What every error of Keisei's own derives from."""

    status = 2  # of the command that it ends

    @property
    def line(self) -> str:
        """What the command says: the message, and what was noted on its way."""
        return "; ".join([str(self), *getattr(self, "__notes__", ())])


class ConfigError(KeiseiError, ValueError):
    """A configuration that cannot be used."""


class NotationError(KeiseiError, ValueError):
    """Text that is no position and no move."""


class IllegalMoveError(KeiseiError, ValueError):
    """A well-written move that the rules do not allow in this position."""


class ActionError(KeiseiError, ValueError):
    """Actions that an environment cannot execute; nothing has changed when it is raised."""


class StateError(KeiseiError, ValueError):
    """A saved environment state that cannot be loaded; nothing has changed when it is raised."""


class ContractError(KeiseiError, RuntimeError):
    """An environment that does not do what the contract says."""


class WorldError(KeiseiError, RuntimeError):
    """A gridworld whose own functions break a rule of the engine."""


class WorkerError(KeiseiError, RuntimeError):
    """A worker process that died, hung or failed."""


class NoWorkersError(WorkerError):
    """So many workers were lost that no others are started."""

    status = 75  # as sysexits.h has it: try again later


class LearningError(KeiseiError, RuntimeError):
    """Learning that cannot go on."""


class GivenUpError(LearningError):
    """Updates that fail again and again: nothing is spoilt, and nothing will come of going on."""


class CheckpointError(KeiseiError, RuntimeError):
    """A checkpoint that cannot be written or read."""


class RunError(KeiseiError, RuntimeError):
    """A run's folder that cannot be used, or holds nothing to read."""
