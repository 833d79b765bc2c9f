"""How busy a GPU is while something runs, as the driver counts it: the share of the time in which a kernel runs."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Sequence
from statistics import mean

_QUERY = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100")


class BusyGpu:
    """Asks the driver ten times a second; knows nothing where there is no `nvidia-smi`."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = command or ([found, *_QUERY] if (found := shutil.which("nvidia-smi")) else [])
        self._seen: list[float] = []
        self._watching = False

    def __enter__(self) -> BusyGpu:
        self._watching = True
        if self._command:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._thread = threading.Thread(target=self._listen, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watching = False
        if self._command:
            self._process.terminate()
            self._process.wait()
            self._thread.join()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if self._watching and line.strip().isdecimal():
                self._seen.append(float(line))

    @property
    def percent(self) -> float | None:
        """The mean; None where nobody could say."""
        return mean(self._seen) if self._seen else None
