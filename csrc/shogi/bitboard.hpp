// A set of squares: bit s stands for square s.
#pragma once

#include <bit>
#include <cstdint>

#include "types.hpp"

namespace keisei::shogi {

__extension__ typedef unsigned __int128 Bits128;

class Bitboard {
  public:
    constexpr Bitboard() = default;
    explicit constexpr Bitboard(Bits128 bits) : bits_(bits) {}
    static constexpr Bitboard of(Square s) { return Bitboard(Bits128(1) << s); }
    static constexpr Bitboard all() { return Bitboard((Bits128(1) << kSquares) - 1); }

    constexpr Bits128 bits() const { return bits_; }
    constexpr std::uint64_t low() const { return std::uint64_t(bits_); }
    constexpr std::uint64_t high() const { return std::uint64_t(bits_ >> 64); }
    constexpr bool any() const { return bits_ != 0; }
    constexpr bool none() const { return bits_ == 0; }
    constexpr bool has(Square s) const { return (bits_ >> s & 1) != 0; }
    constexpr int count() const { return std::popcount(low()) + std::popcount(high()); }
    constexpr bool more_than_one() const { return (bits_ & (bits_ - 1)) != 0; }
    constexpr Square first() const { return low() ? std::countr_zero(low()) : 64 + std::countr_zero(high()); }

    constexpr Bitboard operator&(Bitboard o) const { return Bitboard(bits_ & o.bits_); }
    constexpr Bitboard operator|(Bitboard o) const { return Bitboard(bits_ | o.bits_); }
    constexpr Bitboard operator^(Bitboard o) const { return Bitboard(bits_ ^ o.bits_); }
    constexpr Bitboard operator~() const { return Bitboard(~bits_) & all(); }
    constexpr Bitboard minus(Bitboard o) const { return Bitboard(bits_ & ~o.bits_); }
    constexpr Bitboard& operator&=(Bitboard o) { return *this = *this & o; }
    constexpr Bitboard& operator|=(Bitboard o) { return *this = *this | o; }
    constexpr Bitboard& operator^=(Bitboard o) { return *this = *this ^ o; }
    constexpr bool operator==(const Bitboard&) const = default;

    // Calls visit(square) for every square of the set, in ascending order.
    template <class Visit>
    constexpr void each(Visit&& visit) const {
        for (std::uint64_t b = low(); b; b &= b - 1) visit(Square(std::countr_zero(b)));
        for (std::uint64_t b = high(); b; b &= b - 1) visit(Square(64 + std::countr_zero(b)));
    }

  private:
    Bits128 bits_ = 0;
};

constexpr Bitboard row_board(int row) { return Bitboard(Bits128(0x1ff) << (9 * row)); }
constexpr Bitboard column_board(int column) {
    Bits128 bits = 0;
    for (int row = 0; row < 9; ++row) bits |= Bits128(1) << (9 * row + column);
    return Bitboard(bits);
}

// The rows nearest to the opponent of `us`: 1 is the last row, 3 its camp.
template <Color us>
constexpr Bitboard last_rows(int count) {
    Bitboard rows;
    for (int i = 0; i < count; ++i) rows |= row_board(us == kBlack ? i : 8 - i);
    return rows;
}

// One step ahead, as `us` sees it; what leaves the board is gone.
template <Color us>
constexpr Bitboard ahead(Bitboard b) {
    if constexpr (us == kBlack) return Bitboard(b.bits() >> 9);
    return Bitboard(b.bits() << 9) & Bitboard::all();
}

}  // namespace keisei::shogi
