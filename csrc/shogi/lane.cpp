#include "lane.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "actions.hpp"

namespace keisei::shogi {
namespace {

inline constexpr std::uint32_t kMagic = 0x314c534b;  // "KSL1"
inline constexpr std::size_t kHeaderBytes = 16;

std::uint64_t mixed(std::uint64_t h, std::uint64_t word) {
    h = (h ^ word) * 0x9fb21c651e98df25;
    return h ^ (h >> 32);
}

std::uint64_t checksum(const std::uint8_t* bytes, std::size_t size) {
    std::uint64_t h = size;
    for (std::size_t i = 0; i < size; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes + i, 8);
        h = mixed(h, word);
    }
    return h;
}

// Where remembered positions lie in a lane's memory: behind the traces.
std::size_t remembered_at(const Terms& terms) {
    return (sizeof(Lane) + sizeof(Trace) * (std::size_t(terms.rules.move_limit) + 1) + 15) / 16 * 16;
}

}  // namespace

static_assert(std::is_trivially_copyable_v<Lane>);
static_assert(sizeof(Lane) % 16 == 0);
static_assert(std::is_trivially_copyable_v<Remembered> && alignof(Remembered) <= 16);

float Played::reward() const {
    if (outcome.winner == Winner::kNobody) return 0;
    return outcome.winner == winner(mover) ? 1 : -1;
}

float Played::discount() const { return ended() && !cut_off() ? 0.f : -1.f; }

std::size_t Lane::bytes(const Terms& terms) {
    const std::size_t notes = terms.remembered ? std::size_t(terms.remembered) + 1 : 0;
    return (remembered_at(terms) + sizeof(Remembered) * notes + 63) / 64 * 64;
}

// The last of them is what is noted of the present game.
Remembered* Lane::remembered(const Terms& terms) {
    return reinterpret_cast<Remembered*>(reinterpret_cast<std::uint8_t*>(this) + remembered_at(terms));
}

void Lane::reset(std::uint64_t seed, std::uint64_t lane, const Terms& terms) {
    seed_ = seed;
    lane_ = lane;
    drawn_ = 0;
    remembered_ = oldest_ = noted_ = 0;
    restart(terms);
}

void Lane::begin(const Opening& opening) {
    position_ = opening.position;
    white_bonus_ = std::uint8_t(opening.white_bonus);
    plies_ = 0;
    opened_ = 1;
    std::memset(seen_, 0, sizeof seen_);
}

void Lane::restart(const Terms& terms) {
    LaneStream stream(seed_, lane_, drawn_);
    file_note(terms);
    if (remembered_ > 0 && stream.chance(terms.remembered_share))
        begin_remembered(remembered(terms)[stream.below(remembered_)], terms);
    else
        begin_opening(terms);
}

void Lane::begin_opening(const Terms& terms) {
    LaneStream stream(seed_, lane_, drawn_);
    const bool random = terms.random_plies > 0 && (terms.random_share >= 1 || stream.chance(terms.random_share));
    do {
        begin(terms.openings[terms.openings.size() > 1 ? stream.below(terms.openings.size()) : 0]);
        arrive(terms.rules);
    } while (random && !play_random(stream.below(std::uint64_t(terms.random_plies) + 1), terms));
}

// The game goes on at the ply at which it was left, but without its history.
void Lane::begin_remembered(const Remembered& start, const Terms& terms) {
    begin({start.position, 0, start.white_bonus});
    plies_ = start.plies;
    opened_ = 0;
    std::memset(history(), 0, sizeof(Trace) * plies_);
    arrive(terms.rules);
}

// Games that began from a remembered position are not noted: starts would move towards the end, from game to game.
void Lane::note(const Terms& terms) {
    if (terms.remembered == 0 || !opened_) return;
    LaneStream stream(seed_, lane_, drawn_);
    if (stream.below(++noted_) > 0) return;
    Remembered& noted = remembered(terms)[terms.remembered];
    noted.position = position_;
    noted.plies = plies_;
    noted.white_bonus = white_bonus_;
}

void Lane::file_note(const Terms& terms) {
    if (noted_ == 0) return;
    Remembered* const all = remembered(terms);
    all[oldest_] = all[terms.remembered];
    remembered_ = std::uint16_t(std::min(remembered_ + 1, terms.remembered));
    oldest_ = std::uint16_t((oldest_ + 1) % terms.remembered);
    noted_ = 0;
}

// False where the game ended on the way.
bool Lane::play_random(std::uint64_t plies, const Terms& terms) {
    LaneStream stream(seed_, lane_, drawn_);
    for (; plies > 0; --plies)
        if (play(legal_[stream.below(legal_count_)], terms).ended()) return false;
    return true;
}

bool Lane::is_legal(Action a) const {
    bool found = false;  // without an early exit, so that the compiler compares many at once
    for (int i = 0; i < legal_count_; ++i) found |= legal_[i] == a;
    return found;
}

Played Lane::play(Action a, const Terms& terms) {
    const Color mover = position_.turn();
    position_.do_move(to_move(a, mover));
    ++plies_;
    const Outcome outcome = arrive(terms.rules);
    return {outcome, mover, outcome.reason == Reason::kNone ? 0 : plies_};
}

// Adds the present position to the history and counts its earlier occurrences.
void Lane::remember() {
    const Trace trace = trace_of(position_.key(), in_check_ != 0);
    history()[plies_] = trace;
    std::uint64_t& word = seen_[trace >> 58];
    const std::uint64_t bit = std::uint64_t(1) << (trace >> 52 & 63);
    earlier_ = 0;
    if (word & bit) earlier_ = std::uint8_t(earlier_occurrences({history(), std::size_t(plies_) + 1}));
    word |= bit;
}

Outcome Lane::arrive(const Rules& rules) {
    const Constraints c = constraints(position_);
    in_check_ = c.checkers.any();
    remember();
    legal_count_ = std::uint16_t(legal_actions(position_, c, legal_));
    return judge_now(c, rules);
}

Outcome Lane::judge_now(const Constraints& c, const Rules& rules) {
    const Repetition repetition =
        earlier_ < 3 ? Repetition::kNone : judge_repetition({history(), std::size_t(plies_) + 1});
    return judge(position_, {c, legal_count_ > 0, repetition, plies_, white_bonus_}, rules);
}

void Lane::save(std::uint8_t* out, const Terms& terms, std::uint32_t fingerprint) const {
    const std::size_t total = bytes(terms), used = sizeof(Lane) + sizeof(Trace) * (std::size_t(plies_) + 1);
    const auto copy = [&](std::size_t at, std::size_t size) {
        std::memcpy(out + at, reinterpret_cast<const std::uint8_t*>(this) + at, size);
    };
    copy(0, used);
    std::memset(out + used, 0, total - used);
    copy(remembered_at(terms), sizeof(Remembered) * remembered_);
    if (noted_) copy(remembered_at(terms) + sizeof(Remembered) * std::size_t(terms.remembered), sizeof(Remembered));
    const std::size_t legal = offsetof(Lane, legal_);
    std::memset(out + legal + legal_count_ * sizeof(Action), 0, sizeof legal_ - legal_count_ * sizeof(Action));
    const std::uint64_t sum = checksum(out + kHeaderBytes, total - kHeaderBytes);
    std::memcpy(out, &kMagic, 4);
    std::memcpy(out + 4, &fingerprint, 4);
    std::memcpy(out + 8, &sum, 8);
}

bool Lane::is_valid(const std::uint8_t* saved, const Terms& terms, std::uint32_t fingerprint) {
    const std::uint64_t sum = checksum(saved + kHeaderBytes, bytes(terms) - kHeaderBytes);
    return std::memcmp(saved, &kMagic, 4) == 0 && std::memcmp(saved + 4, &fingerprint, 4) == 0 &&
           std::memcmp(saved + 8, &sum, 8) == 0;
}

void Lane::load(const std::uint8_t* saved, const Terms& terms) {
    std::memcpy(static_cast<void*>(this), saved, bytes(terms));
}

std::uint32_t fingerprint(const Terms& terms) {
    std::uint64_t h = kMagic;
    h = mixed(h, std::uint64_t(terms.rules.declaration));
    h = mixed(h, std::uint64_t(terms.rules.move_limit));
    h = mixed(h, std::uint64_t(terms.random_plies));
    if (terms.random_share < 1) h = mixed(h, std::bit_cast<std::uint64_t>(terms.random_share));
    if (terms.remembered > 0) {
        h = mixed(h, std::uint64_t(terms.remembered));
        h = mixed(h, std::bit_cast<std::uint64_t>(terms.remembered_share));
    }
    for (const Opening& o : terms.openings) h = mixed(mixed(h, o.position.key()), std::uint64_t(o.white_bonus));
    return std::uint32_t(h);
}

}  // namespace keisei::shogi
