"""What is seen, turned round or read back: a view by the other side, and the SFEN of a view. Slow and obvious."""

from __future__ import annotations

import numpy as np

from keisei.environment import Array, UInt8
from keisei.shogi.actions import PACKED_BYTES

_SQUARES = 81
_KINDS = 14
_HAND_COUNTS = (18, 4, 4, 4, 4, 2, 2)
_SPELLING = ["P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "+B", "+R"]


def other_view(seen: Array) -> Array:
    """The same position as the side that is not to move sees it; that side is never in check.

    `seen` is one view: `[46, 9, 9]` planes of either dtype, or `[99]` a packed position. The answer has the same form.
    """
    if seen.shape == (PACKED_BYTES,):
        return _other_packed(seen.astype(np.uint8))
    turned = seen.copy()
    turned[0:14], turned[14:28] = seen[14:28, ::-1, ::-1], seen[0:14, ::-1, ::-1]
    turned[28:35], turned[35:42] = seen[35:42], seen[28:35]
    turned[42] = 1 - seen[42]
    turned[45] = 0
    return turned


def sfen(seen: Array, number: int = 1) -> str:
    """The SFEN of a view of the side to move, in any form, as move `number`, which a view does not tell."""
    packed = seen if seen.shape == (PACKED_BYTES,) else _pack(seen)
    white = bool(packed[95] & 1)
    view = _other_packed(packed.astype(np.uint8)) if white else packed
    ranks = [_rank(view[row * 9 : row * 9 + 9].tolist()) for row in range(9)]
    hands = _hand(view[81:88].tolist()) + _hand(view[88:95].tolist()).lower()
    return f"{'/'.join(ranks)} {'w' if white else 'b'} {hands or '-'} {number}"


def _other_packed(packed: UInt8) -> UInt8:
    board = packed[:_SQUARES][::-1]
    other = packed.copy()
    other[:_SQUARES] = np.where(board > _KINDS, board - _KINDS, np.where(board > 0, board + _KINDS, 0))
    other[81:88], other[88:95] = packed[88:95], packed[81:88]
    other[95] = (packed[95] & 1) ^ 1
    return other


def _pack(planes: Array) -> UInt8:
    """The packed position, less what planes do not keep."""
    packed = np.zeros(PACKED_BYTES, np.uint8)
    pieces = planes[: 2 * _KINDS].reshape(2 * _KINDS, _SQUARES) != 0
    packed[:_SQUARES] = np.where(pieces.any(axis=0), pieces.argmax(axis=0) + 1, 0)
    scale = np.array(_HAND_COUNTS * 2) if planes.dtype.kind == "f" else 1
    packed[81:95] = np.rint(planes[28:42, 0, 0] * scale)
    packed[95] = planes[42, 0, 0] != 0
    return packed


def _rank(codes: list[int]) -> str:
    text = "".join(_piece(code) for code in codes)
    for gap in range(9, 0, -1):
        text = text.replace("." * gap, str(gap))
    return text


def _piece(code: int) -> str:
    if code == 0:
        return "."
    return _SPELLING[code - 1] if code <= _KINDS else _SPELLING[code - 1 - _KINDS].lower()


def _hand(counts: list[int]) -> str:
    """Pieces in hand as SFEN spells them: rook first, counts above one in front."""
    held = [(piece, count) for piece, count in zip("RBGSNLP", reversed(counts), strict=True) if count]
    return "".join(f"{count if count > 1 else ''}{piece}" for piece, count in held)
