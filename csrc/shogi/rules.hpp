// Who has won, and why: mate, repetition, declaration, the move limit, in that order.
#pragma once

#include <span>

#include "movegen.hpp"

namespace keisei::shogi {

enum class Reason : std::uint8_t {
    kNone,
    kCheckmate,
    kStalemate,
    kSennichite,
    kPerpetualCheck,
    kDeclaration,
    kMoveLimit
};
inline constexpr const char* kReasonNames[] = {
    "", "checkmate", "stalemate", "sennichite", "perpetual_check", "declaration", "move_limit"};

enum class Winner : std::int8_t { kNobody = -1, kBlack = 0, kWhite = 1 };
constexpr Winner winner(Color c) { return Winner(c); }

struct Outcome {
    Reason reason = Reason::kNone;
    Winner winner = Winner::kNobody;
};

enum class DeclarationRule : std::uint8_t { kNone, k24, k27 };

struct Rules {
    DeclarationRule declaration = DeclarationRule::k27;
    int move_limit = 512;  // plies played
};

// One position of a game's history: its key, with the lowest bit telling whether the side to move is in check.
// Both are functions of the position, so equal positions have equal traces.
using Trace = std::uint64_t;
constexpr Trace trace_of(Key key, bool in_check) { return (key & ~Key(1)) | Trace(in_check); }
constexpr bool was_check(Trace t) { return t & 1; }

// How often the last position of the history occurred before.
int earlier_occurrences(std::span<const Trace> history);

// What the fourth occurrence of the last position means for who moved last.
enum class Repetition : std::uint8_t { kNone, kDraw, kMoverLoses, kMoverWins };
Repetition judge_repetition(std::span<const Trace> history);

// Points for a declaration of pieces in camp and hand, without what a handicap adds.
int declaration_points(const Position& p, Color c);
// Points of the pieces that are missing from a full set.
int missing_points(const Position& p);

// What a declaration by the side to move would give; nothing where it does not meet the rule.
Outcome judge_declaration(const Position& p, const Constraints& c, DeclarationRule rule, int white_bonus);

// What is needed to judge a position beside the position itself.
struct Circumstances {
    const Constraints& constraints;
    bool has_legal_move;
    Repetition repetition;
    int plies;        // played so far
    int white_bonus;  // what a handicap adds to White's points
};
Outcome judge(const Position& p, const Circumstances& at, const Rules& rules);

}  // namespace keisei::shogi
