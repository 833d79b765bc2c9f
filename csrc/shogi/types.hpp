// Colours, kinds of pieces, squares and moves: the words of the game.
#pragma once

#include <array>
#include <cstdint>

namespace keisei::shogi {

enum Color : std::uint8_t { kBlack, kWhite };
constexpr Color operator~(Color c) { return c == kBlack ? kWhite : kBlack; }
inline constexpr int kColors = 2;

// In the order of the observation's planes.
enum Kind : std::uint8_t {
    kPawn,
    kLance,
    kKnight,
    kSilver,
    kGold,
    kBishop,
    kRook,
    kKing,
    kProPawn,
    kProLance,
    kProKnight,
    kProSilver,
    kHorse,
    kDragon,
    kNoKind
};
inline constexpr int kKinds = 14;
inline constexpr int kHandKinds = 7;  // P L N S G B R
inline constexpr int kPromotionOffset[kHandKinds] = {8, 8, 8, 8, 0, 7, 7};

constexpr bool can_promote(Kind k) { return k < kHandKinds && k != kGold; }
constexpr bool is_promoted(Kind k) { return k > kKing; }
constexpr Kind promoted(Kind k) { return Kind(k + kPromotionOffset[k]); }
constexpr Kind unpromoted(Kind k) {
    if (!is_promoted(k)) return k;
    return Kind(k >= kHorse ? k - 7 : k - 8);
}

// How many of each exist: P L N S G B R K.
inline constexpr int kSetOfPieces[8] = {18, 4, 4, 4, 4, 2, 2, 2};
// What a piece counts for in a declaration: P L N S G B R.
inline constexpr int kDeclarationPoints[kHandKinds] = {1, 1, 1, 1, 1, 5, 5};
inline constexpr int kFullSetPoints = 54;

// A square is 9 * row + column as Black sees the board: 0 is 9a, 80 is 1i. White's view of it is 80 - square.
using Square = int;
inline constexpr int kSquares = 81;
inline constexpr Square kNoSquare = -1;
constexpr int row_of(Square s) { return s / 9; }
constexpr int column_of(Square s) { return s % 9; }
constexpr Square flipped(Square s) { return 80 - s; }
constexpr Square seen_by(Color c, Square s) { return c == kBlack ? s : flipped(s); }

// What stands on a square: 0 nothing, 1 + kind for Black, 15 + kind for White.
using Piece = std::uint8_t;
inline constexpr Piece kEmpty = 0;
constexpr Piece make_piece(Color c, Kind k) { return Piece(1 + k + (c == kWhite ? kKinds : 0)); }
constexpr Color color_of(Piece p) { return p > kKinds ? kWhite : kBlack; }
constexpr Kind kind_of(Piece p) { return Kind(p > kKinds ? p - kKinds - 1 : p - 1); }

inline constexpr int kMostLegalMoves = 593;

class Move {
  public:
    constexpr Move() = default;
    static constexpr Move board(Square from, Square to, bool promote) {
        return Move(std::uint16_t(to | from << 7 | (promote ? kPromoteBit : 0)));
    }
    static constexpr Move drop(Kind kind, Square to) { return Move(std::uint16_t(to | kind << 7 | kDropBit)); }
    constexpr Square to() const { return bits_ & 127; }
    constexpr Square from() const { return bits_ >> 7 & 127; }
    constexpr Kind dropped() const { return Kind(bits_ >> 7 & 127); }
    constexpr bool is_drop() const { return bits_ & kDropBit; }
    constexpr bool is_promotion() const { return bits_ & kPromoteBit; }
    constexpr bool operator==(const Move&) const = default;

  private:
    static constexpr std::uint16_t kPromoteBit = 1 << 14;
    static constexpr std::uint16_t kDropBit = 1 << 15;
    explicit constexpr Move(std::uint16_t bits) : bits_(bits) {}
    std::uint16_t bits_ = 0;
};

}  // namespace keisei::shogi
