// What a network sees: the packed position, and its 46 planes. The planes are made from the packed position alone,
// so that all forms agree by construction. Everything is as the side to move sees it.
#pragma once

#include "position.hpp"

namespace keisei::shogi {

inline constexpr int kPlanes = 46;
inline constexpr int kPlaneCells = kPlanes * kSquares;

// The packed position, byte by byte: 81 squares (0 empty, else plane + 1), own hand, opponent's hand,
// flags, earlier occurrences, plies played (two bytes, low first).
namespace packed {
inline constexpr int kOwnHand = 81, kTheirHand = 88, kFlags = 95, kOccurrences = 96, kPlies = 97, kBytes = 99;
inline constexpr std::uint8_t kWhiteFlag = 1, kCheckFlag = 2;
}  // namespace packed

struct Situation {
    bool in_check;
    int occurrences;  // earlier ones of the same position
    int plies;        // played
};

void pack(const Position& p, const Situation& s, std::uint8_t* out);

// Whether expand() may read these bytes: every square holds nothing or a piece.
bool is_packed(const std::uint8_t* bytes);

// Writes [46, 81]; T is uint8 (counts) or float (counts times kScale).
template <class T>
void expand(const std::uint8_t* packed, int move_limit, T* out);

// The float planes as [81, 46]: what a convolution on a CPU likes best.
void expand_channels_last(const std::uint8_t* packed, int move_limit, float* out);

// What one count is worth in the float planes.
extern const float kScale[kPlanes];

}  // namespace keisei::shogi
