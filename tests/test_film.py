"""Films that other programs can read: every picture in it, in its colours, for its time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from keisei.environment import UInt8
from keisei.errors import RunError
from keisei.film import write_gif, write_mp4

COLOURS = np.array([[250, 240, 220], [30, 90, 200], [200, 40, 60], [40, 160, 90]], np.uint8)


def pictures(count: int = 9, height: int = 41, width: int = 60) -> list[UInt8]:
    """A small square that walks over a plain ground, and changes its colour."""
    made = []
    for number in range(count):
        picture = np.broadcast_to(COLOURS[0], (height, width, 3)).copy()
        picture[10:18, 5 * number : 5 * number + 8] = COLOURS[1 + number % 3]
        made.append(picture)
    return made


def test_gif_holds_every_picture_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    write_gif(pictures(), path, 5)
    with Image.open(path) as film:
        assert getattr(film, "n_frames", 0) == 9
        for number, picture in enumerate(pictures()):
            film.seek(number)
            assert np.abs(np.asarray(film.convert("RGB"), np.int16) - picture).max() <= 2
            assert film.info["duration"] == (200 if number < 8 else 1500)
        assert film.info["loop"] == 0


def test_gif_keeps_a_colour_of_few_points_beside_many_others(tmp_path: Path) -> None:
    many = np.random.default_rng(0).integers(100, 160, (100, 100, 3)).astype(np.uint8)
    many[50:54, 50:54] = (250, 20, 220)
    write_gif([many, many[::-1].copy()], tmp_path / "a.gif", 5)
    with Image.open(tmp_path / "a.gif") as film:
        found = np.asarray(film.convert("RGB"), np.int16)[51, 51]
    assert np.abs(found - (250, 20, 220)).max() <= 12


def test_mp4_is_h264_with_every_picture(tmp_path: Path, ffmpeg: Path) -> None:
    path = tmp_path / "a.mp4"
    write_mp4(pictures(), path, 5)
    command = [str(ffmpeg), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert re.search(rb"Video: h264 .*yuv420p.* 60x42.* 5 fps", done.stderr)
    frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, 42, 60, 3)
    assert len(frames) == 9
    for picture, frame in zip(pictures(), frames, strict=True):
        assert np.abs(frame[:41].astype(np.int16) - picture).mean() < 6


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("write", [write_gif, write_mp4])
def test_file_that_cannot_be_written_is_one_clear_line(tmp_path: Path, write: object) -> None:
    assert callable(write)
    with pytest.raises(RunError, match=r"cannot write .*absent/a\.film") as error:
        write(pictures(2), tmp_path / "absent" / "a.film", 5)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_missing_encoder_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match=r"^MP4 needs the program ffmpeg, which is not installed .*; GIF does not$"):
        write_mp4(pictures(2), tmp_path / "a.mp4", 5)
    assert list(tmp_path.iterdir()) == []
