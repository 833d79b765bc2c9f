"""The manifest of a checkpoint's folder: the format's version, and size and sha256 of every other file.

Nothing in a folder is parsed before it agrees with the manifest. A manifest that somebody forged still gets no code
run, no file outside the folder read, and no more memory than the machine has and the files themselves fill.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from keisei.checkpoint import files
from keisei.checkpoint.contents import CONFIG, STATE, UInt8, group_file, group_in
from keisei.checkpoint.text import JSON, MOST_BYTES, from_json, quoted, to_json

NAME = "manifest.json"
FORMAT = 1
"""The format's version. There is none before it; `tests/data/checkpoint-1` stays readable for good."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_REQUIRED = (CONFIG, STATE, group_file("weights"))


class Entry(NamedTuple):
    """What the manifest says of one file."""

    size: int
    sha256: str


def encode(entries: Mapping[str, Entry]) -> bytes:
    """The manifest of these files."""
    listed: dict[str, JSON] = {name: {"bytes": size, "sha256": sha256} for name, (size, sha256) in entries.items()}
    return to_json({"format": FORMAT, "files": listed})


def read(folder: Path) -> dict[str, Entry]:
    """What the manifest in a folder says; raises ValueError where the folder has other files than it names."""
    size = (folder / NAME).lstat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{NAME} has {size} bytes, at most {MOST_BYTES} are read")
    try:
        entries = _entries(from_json(files.read_file(folder / NAME, size)[0].tobytes()))
    except ValueError as error:
        raise ValueError(f"{NAME}: {error}") from error
    present = set()
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name not in entries and entry.name != NAME:
                raise ValueError(f"it has a file that {NAME} does not name: {quoted(entry.name)}")
            present.add(entry.name)
    if missing := entries.keys() - present:
        raise ValueError(f"{min(missing)} is missing")
    return entries


def load(folder: Path, entries: Mapping[str, Entry], wanted: Collection[str]) -> dict[str, UInt8]:
    """The contents of the wanted files, each as the manifest says; the others have the right size."""
    needed = sum(entries[name].size for name in wanted)
    if needed > (memory := os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")):
        raise ValueError(f"its files have {needed:,} bytes, more than this machine's memory of {memory:,}")
    for name in entries.keys() - wanted:
        with files.open_regular(folder / name, entries[name].size):
            pass
    return {name: _load(folder / name, entries[name]) for name in sorted(wanted)}


def verify(folder: Path) -> None:
    """Read every file, and keep nothing; raises ValueError where one is not as the manifest says."""
    for name, entry in read(folder).items():
        _compare(name, entry, files.hash_file(folder / name, entry.size))


def _load(path: Path, entry: Entry) -> UInt8:
    content, sha256 = files.read_file(path, entry.size)
    _compare(path.name, entry, sha256)
    return content


def _compare(name: str, entry: Entry, sha256: str) -> None:
    if sha256 != entry.sha256:
        raise ValueError(f"{name} is not what {NAME} says (sha256 {sha256[:12]}…, expected {entry.sha256[:12]}…)")


def _entries(value: JSON) -> dict[str, Entry]:
    """What is in a manifest, checked; raises ValueError for anything that this version does not write."""
    if not isinstance(value, Mapping) or type(version := value.get("format")) is not int:
        raise ValueError("it names no format version")
    if version != FORMAT:
        age = "a newer Keisei wrote it" if version > FORMAT else "no Keisei ever wrote that"
        raise ValueError(f"format version {quoted(version)}, this Keisei reads {FORMAT}: {age}")
    listed = value.get("files")
    if value.keys() != {"format", "files"} or not isinstance(listed, Mapping):
        raise ValueError(f"expected `format` and `files`, got {quoted(sorted(value))}")
    if missing := [name for name in _REQUIRED if name not in listed]:
        raise ValueError(f"it does not name {missing[0]}")
    return {name: _entry(name, entry) for name, entry in listed.items()}


def _entry(name: str, value: JSON) -> Entry:
    if name not in _REQUIRED and group_in(name) is None:
        raise ValueError(f"no file of a checkpoint is called {quoted(name)}")
    if not isinstance(value, Mapping) or value.keys() != {"bytes", "sha256"}:
        raise ValueError(f"expected `bytes` and `sha256` of {quoted(name)}, got {quoted(value)}")
    size, sha256 = value["bytes"], value["sha256"]
    if type(size) is not int or not 0 <= size < 2**60:
        raise ValueError(f"{quoted(name)} cannot have {quoted(size)} bytes")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError(f"{quoted(name)} cannot have the sha256 {quoted(sha256)}")
    return Entry(size, sha256)
