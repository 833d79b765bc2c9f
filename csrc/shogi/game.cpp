#include "game.hpp"

namespace keisei::shogi {

Game::Game(const Opening& opening, Rules rules)
    : position_(opening.position),
      rules_(rules),
      start_number_(opening.move_number),
      white_bonus_(opening.white_bonus) {
    history_.push_back(trace_of(position_.key(), position_.in_check(position_.turn())));
}

void Game::push(std::string_view usi) {
    const Move m = parse_usi(usi);
    if (!is_legal(position_, m)) throw IllegalMoveError("illegal move '" + std::string(usi) + "' in '" + sfen() + "'");
    play(m);
}

bool Game::can_declare() const {
    return judge_declaration(position_, constraints(position_), rules_.declaration, white_bonus_).reason !=
           Reason::kNone;
}

Outcome Game::outcome() const {
    const Constraints c = constraints(position_);
    const Circumstances at{c, count_legal_moves(position_, c) > 0, judge_repetition(history_), plies(), white_bonus_};
    return judge(position_, at, rules_);
}

void Game::play(Move m) {
    undos_.push_back(position_.do_move(m));
    moves_.push_back(m);
    history_.push_back(trace_of(position_.key(), position_.in_check(position_.turn())));
}

Move Game::take_back() {
    const Move m = moves_.back();
    position_.undo_move(m, undos_.back());
    moves_.pop_back();
    undos_.pop_back();
    history_.pop_back();
    return m;
}

bool Game::operator==(const Game& other) const {
    return position_ == other.position_ && history_ == other.history_ && white_bonus_ == other.white_bonus_ &&
           rules_.declaration == other.rules_.declaration && rules_.move_limit == other.rules_.move_limit;
}

}  // namespace keisei::shogi
