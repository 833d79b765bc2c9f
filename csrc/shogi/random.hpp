// Counter-based random numbers (Philox 4x32-10): number `i` of stream (seed, lane) needs no state but its counter.
#pragma once

#include <array>
#include <cstdint>

namespace keisei::shogi {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t(0xD2511F53) * counter[0], b = std::uint64_t(0xCD9E8D57) * counter[2];
        counter = {std::uint32_t(b >> 32) ^ counter[1] ^ key[0], std::uint32_t(b),
                   std::uint32_t(a >> 32) ^ counter[3] ^ key[1], std::uint32_t(a)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter;
}

// The stream of one lane. `drawn` belongs to the lane's state and moves on by one with each number.
class LaneStream {
  public:
    LaneStream(std::uint64_t seed, std::uint64_t lane, std::uint64_t& drawn)
        : seed_(seed), lane_(lane), drawn_(drawn) {}

    std::uint64_t next() {
        const PhiloxBlock block = philox(
            {std::uint32_t(drawn_), std::uint32_t(drawn_ >> 32), std::uint32_t(lane_), std::uint32_t(lane_ >> 32)},
            {std::uint32_t(seed_), std::uint32_t(seed_ >> 32)});
        ++drawn_;
        return std::uint64_t(block[1]) << 32 | block[0];
    }

    // Uniform in 0..n-1, without bias.
    std::uint64_t below(std::uint64_t n) {
        const std::uint64_t reject = -n % n;  // the 2^64 mod n lowest numbers
        std::uint64_t x = next();
        while (x < reject) x = next();
        return x % n;
    }

    // True with this probability.
    bool chance(double share) { return double(next() >> 11) * 0x1p-53 < share; }

  private:
    std::uint64_t seed_, lane_;
    std::uint64_t& drawn_;
};

}  // namespace keisei::shogi
