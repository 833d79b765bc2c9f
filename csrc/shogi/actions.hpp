// The 13,527 numbers of the action space: a move as the side to move sees it.
#pragma once

#include "bitboard.hpp"

#if defined(__AVX512VBMI2__) && defined(__AVX512BW__)
#include <immintrin.h>
#endif

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

// The actions of one piece, or of dropping one kind, as a function of the target square: a straight line with one jump.
struct ActionLine {
    std::int16_t base, slope;
    std::int16_t jump = 0;  // added where the target comes after `pivot`
    std::int16_t pivot = kSquares;

    constexpr Action at(Square to) const { return Action(base + slope * to + (to > pivot ? jump : 0)); }
};

template <Color us>
constexpr ActionLine board_line(Square from, bool promote) {
    const auto base = std::int16_t(seen_by(us, from) * 160 + promote);
    if constexpr (us == kBlack) return {base, 2, -2, std::int16_t(from)};
    return {std::int16_t(base + 2 * 80 - 2), -2, 2, std::int16_t(from)};
}

// Pawns move one step ahead, so the target tells where they come from.
template <Color us>
constexpr ActionLine pawn_line(bool promote) {
    const auto base = std::int16_t(9 * 160 + promote);
    if constexpr (us == kBlack) return {base, 162};
    return {std::int16_t(base + 162 * 80), -162};
}

template <Color us>
constexpr ActionLine drop_line(Kind k) {
    const auto base = std::int16_t(kBoardActions + k);
    if constexpr (us == kBlack) return {base, 7};
    return {std::int16_t(base + 7 * 80), -7};
}

// Writing the actions of a set of targets may write so many numbers past the last one.
inline constexpr int kWriteSlack = 32;

#if defined(__AVX512VBMI2__) && defined(__AVX512BW__)
// Without a branch: every square's number is computed, those of the set are moved together.
inline Action* write_actions(Bitboard targets, const ActionLine& line, Action* out) {
    const __m512i base = _mm512_set1_epi16(line.base), slope = _mm512_set1_epi16(line.slope);
    const __m512i jump = _mm512_set1_epi16(line.jump), pivot = _mm512_set1_epi16(line.pivot);
    __m512i squares = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12,
                                       11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (const std::uint32_t some :
         {std::uint32_t(targets.low()), std::uint32_t(targets.low() >> 32), std::uint32_t(targets.high())}) {
        __m512i numbers = _mm512_add_epi16(_mm512_mullo_epi16(squares, slope), base);
        numbers = _mm512_mask_add_epi16(numbers, _mm512_cmpgt_epi16_mask(squares, pivot), numbers, jump);
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi16(some, numbers));
        out += std::popcount(some);
        squares = _mm512_add_epi16(squares, _mm512_set1_epi16(32));
    }
    return out;
}
#else
inline Action* write_actions(Bitboard targets, const ActionLine& line, Action* out) {
    targets.each([&](Square to) { *out++ = line.at(to); });
    return out;
}
#endif

}  // namespace keisei::shogi
