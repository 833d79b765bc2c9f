// One game with its whole history: moves forth and back, and how it stands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "features.hpp"
#include "openings.hpp"
#include "rules.hpp"

namespace keisei::shogi {

// A move that the rules do not allow, and where.
class IllegalMoveError : public std::invalid_argument {
  public:
    using std::invalid_argument::invalid_argument;
};

class Game {
  public:
    Game(const Opening& opening, Rules rules);

    const Position& position() const { return position_; }
    const Rules& rules() const { return rules_; }
    const std::vector<Move>& moves() const { return moves_; }
    const std::vector<Trace>& history() const { return history_; }
    int plies() const { return int(moves_.size()); }
    std::string sfen() const { return to_sfen(position_, start_number_ + plies()); }

    bool in_check() const { return was_check(history_.back()); }
    int occurrences() const { return earlier_occurrences(history_) + 1; }
    bool can_declare() const;
    Outcome outcome() const;
    Situation situation() const { return {in_check(), occurrences() - 1, plies()}; }

    void push(std::string_view usi);  // raises IllegalMoveError, or NotationError where it is no move at all
    void play(Move m);                // must be legal
    Move take_back();                 // there must be a move

    // Two games are equal when their positions, rules and histories are.
    bool operator==(const Game& other) const;

  private:
    Position position_;
    Rules rules_;
    int start_number_ = 1;
    int white_bonus_ = 0;
    std::vector<Move> moves_;
    std::vector<Undo> undos_;
    std::vector<Trace> history_;
};

}  // namespace keisei::shogi
