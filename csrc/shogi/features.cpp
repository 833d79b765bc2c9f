#include "features.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace keisei::shogi {
namespace {

inline constexpr int kHandPlanes = 28, kWhitePlane = 42, kPliesPlane = 43, kOccurrencesPlane = 44, kCheckPlane = 45;
inline constexpr int kMostCounted = 255;

constexpr std::array<std::uint8_t, 2 * kKinds + 1> kAsWhiteSees = [] {
    std::array<std::uint8_t, 2 * kKinds + 1> table{};
    for (int piece = 1; piece <= 2 * kKinds; ++piece)
        table[std::size_t(piece)] = std::uint8_t(piece > kKinds ? piece - kKinds : piece + kKinds);
    return table;
}();

template <class T>
T cell(int plane, int count) {
    if constexpr (std::is_floating_point_v<T>) return float(count) * kScale[plane];
    return T(count);
}

// Calls put(plane, square) for every piece on the board; eight squares at a time, since most hold nothing.
template <class Put>
void each_piece(const std::uint8_t* board, const Put& put) {
    for (Square base = 0; base < kSquares; base += 8) {
        const int size = std::min(8, kSquares - base);
        std::uint64_t eight = 0;
        std::memcpy(&eight, board + base, std::size_t(size));
        for (; eight; eight &= ~(std::uint64_t(0xff) << (std::countr_zero(eight) & 56))) {
            const Square s = base + std::countr_zero(eight) / 8;
            put(board[s] - 1, s);
        }
    }
}

// Calls fill(plane, count) for every plane that holds one count throughout, and not 0.
template <class Fill>
void each_full_plane(const std::uint8_t* in, int move_limit, const Fill& fill) {
    const auto fill_counted = [&](int plane, int count) {
        if (count) fill(plane, count);
    };
    for (int k = 0; k < 2 * kHandKinds; ++k) fill_counted(kHandPlanes + k, in[packed::kOwnHand + k]);
    const int plies = in[packed::kPlies] | in[packed::kPlies + 1] << 8;
    fill_counted(kWhitePlane, in[packed::kFlags] & packed::kWhiteFlag ? 1 : 0);
    fill_counted(kPliesPlane, std::min(255 * plies / move_limit, kMostCounted));
    fill_counted(kOccurrencesPlane, in[packed::kOccurrences]);
    fill_counted(kCheckPlane, in[packed::kFlags] & packed::kCheckFlag ? 1 : 0);
}

}  // namespace

const float kScale[kPlanes] = {
    1,       1,       1,       1,       1,        1,       1,       1,         1,       1,       1,       1,
    1,       1,       1,       1,       1,        1,       1,       1,         1,       1,       1,       1,
    1,       1,       1,       1,       1.f / 18, 1.f / 4, 1.f / 4, 1.f / 4,   1.f / 4, 1.f / 2, 1.f / 2, 1.f / 18,
    1.f / 4, 1.f / 4, 1.f / 4, 1.f / 4, 1.f / 2,  1.f / 2, 1,       1.f / 255, 1.f / 3, 1,
};

void pack(const Position& p, const Situation& s, std::uint8_t* out) {
    const Color us = p.turn();
    if (us == kBlack) {
        for (Square q = 0; q < kSquares; ++q) out[q] = p.at(q);
    } else {
        for (Square q = 0; q < kSquares; ++q) out[flipped(q)] = kAsWhiteSees[p.at(q)];
    }
    for (int k = 0; k < kHandKinds; ++k) {
        out[packed::kOwnHand + k] = std::uint8_t(p.hand(us, Kind(k)));
        out[packed::kTheirHand + k] = std::uint8_t(p.hand(~us, Kind(k)));
    }
    out[packed::kFlags] = std::uint8_t((us == kWhite ? packed::kWhiteFlag : 0) | (s.in_check ? packed::kCheckFlag : 0));
    out[packed::kOccurrences] = std::uint8_t(std::min(s.occurrences, kMostCounted));
    out[packed::kPlies] = std::uint8_t(s.plies & 0xff);
    out[packed::kPlies + 1] = std::uint8_t(s.plies >> 8);
}

bool is_packed(const std::uint8_t* bytes) {
    bool fits = true;  // without an early exit, so that the compiler compares many at once
    for (Square s = 0; s < kSquares; ++s) fits &= bytes[s] <= 2 * kKinds;
    return fits;
}

template <class T>
void expand(const std::uint8_t* in, int move_limit, T* out) {
    std::memset(out, 0, sizeof(T) * kPlaneCells);
    each_piece(in, [&](int plane, Square s) { out[plane * kSquares + s] = T(1); });
    each_full_plane(in, move_limit, [&](int plane, int count) {
        std::fill_n(out + plane * kSquares, kSquares, cell<T>(plane, count));
    });
}
template void expand<std::uint8_t>(const std::uint8_t*, int, std::uint8_t*);
template void expand<float>(const std::uint8_t*, int, float*);

void expand_channels_last(const std::uint8_t* in, int move_limit, float* out) {
    float row[kPlanes] = {};
    each_full_plane(in, move_limit, [&](int plane, int count) { row[plane] = cell<float>(plane, count); });
    for (Square s = 0; s < kSquares; ++s) std::memcpy(out + s * kPlanes, row, sizeof row);
    each_piece(in, [&](int plane, Square s) { out[s * kPlanes + plane] = 1; });
}

}  // namespace keisei::shogi
