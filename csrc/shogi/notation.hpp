// SFEN and USI: positions and moves as text. Any text gives a position or move, or an error that names the field.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "position.hpp"

namespace keisei::shogi {

// What is wrong with which field of which text.
class NotationError : public std::invalid_argument {
  public:
    using std::invalid_argument::invalid_argument;
};

inline constexpr const char* kStartSfen = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1";

struct NumberedPosition {
    Position position;
    int move_number;
};

NumberedPosition parse_sfen(std::string_view text);
std::string to_sfen(const Position& p, int move_number);

Move parse_usi(std::string_view text);
std::string to_usi(Move m);
std::string to_usi(Square s);

}  // namespace keisei::shogi
