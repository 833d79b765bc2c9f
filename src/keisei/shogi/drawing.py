"""Pictures of a position: as text for a terminal, and as SVG. Knows the notation, not the rules."""

from __future__ import annotations

_KANJI = dict(zip("PLNSGBRK", "歩香桂銀金角飛玉", strict=True)) | dict(
    zip(("+P", "+L", "+N", "+S", "+B", "+R"), "と杏圭全馬龍", strict=True)
)
_RANKS = "一二三四五六七八九"
_CELL = 44
_MARGIN = 30
_HAND_WIDTH = 60


def _rows(board: str) -> list[list[str]]:
    """The pieces row by row, '' where there is none."""
    rows: list[list[str]] = []
    for text in board.split("/"):
        row: list[str] = []
        prefix = ""
        for letter in text:
            if letter.isdigit():
                row += [""] * int(letter)
            elif letter == "+":
                prefix = "+"
            else:
                row.append(prefix + letter)
                prefix = ""
        rows.append(row)
    return rows


def _hands(text: str) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """What Black and White hold: pieces and their counts."""
    hands: tuple[list[tuple[str, int]], list[tuple[str, int]]] = ([], [])
    count = ""
    for letter in text.replace("-", ""):
        if letter.isdigit():
            count += letter
        else:
            hands[letter.islower()].append((letter.upper(), int(count or 1)))
            count = ""
    return hands


def text(sfen: str) -> str:
    """The board in letters, White's pieces in lower case, with coordinates, hands and turn."""
    board, turn, hands, number = sfen.split(" ")
    black, white = (" ".join(f"{piece}{n if n > 1 else ''}" for piece, n in hand) or "-" for hand in _hands(hands))
    lines = [f"White's hand: {white.lower()}", "  " + "  ".join("987654321")]
    for rank, row in zip("abcdefghi", _rows(board), strict=True):
        lines.append(" " + "".join(f"{piece or '.':>2} " for piece in row) + rank)
    side = "Black" if turn == "b" else "White"
    return "\n".join([*lines, f"Black's hand: {black}", f"{side} to move, move {number}"])


def svg(sfen: str, moves: list[str]) -> str:
    """The board with kanji and coordinates; the square of the last move is tinted."""
    board, turn, hands, _ = sfen.split(" ")
    side = 9 * _CELL
    width, height = side + 2 * (_MARGIN + _HAND_WIDTH), side + 2 * _MARGIN
    left, top = _MARGIN + _HAND_WIDTH, _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Noto Serif CJK JP, Noto Sans CJK JP, IPAMincho, serif" text-anchor="middle">',
        f'<rect width="{width}" height="{height}" fill="#fdf6e3"/>',
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="#f2d195" stroke="#333" stroke-width="2"/>',
        *_last_move(moves, left, top),
        *_grid(left, top, side),
    ]
    for row, pieces in enumerate(_rows(board)):
        for column, piece in enumerate(pieces):
            if piece:
                parts.append(_piece(piece, left + _CELL * (column + 0.5), top + _CELL * (row + 0.5)))
    black, white = _hands(hands)
    parts += _hand(black, left + side + _MARGIN + _HAND_WIDTH / 2 - 6, top, "☗", turn == "b")
    turned = f'<g transform="rotate(180 {width / 2} {height / 2})">'
    parts += [
        turned,
        *_hand(white, left + side + _MARGIN + _HAND_WIDTH / 2 - 6, top, "☖", turn == "w"),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts)


def _last_move(moves: list[str], left: float, top: float) -> list[str]:
    if not moves:
        return []
    file, rank = moves[-1][2], moves[-1][3]
    x, y = left + _CELL * (9 - int(file)), top + _CELL * (ord(rank) - ord("a"))
    return [f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="#e8a94d"/>']


def _grid(left: float, top: float, side: float) -> list[str]:
    parts = []
    for i in range(9):
        if i:
            at = _CELL * i
            parts.append(f'<path d="M{left + at} {top}v{side}M{left} {top + at}h{side}" stroke="#333" fill="none"/>')
        centre = _CELL * (i + 0.5)
        parts.append(f'<text x="{left + centre}" y="{top - 8}" font-size="14">{9 - i}</text>')
        parts.append(f'<text x="{left + side + 14}" y="{top + centre + 5}" font-size="14">{_RANKS[i]}</text>')
    stars = [(x, y) for x in (3, 6) for y in (3, 6)]
    return parts + [f'<circle cx="{left + _CELL * x}" cy="{top + _CELL * y}" r="3"/>' for x, y in stars]


def _piece(piece: str, x: float, y: float) -> str:
    turn = f' transform="rotate(180 {x} {y})"' if piece[-1].islower() else ""
    color = "#b00" if piece.startswith("+") else "#111"
    return f'<text x="{x}" y="{y + 11}" font-size="31" fill="{color}"{turn}>{_KANJI[piece.upper()]}</text>'


def _hand(pieces: list[tuple[str, int]], x: float, top: float, mark: str, to_move: bool) -> list[str]:
    weight = ' font-weight="bold" fill="#b00"' if to_move else ""
    parts = [f'<text x="{x}" y="{top + 20}" font-size="24"{weight}>{mark}</text>']
    for i, (piece, count) in enumerate(pieces):
        label = _KANJI[piece] + (str(count) if count > 1 else "")
        parts.append(f'<text x="{x}" y="{top + 60 + 34 * i}" font-size="24">{label}</text>')
    return parts
