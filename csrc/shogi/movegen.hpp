// All legal moves, generated directly: pins and checks narrow the targets, nothing is tried and taken back.
// What becomes of the moves is the sink's business: a list, action numbers, or a mere count.
#pragma once

#include "actions.hpp"
#include "position.hpp"

namespace keisei::shogi {

// What binds the side to move.
struct Constraints {
    Bitboard checkers;  // the opponent's pieces that give check
    Bitboard pinned;    // own pieces that shield the king
};

template <Color us>
Constraints constraints(const Position& p) {
    Constraints c;
    if (!p.has_king(us)) return c;
    const AttackTables& t = kAttacks;
    const Square k = p.king(us);
    const Bitboard theirs = p.pieces(~us), occupied = p.occupied();
    const Bitboard horses = p.pieces(kHorse), dragons = p.pieces(kDragon);
    c.checkers = ((t.step[us][kPawn][k] & p.pieces(kPawn)) | (t.step[us][kKnight][k] & p.pieces(kKnight)) |
                  (t.step[us][kSilver][k] & p.pieces(kSilver)) | (t.step[us][kGold][k] & p.golds()) |
                  (t.step[kBlack][kKing][k] & (horses | dragons))) &
                 theirs;
    const Bitboard snipers = (((t.line[kFallingLine][k] | t.line[kRisingLine][k]) & (p.pieces(kBishop) | horses)) |
                              ((t.line[kRowLine][k] | t.line[kColumnLine][k]) & (p.pieces(kRook) | dragons)) |
                              (t.ray_ahead[us][k] & p.pieces(kLance))) &
                             theirs;
    snipers.each([&](Square s) {
        const Bitboard shield = t.between[k][s] & occupied;
        if (shield.none())
            c.checkers |= Bitboard::of(s);
        else if (!shield.more_than_one())
            c.pinned |= shield & p.pieces(us);
    });
    return c;
}

// Whether a pawn of `us` dropped at `s` is mate (uchifuzume). The square is empty and the pawn gives check.
template <Color us>
bool is_drop_pawn_mate(const Position& p, Square s);

namespace detail {

template <Color us>
constexpr Bitboard may_stand(Kind k) {
    if (k == kPawn || k == kLance) return ~last_rows<us>(1);
    if (k == kKnight) return ~last_rows<us>(2);
    return Bitboard::all();
}

template <Color us, class Sink>
inline void emit(Sink& sink, Kind k, Square from, Bitboard to) {
    constexpr Bitboard camp = last_rows<us>(3);
    if (can_promote(k)) {
        const Bitboard promoting = camp.has(from) ? to : to & camp;
        if (promoting.any()) sink.template board<true>(from, promoting);
        sink.template board<false>(from, to & may_stand<us>(k));
    } else {
        sink.template board<false>(from, to);
    }
}

template <Color us, class Sink>
inline void generate_pawns(const Position& p, const Constraints& c, Bitboard targets, Sink& sink) {
    Bitboard pawns = p.pieces(us, kPawn);
    if (c.pinned.any()) pawns = pawns.minus(c.pinned.minus(kAttacks.line[kColumnLine][p.king(us)]));
    const Bitboard to = ahead<us>(pawns) & targets;
    sink.template pawns<true>(to & last_rows<us>(3));
    sink.template pawns<false>(to & may_stand<us>(kPawn));
}

// Few loops over many pieces rather than many over few: each loop's end is a branch that is guessed wrongly.
template <Color us, class Sink>
inline void generate_pieces(const Position& p, const Constraints& c, Bitboard targets, Sink& sink) {
    const Bitboard occupied = p.occupied(), ours = p.pieces(us);
    const auto emit_from = [&](Kind k, Square from, Bitboard to) {
        to &= targets;
        if (c.pinned.has(from)) to &= line_through(p.king(us), from);
        emit<us>(sink, k, from, to);
    };
    ((p.pieces(kKnight) | p.pieces(kSilver) | p.golds()) & ours).each([&](Square from) {
        const Kind k = kind_of(p.at(from));
        emit_from(k, from, kAttacks.step[us][k][from]);
    });
    p.pieces(us, kLance).each([&](Square from) { emit_from(kLance, from, lance_attacks<us>(from, occupied)); });
    ((p.pieces(kBishop) | p.pieces(kHorse)) & ours).each([&](Square from) {
        const Kind k = kind_of(p.at(from));
        emit_from(k, from, bishop_attacks(from, occupied) | kAttacks.step[us][k][from]);
    });
    ((p.pieces(kRook) | p.pieces(kDragon)) & ours).each([&](Square from) {
        const Kind k = kind_of(p.at(from));
        emit_from(k, from, rook_attacks(from, occupied) | kAttacks.step[us][k][from]);
    });
}

template <Color us, class Sink>
inline void generate_king(const Position& p, Sink& sink) {
    const Square k = p.king(us);
    const Bitboard without_king = p.occupied() ^ Bitboard::of(k);
    Bitboard safe;
    kAttacks.step[kBlack][kKing][k].minus(p.pieces(us)).each([&](Square to) {
        if (!p.is_attacked<~us>(to, without_king)) safe |= Bitboard::of(to);
    });
    sink.template board<false>(k, safe);
}

template <Color us>
inline Bitboard pawn_drop_targets(const Position& p, Bitboard targets) {
    Bits128 pawns = p.pieces(us, kPawn).bits();
    pawns |= pawns >> 9 | pawns >> 18;
    pawns |= pawns >> 27 | pawns >> 54;
    Bitboard to = targets.minus(kAttacks.columns[unsigned(pawns) & 0x1ff]) & may_stand<us>(kPawn);
    if (p.has_king(~us)) {
        const Bitboard checking = kAttacks.step[~us][kPawn][p.king(~us)] & to;
        if (checking.any() && is_drop_pawn_mate<us>(p, checking.first())) to ^= checking;
    }
    return to;
}

template <Color us, class Sink>
inline void generate_drops(const Position& p, Bitboard targets, Sink& sink) {
    if (targets.none()) return;
    if (p.hand(us, kPawn)) sink.drops(kPawn, pawn_drop_targets<us>(p, targets));
    for (int k = kLance; k < kHandKinds; ++k)
        if (p.hand(us, Kind(k))) sink.drops(Kind(k), targets & may_stand<us>(Kind(k)));
}

}  // namespace detail

// Gives every legal move of `us`, whose turn it is, to the sink; always in the same order.
template <Color us, class Sink>
void generate(const Position& p, const Constraints& c, Sink& sink) {
    Bitboard targets = ~p.pieces(us), drop_targets = ~p.occupied();
    if (c.checkers.any()) {
        if (c.checkers.more_than_one()) return detail::generate_king<us>(p, sink);
        const Bitboard between = kAttacks.between[p.king(us)][c.checkers.first()];
        targets = between | c.checkers;
        drop_targets = between;
    }
    detail::generate_pawns<us>(p, c, targets, sink);
    detail::generate_pieces<us>(p, c, targets, sink);
    if (p.has_king(us)) detail::generate_king<us>(p, sink);
    detail::generate_drops<us>(p, drop_targets, sink);
}

template <class Sink>
void generate(const Position& p, const Constraints& c, Sink& sink) {
    p.turn() == kBlack ? generate<kBlack>(p, c, sink) : generate<kWhite>(p, c, sink);
}

inline Constraints constraints(const Position& p) {
    return p.turn() == kBlack ? constraints<kBlack>(p) : constraints<kWhite>(p);
}

// Room for every legal move of a position.
struct MoveList {
    Move moves[kMostLegalMoves];
    int size = 0;

    const Move* begin() const { return moves; }
    const Move* end() const { return moves + size; }
};

MoveList legal_moves(const Position& p);
int count_legal_moves(const Position& p, const Constraints& c);
bool is_legal(const Position& p, Move m);

// Writes the legal moves as action numbers and returns how many there are; `out` has room for kActionRoom.
inline constexpr int kActionRoom = kMostLegalMoves + kWriteSlack;
int legal_actions(const Position& p, const Constraints& c, Action* out);

// The number of leaves of the tree of legal moves; the last step is counted, not played.
std::uint64_t perft(Position& p, int depth);

}  // namespace keisei::shogi
