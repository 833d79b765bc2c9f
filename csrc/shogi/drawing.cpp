#include "drawing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace keisei::shogi {
namespace {

inline constexpr float kLargest = 1e30f;  // logits beyond count as this: the difference of two must be a number
inline constexpr float kLeastExponent = -87.f;

using Row = std::array<float, kMostLegalMoves>;

// e^x for x <= 0, within two units of the last digit; 0 where it would be below 1e-37. Without a call or a branch, so
// that the compiler computes many at once.
float exponential(float x) {
    const float limited = std::max(x, kLeastExponent);
    const float whole = std::nearbyint(limited * 1.44269504f);  // in units of log 2, which is subtracted in two parts
    const float rest = std::fma(whole, 2.12194440e-4f, std::fma(whole, -0.693359375f, limited));
    float sum = 1.9875691500e-4f;
    for (const float next : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        sum = std::fma(sum, rest, next);
    sum = std::fma(sum, rest * rest, rest + 1.f);
    const float power = std::bit_cast<float>((std::int32_t(whole) + 127) << 23);
    return x < kLeastExponent ? 0.f : sum * power;
}

float cell(const Preferences& say, const float* cells, std::uint32_t part) {
    return part < say.cells ? cells[part] : 0.f;
}

// Fills the row with the logits; gives the largest, or NaN where one is not a number.
float read_logits(const Preferences& say, const float* cells, const Action* legal, int count, Row& row) {
    float largest = -kLargest;
    bool numbers = true;
    for (int i = 0; i < count; ++i) {
        const std::uint32_t* const parts = say.parts + kPartsPerAction * legal[i];
        const float logit = (cell(say, cells, parts[0]) + cell(say, cells, parts[1])) / say.temperature;
        numbers &= logit == logit;
        row[std::size_t(i)] = std::clamp(logit, -kLargest, kLargest);
        largest = std::max(largest, row[std::size_t(i)]);
    }
    return numbers ? largest : std::nanf("");
}

}  // namespace

Drawn draw(const Preferences& say, const float* cells, const Action* legal, int count, float uniform) {
    Row logits, weights;
    const float largest = read_logits(say, cells, legal, count, logits);
    if (std::isnan(largest)) return {0, largest};
    for (std::size_t i = 0; i < std::size_t(count); ++i) weights[i] = exponential(logits[i] - largest);
    double total = 0;
    for (std::size_t i = 0; i < std::size_t(count); ++i) total += double(weights[i]);
    double cumulated = 0;
    std::size_t choice = 0;
    for (std::size_t i = 0; i < std::size_t(count) && cumulated <= double(uniform) * total; ++i) {
        cumulated += double(weights[i]);
        choice = i;
    }
    return {std::int64_t(choice), logits[choice] - largest - float(std::log(total))};
}

}  // namespace keisei::shogi
