#include "position.hpp"

#include <cstring>

namespace keisei::shogi {
namespace {

// SplitMix64: the keys are constants of the program, so that saved states keep their meaning.
struct KeyStream {
    Key state = 0x6b65697365690001;
    Key next() {
        Key z = state += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
};

}  // namespace

ZobristKeys::ZobristKeys() {
    KeyStream stream;
    for (auto& by_square : piece)
        for (Key& key : by_square) key = stream.next();
    for (auto& by_kind : hand)
        for (auto& by_count : by_kind)
            for (int count = 0; count < 20; ++count) by_count[count] = count == 0 ? 0 : stream.next();
    white_to_move = stream.next();
}

const ZobristKeys kZobrist;

Position::Position() {
    static_assert(sizeof(Position) == 16 * 16 + 81 + 14 + 2 + 1 + 6 + 8);
    std::memset(static_cast<void*>(this), 0, sizeof *this);
    king_[kBlack] = king_[kWhite] = kNoSquare;
}

void Position::put(Color c, Kind k, Square s) {
    toggle(c, k, s);
    board_[s] = make_piece(c, k);
    key_ ^= kZobrist.piece[board_[s]][s];
    if (k == kKing) king_[c] = std::int8_t(s);
}

void Position::set_hand(Color c, Kind k, int count) { change_hand(c, k, count - hand_[c][k]); }

void Position::set_turn(Color c) {
    if (c != turn()) key_ ^= kZobrist.white_to_move;
    turn_ = c;
}

void Position::undo_move(Move m, const Undo& undo) {
    const Color us = ~turn();
    const Square to = m.to();
    turn_ = us;
    if (m.is_drop()) {
        change_hand(us, m.dropped(), 1);
        toggle(us, m.dropped(), to);
        board_[to] = kEmpty;
    } else {
        const Kind after = kind_of(board_[to]), before = m.is_promotion() ? unpromoted(after) : after;
        toggle(us, after, to);
        toggle(us, before, m.from());
        board_[m.from()] = make_piece(us, before);
        board_[to] = undo.captured;
        if (before == kKing) king_[us] = std::int8_t(m.from());
        if (undo.captured != kEmpty) {
            const Kind taken = kind_of(undo.captured);
            toggle(~us, taken, to);
            change_hand(us, unpromoted(taken), -1);
        }
    }
    key_ = undo.key;
}

bool Position::in_check(Color c) const {
    if (!has_king(c)) return false;
    return c == kBlack ? is_attacked<kWhite>(king(c), occupied()) : is_attacked<kBlack>(king(c), occupied());
}

bool Position::operator==(const Position& other) const {
    return turn_ == other.turn_ && std::memcmp(board_, other.board_, sizeof board_) == 0 &&
           std::memcmp(hand_, other.hand_, sizeof hand_) == 0;
}

}  // namespace keisei::shogi
