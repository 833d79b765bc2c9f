#include "rules.hpp"

namespace keisei::shogi {
namespace {

inline constexpr int kPiecesInCamp = 10;

// Whether the positions `last`, `last - 2`, ... after `first` are all checks.
bool always_check(std::span<const Trace> history, int first, int last) {
    for (int i = last; i > first; i -= 2)
        if (!was_check(history[std::size_t(i)])) return false;
    return true;
}

Bitboard camp_of(Color c) { return c == kBlack ? last_rows<kBlack>(3) : last_rows<kWhite>(3); }

int points_on(const Position& p, Bitboard squares) {
    const Bitboard big = p.pieces(kRook) | p.pieces(kDragon) | p.pieces(kBishop) | p.pieces(kHorse);
    return squares.minus(p.pieces(kKing)).count() + 4 * (squares & big).count();
}

int points_in_hand(const Position& p, Color c) {
    int points = 0;
    for (int k = 0; k < kHandKinds; ++k) points += kDeclarationPoints[k] * p.hand(c, Kind(k));
    return points;
}

}  // namespace

int earlier_occurrences(std::span<const Trace> history) {
    const Trace present = history.back();
    int count = 0;
    for (const Trace t : history.first(history.size() - 1)) count += t == present;
    return count;
}

Repetition judge_repetition(std::span<const Trace> history) {
    const Trace present = history.back();
    int occurrences[4], found = 0;
    for (std::size_t i = 0; i < history.size() && found < 4; ++i)
        if (history[i] == present) occurrences[found++] = int(i);
    if (found < 4) return Repetition::kNone;
    const int first = occurrences[0], fourth = occurrences[3];
    const bool by_mover = always_check(history, first, fourth);
    const bool by_other = always_check(history, first, fourth - 1);
    if (by_mover == by_other) return Repetition::kDraw;
    return by_mover ? Repetition::kMoverLoses : Repetition::kMoverWins;
}

int declaration_points(const Position& p, Color c) {
    return points_on(p, p.pieces(c) & camp_of(c)) + points_in_hand(p, c);
}

int missing_points(const Position& p) {
    return kFullSetPoints - points_on(p, p.occupied()) - points_in_hand(p, kBlack) - points_in_hand(p, kWhite);
}

Outcome judge_declaration(const Position& p, const Constraints& c, DeclarationRule rule, int white_bonus) {
    const Color us = p.turn();
    if (rule == DeclarationRule::kNone || !p.has_king(us) || c.checkers.any()) return {};
    const Bitboard camp = camp_of(us);
    if (!camp.has(p.king(us)) || (p.pieces(us) & camp).count() < kPiecesInCamp + 1) return {};
    const int points = declaration_points(p, us) + (us == kWhite ? white_bonus : 0);
    if (rule == DeclarationRule::k27) {
        if (points < (us == kBlack ? 28 : 27)) return {};
        return {Reason::kDeclaration, winner(us)};
    }
    if (points < 24) return {};
    return {Reason::kDeclaration, points >= 31 ? winner(us) : Winner::kNobody};
}

Outcome judge(const Position& p, const Circumstances& at, const Rules& rules) {
    const Color us = p.turn();
    if (!at.has_legal_move)
        return {at.constraints.checkers.any() ? Reason::kCheckmate : Reason::kStalemate, winner(~us)};
    switch (at.repetition) {
        case Repetition::kDraw:
            return {Reason::kSennichite, Winner::kNobody};
        case Repetition::kMoverLoses:
            return {Reason::kPerpetualCheck, winner(us)};
        case Repetition::kMoverWins:
            return {Reason::kPerpetualCheck, winner(~us)};
        case Repetition::kNone:
            break;
    }
    const Outcome declared = judge_declaration(p, at.constraints, rules.declaration, at.white_bonus);
    if (declared.reason != Reason::kNone) return declared;
    if (at.plies >= rules.move_limit) return {Reason::kMoveLimit, Winner::kNobody};
    return {};
}

}  // namespace keisei::shogi
