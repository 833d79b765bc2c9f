"""A terminal for a test, with somebody who reads it."""

from __future__ import annotations

import os
import pty
import select
import threading
from pathlib import Path


class Terminal:
    """A terminal: takes what is written to it, until it is closed."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        self.path = Path(os.ttyname(self._slave))
        self.shown = b""
        self._open = True
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while select.select([self._master], [], [], 0.02)[0] or self._open:
            if select.select([self._master], [], [], 0)[0]:
                self.shown += os.read(self._master, 4096)

    def close(self) -> None:
        """Close it, when all is read that was written before; may be called twice."""
        if self._open:
            self._open = False
            self._reader.join()
            os.close(self._slave)
            os.close(self._master)
