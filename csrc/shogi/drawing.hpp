// Drawing one legal action per lane, straight from the cells that a policy head computes: nothing is padded, and
// nothing is computed for actions that are not legal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actions.hpp"
#include "types.hpp"

namespace keisei::shogi {

inline constexpr int kPartsPerAction = 2;

// What a network says of one lane: an action's logit is the sum of its cells. A part that is no cell adds nothing.
struct Preferences {
    const std::uint32_t* parts;  // [kActions, kPartsPerAction], which cells
    std::size_t cells;
    float temperature;
};

struct Drawn {
    std::int64_t choice;    // the place in the list
    float log_probability;  // NaN where a logit is not a number
};

// The action of the list at which the cumulated probability exceeds `uniform`, which is less than 1; never one of
// probability 0. At least one action, at most kMostLegalMoves, each less than kActions.
Drawn draw(const Preferences& say, const float* cells, const Action* legal, int count, float uniform);

}  // namespace keisei::shogi
