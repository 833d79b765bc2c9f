"""The program ffmpeg on the search path, whether or not the machine has one of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def ffmpeg(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program."""
    from imageio_ffmpeg import get_ffmpeg_exe

    program = tmp_path_factory.mktemp("programs") / "ffmpeg"
    program.symlink_to(get_ffmpeg_exe())
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program
