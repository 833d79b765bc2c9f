#include "batch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace keisei::shogi {
namespace {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr int kLeastLanesPerChunk = 4;

std::uint8_t* allocate(std::size_t bytes) {
    void* p = std::aligned_alloc(kCacheLine, bytes);
    if (!p) throw std::bad_alloc();
    return static_cast<std::uint8_t*>(std::memset(p, 0, bytes));
}

// Where each chunk of a thread's lanes ends. They grow ever smaller, each half of what is left: few are handed out, and
// at the end no thread waits long for another.
std::vector<int> chunk_ends(int copies, int threads) {
    const int lanes = (copies + threads - 1) / threads;
    std::vector<int> ends;
    for (int end = 0; end < lanes; ends.push_back(end)) {
        const int left = lanes - end, share = threads > 1 ? left / 2 : left;
        end += std::min(left, std::max(share, kLeastLanesPerChunk));
    }
    return ends;
}

void write_mask(std::span<const Action> legal, std::uint8_t* out) {
    std::memset(out, 0, kActions);
    for (const Action a : legal) out[a] = 1;
}

void write_bits(std::span<const Action> legal, std::uint8_t* out) {
    std::memset(out, 0, kMaskBitBytes);
    for (const Action a : legal) out[a >> 3] = std::uint8_t(out[a >> 3] | 1 << (a & 7));
}

}  // namespace

void Batch::FreeAligned::operator()(std::uint8_t* p) const { std::free(p); }

Batch::Batch(const BatchOptions& options, Terms terms)
    : options_(options),
      terms_(std::move(terms)),
      fingerprint_(fingerprint(terms_)),
      stride_(Lane::bytes(terms_)),
      memory_(allocate(stride_ * std::size_t(options.copies))),
      chunk_ends_(chunk_ends(options.copies, options.threads)),
      pool_(options.threads) {
    each_lane([&](int i) { lane(i).reset(options_.seed, options_.first_lane + std::uint64_t(i), terms_); });
}

std::size_t Batch::value_bytes() const {
    switch (options_.observation) {
        case ObservationForm::kPacked:
            return packed::kBytes;
        case ObservationForm::kUint8:
            return kPlaneCells;
        default:
            return kPlaneCells * sizeof(float);
    }
}

std::size_t Batch::legal_bytes() const {
    switch (options_.legal) {
        case LegalForm::kList:
            return kMostLegalMoves * sizeof(Action);
        case LegalForm::kMask:
            return kActions;
        default:
            return kMaskBitBytes;
    }
}

template <class Visit>
void Batch::each_lane(const Visit& visit) {
    const auto first_of = [this](int row) { return int(std::int64_t(copies()) * row / pool_.threads()); };
    pool_.run(int(chunk_ends_.size()), [&](int row, int chunk) {
        const int first = first_of(row), behind = std::min(first + chunk_ends_[std::size_t(chunk)], first_of(row + 1));
        for (int i = first + (chunk > 0 ? chunk_ends_[std::size_t(chunk) - 1] : 0); i < behind; ++i) visit(i);
    });
}

template <class Holds>
int Batch::first_lane_without(const Holds& holds) {
    std::atomic<int> first{std::numeric_limits<int>::max()};
    each_lane([&](int i) {
        if (holds(i)) return;
        for (int seen = first.load(); i < seen && !first.compare_exchange_weak(seen, i);) {
        }
    });
    return first.load() == std::numeric_limits<int>::max() ? -1 : first.load();
}

void Batch::reset(const ObservationArrays& out) {
    each_lane([&](int i) { lane(i).reset(options_.seed, options_.first_lane + std::uint64_t(i), terms_); });
    observe(out);
}

void Batch::observe(const ObservationArrays& out) {
    each_lane([&](int i) { write_lane(i, out); });
    write_lists(out);
}

int Batch::step(const std::int64_t* actions, const StepArrays& step, const ObservationArrays& out) {
    const int wrong = first_lane_without([&](int i) {
        const std::int64_t a = actions[i];
        return a == kPass || (a >= 0 && a < kActions && lane(i).is_legal(Action(a)));
    });
    if (wrong >= 0) return wrong;
    each_lane([&](int i) { play(i, actions[i], step, out); });
    write_lists(out);
    return -1;
}

void Batch::play(int i, std::int64_t action, const StepArrays& step, const ObservationArrays& out) {
    Lane& game = lane(i);
    const bool passes = action == kPass;
    const Played played = passes ? Played{{}, game.position().turn(), 0} : game.play(Action(action), terms_);
    step.reward[i] = played.reward();
    step.discount[i] = passes ? 1.f : played.discount();
    step.ended[i] = played.ended();
    step.cut_off[i] = played.cut_off();
    step.reason[i] = std::uint8_t(played.outcome.reason);
    step.length[i] = played.length;
    if (played.ended()) {
        write_values(game, step.final_values + value_bytes() * std::size_t(i));
        game.restart(terms_);
    } else if (!passes) {
        game.note(terms_);
    }
    write_lane(i, out);
}

void Batch::write_values(const Lane& game, std::uint8_t* out) const {
    if (options_.observation == ObservationForm::kPacked) return pack(game.position(), game.situation(), out);
    std::uint8_t packed_position[packed::kBytes];
    pack(game.position(), game.situation(), packed_position);
    if (options_.observation == ObservationForm::kUint8) return expand(packed_position, terms_.rules.move_limit, out);
    expand(packed_position, terms_.rules.move_limit, reinterpret_cast<float*>(out));
}

void Batch::write_lane(int i, const ObservationArrays& out) {
    const Lane& game = lane(i);
    write_values(game, out.values + value_bytes() * std::size_t(i));
    out.seat[i] = std::int8_t(game.position().turn());
    switch (options_.legal) {
        case LegalForm::kList:
            out.offsets[i + 1] = std::int32_t(game.legal().size());
            break;
        case LegalForm::kMask:
            write_mask(game.legal(), out.legal + legal_bytes() * std::size_t(i));
            break;
        case LegalForm::kBits:
            write_bits(game.legal(), out.legal + legal_bytes() * std::size_t(i));
            break;
    }
}

// Lists lie one behind the other, so where one begins is known when all are counted.
void Batch::write_lists(const ObservationArrays& out) {
    if (options_.legal != LegalForm::kList) return;
    out.offsets[0] = 0;
    for (int i = 0; i < copies(); ++i) out.offsets[i + 1] += out.offsets[i];
    Action* const actions = reinterpret_cast<Action*>(out.legal);
    each_lane([&](int i) {
        const auto legal = lane(i).legal();
        std::copy(legal.begin(), legal.end(), actions + out.offsets[i]);
    });
}

void Batch::save(std::uint8_t* out) {
    each_lane([&](int i) { lane(i).save(out + stride_ * std::size_t(i), terms_, fingerprint_); });
}

int Batch::load(const std::uint8_t* saved) {
    const auto row = [&](int i) { return saved + stride_ * std::size_t(i); };
    const int wrong = first_lane_without([&](int i) { return Lane::is_valid(row(i), terms_, fingerprint_); });
    if (wrong >= 0) return wrong;
    each_lane([&](int i) { lane(i).load(row(i), terms_); });
    return -1;
}

}  // namespace keisei::shogi
