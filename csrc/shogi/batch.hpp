// Many games side by side. The caller owns every array; the batch fills them, with several threads if it has them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lane.hpp"
#include "thread_pool.hpp"

namespace keisei::shogi {

enum class ObservationForm : std::uint8_t { kPacked, kUint8, kFloat32 };
enum class LegalForm : std::uint8_t { kList, kMask, kBits };

inline constexpr int kMaskBitBytes = (kActions + 7) / 8;
inline constexpr std::int64_t kPass = -1;  // instead of an action: this lane does not move

struct BatchOptions {
    int copies;
    int threads;
    std::uint64_t seed, first_lane;
    ObservationForm observation;
    LegalForm legal;
};

struct ObservationArrays {
    std::uint8_t* values;
    std::uint8_t* legal;    // list: 16-bit numbers, with room for 593 per lane
    std::int32_t* offsets;  // list only
    std::int8_t* seat;
};

struct StepArrays {
    float* reward;
    float* discount;
    bool* ended;
    bool* cut_off;
    std::uint8_t* reason;
    std::int32_t* length;
    std::uint8_t* final_values;
};

class Batch {
  public:
    Batch(const BatchOptions& options, Terms terms);

    int copies() const { return options_.copies; }
    const Terms& terms() const { return terms_; }
    std::size_t state_bytes() const { return stride_; }
    std::size_t value_bytes() const;  // of one observation
    std::size_t legal_bytes() const;  // room for one lane's legal actions

    void reset(const ObservationArrays& out);
    void observe(const ObservationArrays& out);
    // Returns the first lane whose action is illegal, and then has changed nothing; or -1.
    int step(const std::int64_t* actions, const StepArrays& step, const ObservationArrays& out);

    void save(std::uint8_t* out);
    // Returns the first lane whose state is not one of this batch, and then has changed nothing; or -1.
    int load(const std::uint8_t* saved);

    const Lane& lane(int i) const { return *reinterpret_cast<const Lane*>(memory_.get() + stride_ * std::size_t(i)); }

  private:
    struct FreeAligned {
        void operator()(std::uint8_t* p) const;
    };

    Lane& lane(int i) { return *reinterpret_cast<Lane*>(memory_.get() + stride_ * std::size_t(i)); }
    template <class Visit>
    void each_lane(const Visit& visit);
    template <class Holds>
    int first_lane_without(const Holds& holds);
    void play(int i, std::int64_t action, const StepArrays& step, const ObservationArrays& out);
    void write_values(const Lane& lane, std::uint8_t* out) const;
    void write_lane(int i, const ObservationArrays& out);
    void write_lists(const ObservationArrays& out);

    BatchOptions options_;
    Terms terms_;
    std::uint32_t fingerprint_;
    std::size_t stride_;
    std::unique_ptr<std::uint8_t[], FreeAligned> memory_;
    std::vector<int> chunk_ends_;
    ThreadPool pool_;
};

}  // namespace keisei::shogi
