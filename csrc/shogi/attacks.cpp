#include "attacks.hpp"

#include <cstring>
#include <initializer_list>

namespace keisei::shogi {
namespace {

struct Direction {
    int row, column;
};

bool on_board(int row, int column) { return row >= 0 && row < 9 && column >= 0 && column < 9; }

// Directions are given as Black sees them; White's are turned.
Bitboard steps(Color color, Square s, std::initializer_list<Direction> directions) {
    Bitboard result;
    for (const auto [row, column] : directions) {
        const int sign = color == kBlack ? 1 : -1;
        const int r = row_of(s) + sign * row, c = column_of(s) + sign * column;
        if (on_board(r, c)) result |= Bitboard::of(9 * r + c);
    }
    return result;
}

Bitboard ray(Square s, Direction d) {
    Bitboard result;
    for (int r = row_of(s) + d.row, c = column_of(s) + d.column; on_board(r, c); r += d.row, c += d.column)
        result |= Bitboard::of(9 * r + c);
    return result;
}

constexpr Direction kLineDirection[4] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};

std::uint16_t attacks_within_row(int column, unsigned occupied) {
    unsigned result = 0;
    for (int c = column + 1; c < 9; ++c) {
        result |= 1u << c;
        if (occupied >> c & 1) break;
    }
    for (int c = column - 1; c >= 0; --c) {
        result |= 1u << c;
        if (occupied >> c & 1) break;
    }
    return std::uint16_t(result);
}

}  // namespace

AttackTables::AttackTables() {
    for (Square s = 0; s < kSquares; ++s) {
        for (Color c : {kBlack, kWhite}) {
            step[c][kPawn][s] = steps(c, s, {{-1, 0}});
            step[c][kKnight][s] = steps(c, s, {{-2, -1}, {-2, 1}});
            step[c][kSilver][s] = steps(c, s, {{-1, -1}, {-1, 0}, {-1, 1}, {1, -1}, {1, 1}});
            for (const Kind k : {kGold, kProPawn, kProLance, kProKnight, kProSilver})
                step[c][k][s] = steps(c, s, {{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, 0}});
            for (const Kind k : {kKing, kHorse, kDragon})
                step[c][k][s] = steps(c, s, {{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, -1}, {1, 0}, {1, 1}});
            ray_ahead[c][s] = ray(s, {c == kBlack ? -1 : 1, 0});
        }
        for (Square t = 0; t < kSquares; ++t) line_kind[s][t] = kNoLine;
        for (int k = 0; k < 4; ++k) {
            const Direction d = kLineDirection[k];
            const Bitboard forward = ray(s, d), backward = ray(s, {-d.row, -d.column});
            line[k][s] = forward | backward;
            for (const Bitboard half : {forward, backward})
                half.each([&](Square t) {
                    const bool is_forward = forward.has(t);
                    line_kind[s][t] = LineKind(k);
                    between[s][t] = half.minus(ray(t, is_forward ? d : Direction{-d.row, -d.column}) | Bitboard::of(t));
                });
        }
    }
    for (int column = 0; column < 9; ++column)
        for (unsigned occupied = 0; occupied < 512; ++occupied)
            row_attacks[column][occupied] = attacks_within_row(column, occupied);
    for (unsigned set = 0; set < 512; ++set)
        for (int column = 0; column < 9; ++column)
            if (set >> column & 1) columns[set] |= column_board(column);
}

const AttackTables kAttacks;

}  // namespace keisei::shogi
