"""Tables of numbers as files for analysis: NumPy's npz, or Parquet, which needs pyarrow. Both hold the same columns.

What a table cannot say in numbers (such as the names of actions) is text beside it: arrays of text in npz, metadata of
the schema in Parquet, where several words are separated by line ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keisei.environment import Array
from keisei.errors import RunError

Words = Mapping[str, Sequence[str]]


def writer(path: Path) -> Callable[[Mapping[str, Array], Words], None]:
    """What writes a table into this file, as its ending says. Raises RunError, also where a library is missing."""
    if path.suffix == ".npz":
        return lambda columns, words: _written(path, lambda partial: _write_npz(partial, columns, words))
    if path.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401  (said before anything is played)
        except ImportError as error:
            raise RunError(
                f"{error.name} is not installed, but needed for Parquet: pip install 'keisei[tables]'"
            ) from error
        return lambda columns, words: _written(path, lambda partial: _write_parquet(partial, columns, words))
    raise RunError(f"expected a file that ends in .npz or .parquet, got '{path}'")


def _write_npz(path: Path, columns: Mapping[str, Array], words: Words) -> None:
    texts = {name: np.array(text) for name, text in words.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, **columns, **texts)  # type: ignore[arg-type]


def _write_parquet(path: Path, columns: Mapping[str, Array], words: Words) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(dict(columns))
    texts = {name: "\n".join(text) for name, text in words.items()}
    with path.open("wb") as file:
        parquet.write_table(table.replace_schema_metadata(texts), file)


def _written(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file that is whole or not there."""
    partial = path.with_name(f".{path.name}.part")
    try:
        write(partial)
        partial.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
