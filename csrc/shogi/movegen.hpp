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
    c.checkers =
        ((t.pawn[us][k] & p.pieces(kPawn)) | (t.knight[us][k] & p.pieces(kKnight)) |
         (t.silver[us][k] & p.pieces(kSilver)) | (t.gold[us][k] & p.golds()) | (t.king[k] & (horses | dragons))) &
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

inline constexpr Kind kPiecesBySquare[] = {kLance, kKnight, kSilver, kBishop, kRook, kHorse, kDragon};

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

template <Color us, class Sink>
inline void generate_pieces(const Position& p, const Constraints& c, Bitboard targets, Sink& sink) {
    const Bitboard occupied = p.occupied();
    const auto from_each = [&](Kind k, Bitboard movers) {
        movers.each([&](Square from) {
            Bitboard to = attacks_of<us>(k, from, occupied) & targets;
            if (c.pinned.has(from)) to &= line_through(p.king(us), from);
            emit<us>(sink, k, from, to);
        });
    };
    for (const Kind k : kPiecesBySquare) from_each(k, p.pieces(us, k));
    from_each(kGold, p.golds() & p.pieces(us));
}

template <Color us, class Sink>
inline void generate_king(const Position& p, Sink& sink) {
    const Square k = p.king(us);
    const Bitboard without_king = p.occupied() ^ Bitboard::of(k);
    Bitboard safe;
    kAttacks.king[k].minus(p.pieces(us)).each([&](Square to) {
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
        const Bitboard checking = kAttacks.pawn[~us][p.king(~us)] & to;
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

// Writes the legal moves as action numbers and returns how many there are; `out` has room for 593.
int legal_actions(const Position& p, const Constraints& c, Action* out);

// The number of leaves of the tree of legal moves; the last step is counted, not played.
std::uint64_t perft(Position& p, int depth);

}  // namespace keisei::shogi
