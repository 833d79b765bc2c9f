// Which squares a piece attacks. Steps come from tables. Sliders use the subtraction o ^ (o - 2r) along one line,
// which needs 9 KiB of masks and no gather instruction; along a row, a table over its nine bits.
#pragma once

#include "bitboard.hpp"

namespace keisei::shogi {

// A line through a square, without the square itself.
enum LineKind : std::uint8_t { kRowLine, kColumnLine, kFallingLine, kRisingLine, kNoLine };

struct AttackTables {
    Bitboard step[kColors][kKinds][kSquares];  // what a piece attacks by steps alone; nothing for L B R
    Bitboard ray_ahead[kColors][kSquares];     // the column ahead of the square
    Bitboard line[4][kSquares];                // by LineKind
    Bitboard between[kSquares][kSquares];      // the squares strictly between two squares of one line
    LineKind line_kind[kSquares][kSquares];
    std::uint16_t row_attacks[9][512];  // by column and the row's occupancy
    Bitboard columns[512];              // the columns whose bit is set

    AttackTables();
};
extern const AttackTables kAttacks;

inline Bits128 reversed_bytes(Bits128 b) {
    return Bits128(__builtin_bswap64(std::uint64_t(b))) << 64 | __builtin_bswap64(std::uint64_t(b >> 64));
}

// No two squares of such a line share a byte of the board, so reversing bytes reverses the line.
inline Bitboard sparse_line_attacks(Square s, Bitboard occupied, Bitboard line) {
    const Bits128 slider = Bits128(1) << s;
    const Bits128 blockers = (occupied & line).bits();
    const Bits128 up = blockers - slider;
    const Bits128 down = reversed_bytes(reversed_bytes(blockers) - reversed_bytes(slider));
    return Bitboard(up ^ down) & line;
}

inline Bitboard row_attacks(Square s, Bitboard occupied) {
    const int shift = 9 * row_of(s);
    const unsigned row = unsigned(occupied.bits() >> shift) & 0x1ff;
    return Bitboard(Bits128(kAttacks.row_attacks[column_of(s)][row]) << shift);
}

inline Bitboard bishop_attacks(Square s, Bitboard occupied) {
    return sparse_line_attacks(s, occupied, kAttacks.line[kFallingLine][s]) |
           sparse_line_attacks(s, occupied, kAttacks.line[kRisingLine][s]);
}

inline Bitboard rook_attacks(Square s, Bitboard occupied) {
    return row_attacks(s, occupied) | sparse_line_attacks(s, occupied, kAttacks.line[kColumnLine][s]);
}

template <Color us>
inline Bitboard lance_attacks(Square s, Bitboard occupied) {
    const Bitboard ray = kAttacks.ray_ahead[us][s];
    const Bits128 slider = Bits128(1) << s;
    const Bits128 blockers = (occupied & ray).bits();
    if constexpr (us == kWhite) return Bitboard((blockers - slider) ^ blockers) & ray;
    const Bits128 down = reversed_bytes(reversed_bytes(blockers) - reversed_bytes(slider));
    return Bitboard(down ^ blockers) & ray;
}

// The line through both squares, as seen from the first; empty where they share none.
inline Bitboard line_through(Square a, Square b) {
    const LineKind kind = kAttacks.line_kind[a][b];
    return kind == kNoLine ? Bitboard() : kAttacks.line[kind][a] | Bitboard::of(a);
}

}  // namespace keisei::shogi
