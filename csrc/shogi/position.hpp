// A position: the board, the hands, whose turn it is, and its key. Knows how to play and take back a move, and who
// attacks a square. Knows neither history nor results.
#pragma once

#include <cstdint>

#include "attacks.hpp"

namespace keisei::shogi {

using Key = std::uint64_t;

// Tells positions (board, side to move, hands) apart.
struct ZobristKeys {
    Key piece[2 * kKinds + 1][kSquares];
    Key hand[kColors][kHandKinds][20];
    Key white_to_move;

    ZobristKeys();
};
extern const ZobristKeys kZobrist;

// What playing a move destroys.
struct Undo {
    Key key;
    Piece captured;
};

class Position {
  public:
    Position();  // an empty board, Black to move

    Color turn() const { return Color(turn_); }
    Piece at(Square s) const { return board_[s]; }
    int hand(Color c, Kind k) const { return hand_[c][k]; }
    bool has_king(Color c) const { return king_[c] != kNoSquare; }
    Square king(Color c) const { return king_[c]; }
    Key key() const { return key_; }

    Bitboard occupied() const { return color_[kBlack] | color_[kWhite]; }
    Bitboard pieces(Color c) const { return color_[c]; }
    Bitboard pieces(Kind k) const { return kind_[k]; }
    Bitboard pieces(Color c, Kind k) const { return color_[c] & kind_[k]; }
    // Everything that moves as a gold does.
    Bitboard golds() const {
        return kind_[kGold] | kind_[kProPawn] | kind_[kProLance] | kind_[kProKnight] | kind_[kProSilver];
    }

    void put(Color c, Kind k, Square s);
    void set_hand(Color c, Kind k, int count);
    void set_turn(Color c);

    // The move must be legal, or at least pseudo-legal; nothing is checked.
    Undo do_move(Move m) { return turn_ == kBlack ? do_move<kBlack>(m) : do_move<kWhite>(m); }
    void undo_move(Move m, const Undo& undo);
    template <Color us>
    Undo do_move(Move m);

    // Pieces of `by` that attack the square while `occupied` stands on the board.
    template <Color by>
    Bitboard attackers(Square s, Bitboard occupied) const;
    template <Color by>
    bool is_attacked(Square s, Bitboard occupied) const;
    bool in_check(Color c) const;

    bool operator==(const Position& other) const;

  private:
    void toggle(Color c, Kind k, Square s) {
        color_[c] ^= Bitboard::of(s);
        kind_[k] ^= Bitboard::of(s);
    }
    void change_hand(Color c, Kind k, int by) {
        key_ ^= kZobrist.hand[c][k][hand_[c][k]];
        hand_[c][k] = std::uint8_t(hand_[c][k] + by);
        key_ ^= kZobrist.hand[c][k][hand_[c][k]];
    }

    Bitboard color_[kColors];
    Bitboard kind_[kKinds];
    Piece board_[kSquares];
    std::uint8_t hand_[kColors][kHandKinds];
    std::int8_t king_[kColors];
    std::uint8_t turn_;
    std::uint8_t unused_[6];  // keeps the bytes of a position free of holes
    Key key_;
};

template <Color us>
Undo Position::do_move(Move m) {
    const Square to = m.to();
    Undo undo{key_, kEmpty};
    key_ ^= kZobrist.white_to_move;
    turn_ = ~us;
    if (m.is_drop()) {
        const Kind k = m.dropped();
        change_hand(us, k, -1);
        toggle(us, k, to);
        board_[to] = make_piece(us, k);
        key_ ^= kZobrist.piece[board_[to]][to];
        return undo;
    }
    const Square from = m.from();
    const Piece moving = board_[from];
    const Kind before = kind_of(moving), after = m.is_promotion() ? promoted(before) : before;
    undo.captured = board_[to];
    if (undo.captured != kEmpty) {
        const Kind taken = kind_of(undo.captured);
        toggle(~us, taken, to);
        key_ ^= kZobrist.piece[undo.captured][to];
        if (taken != kKing) change_hand(us, unpromoted(taken), 1);
    }
    toggle(us, before, from);
    toggle(us, after, to);
    board_[from] = kEmpty;
    board_[to] = make_piece(us, after);
    key_ ^= kZobrist.piece[moving][from] ^ kZobrist.piece[board_[to]][to];
    if (before == kKing) king_[us] = std::int8_t(to);
    return undo;
}

template <Color by>
inline Bitboard Position::attackers(Square s, Bitboard occupied) const {
    constexpr Color us = ~by;  // who stands on a square is attacked from where its own kind would attack
    const AttackTables& t = kAttacks;
    Bitboard result = (t.step[us][kPawn][s] & kind_[kPawn]) | (t.step[us][kKnight][s] & kind_[kKnight]) |
                      (t.step[us][kSilver][s] & kind_[kSilver]) | (t.step[us][kGold][s] & golds()) |
                      (t.step[kBlack][kKing][s] & (kind_[kKing] | kind_[kHorse] | kind_[kDragon]));
    const Bitboard bishops = kind_[kBishop] | kind_[kHorse], rooks = kind_[kRook] | kind_[kDragon];
    const Bitboard snipers =
        (((t.line[kFallingLine][s] | t.line[kRisingLine][s]) & bishops) |
         ((t.line[kRowLine][s] | t.line[kColumnLine][s]) & rooks) | (t.ray_ahead[us][s] & kind_[kLance])) &
        color_[by];
    snipers.each([&](Square from) {
        if ((t.between[s][from] & occupied).none()) result |= Bitboard::of(from);
    });
    return result & color_[by];
}

template <Color by>
inline bool Position::is_attacked(Square s, Bitboard occupied) const {
    return attackers<by>(s, occupied).any();
}

}  // namespace keisei::shogi
