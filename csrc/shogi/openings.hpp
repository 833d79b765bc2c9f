// Where a game begins: the standard position, a handicap by name, or any SFEN.
#pragma once

#include <string_view>
#include <vector>

#include "notation.hpp"

namespace keisei::shogi {

struct Opening {
    Position position;
    int move_number;
    int white_bonus;  // points of the pieces a handicap leaves out
};

// `text` is 'startpos', a handicap's name or an SFEN.
Opening parse_opening(std::string_view text);
// The same position as a handicap: the points of missing pieces count for White.
Opening as_handicap(Opening opening);

std::vector<std::string_view> handicap_names();

}  // namespace keisei::shogi
