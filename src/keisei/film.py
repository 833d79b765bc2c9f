"""Pictures one after the other as a film: GIF, which needs nothing else, and MP4, by the program ffmpeg.

Pictures are `[height, width, 3]` uint8, all of one size. What is shown is others' business.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from keisei.environment import UInt8
from keisei.errors import RunError

_LAST_SECONDS = 1.5  # the last picture of a GIF stays so long
_PALETTE_FROM = 24  # pictures from which the colours of a GIF are chosen
_WEIGHT = 0.35  # a colour of n points weighs n to this


def write_gif(pictures: Sequence[UInt8], path: Path, per_second: float) -> None:
    """Write a GIF that begins again when it is over. Raises RunError."""
    colours = _palette(pictures)
    first, *others = [
        Image.fromarray(picture).quantize(palette=colours, dither=Image.Dither.NONE) for picture in pictures
    ]
    shown = [round(1000 / per_second)] * len(pictures)
    shown[-1] = round(1000 * _LAST_SECONDS)

    def write(partial: Path) -> None:
        first.save(
            partial, "GIF", save_all=True, append_images=others, duration=shown, loop=0, disposal=1, optimize=True
        )

    _written(path, write)


def write_mp4(pictures: Sequence[UInt8], path: Path, per_second: float) -> None:
    """Write an MP4 (H.264) that players and browsers know. Raises RunError, also where there is no encoder."""
    encoder = shutil.which("ffmpeg")
    if encoder is None:
        raise RunError(
            "MP4 needs the program ffmpeg, which is not installed (Debian: apt install ffmpeg); GIF does not"
        )
    rows, columns, _ = pictures[0].shape
    pad = ((0, rows % 2), (0, columns % 2), (0, 0))  # the format wants even sides
    given = f"-f rawvideo -pix_fmt rgb24 -s {columns + columns % 2}x{rows + rows % 2} -r {per_second:g} -i -"
    wanted = "-c:v libx264 -preset slow -crf 16 -pix_fmt yuv420p -movflags +faststart -f mp4"
    command = [encoder, "-loglevel", "error", "-y", *given.split(), *wanted.split()]
    film = b"".join(np.pad(picture, pad, mode="edge").tobytes() for picture in pictures)

    def write(partial: Path) -> None:
        done = subprocess.run([*command, str(partial)], input=film, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise OSError(0, done.stderr.decode(errors="replace").strip().splitlines()[-1])

    _written(path, write)


def _palette(pictures: Sequence[UInt8]) -> Image.Image:
    """The colours of a GIF, the same for all its pictures, so that what stays as it is takes no room.

    A colour of few points weighs nearly as much as one of many: what is small is often what matters.
    """
    step = max(1, len(pictures) // _PALETTE_FROM)
    points = np.concatenate([picture.reshape(-1, 3) for picture in pictures[::step]])
    packed = points.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colours, counts = np.unique(packed, return_counts=True)
    weighed = np.repeat(colours, np.ceil(counts**_WEIGHT).astype(np.int64))
    some = (weighed[None, :, None] >> np.array([16, 8, 0], np.uint32) & 255).astype(np.uint8)
    return Image.fromarray(some).quantize(255, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def _written(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file that is whole or not there."""
    with _no_partial(path.with_name(f".{path.name}.part")) as partial:
        try:
            write(partial)
            partial.replace(path)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def _no_partial(partial: Path) -> Iterator[Path]:
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)
