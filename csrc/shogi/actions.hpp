// The 13,527 numbers of the action space: a move as the side to move sees it.
#pragma once

#include "types.hpp"

namespace keisei::shogi {

using Action = std::uint16_t;
inline constexpr int kBoardActions = kSquares * 80 * 2;
inline constexpr int kActions = kBoardActions + 7 * kSquares;

constexpr Action board_action(Square seen_from, Square seen_to, bool promote) {
    return Action(seen_from * 160 + 2 * (seen_to - (seen_to > seen_from)) + promote);
}
constexpr Action drop_action(Kind kind, Square seen_to) { return Action(kBoardActions + 7 * seen_to + kind); }

constexpr Action to_action(Move m, Color mover) {
    const Square to = seen_by(mover, m.to());
    if (m.is_drop()) return drop_action(m.dropped(), to);
    return board_action(seen_by(mover, m.from()), to, m.is_promotion());
}

constexpr Move to_move(Action a, Color mover) {
    if (a >= kBoardActions) return Move::drop(Kind((a - kBoardActions) % 7), seen_by(mover, (a - kBoardActions) / 7));
    const Square from = a / 160, skipped = a % 160 / 2;
    return Move::board(seen_by(mover, from), seen_by(mover, skipped + (skipped >= from)), a & 1);
}

}  // namespace keisei::shogi
