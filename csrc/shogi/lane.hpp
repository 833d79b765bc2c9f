// One game of a batch, as one flat piece of memory: position, legal actions, history and random stream.
#pragma once

#include <span>
#include <vector>

#include "features.hpp"
#include "openings.hpp"
#include "random.hpp"
#include "rules.hpp"

namespace keisei::shogi {

struct Terms {
    Rules rules;
    std::vector<Opening> openings;  // drawn uniformly
    int random_plies;               // up to so many random moves follow
    double random_share = 1;        // in this share of the games
    int remembered = 0;             // so many positions of its own games a lane keeps
    double remembered_share = 0;    // this share of the games begins from one of them
};

// What a played move came to, as the side that moved sees it.
struct Played {
    Outcome outcome;
    Color mover;
    int length;  // plies of the game, 0 while it goes on

    bool ended() const { return outcome.reason != Reason::kNone; }
    bool cut_off() const { return outcome.reason == Reason::kMoveLimit; }
    float reward() const;
    float discount() const;
};

// A position in the middle of a game, from which another game can begin.
struct Remembered {
    Position position;
    std::uint16_t plies;
    std::uint8_t white_bonus, unused[5];
};

// Fixed part of a lane's memory; `move_limit + 1` traces follow it, then the positions that it remembers.
class Lane {
  public:
    static std::size_t bytes(const Terms& terms);

    // Begins the lane's stream anew and deals the first game.
    void reset(std::uint64_t seed, std::uint64_t lane, const Terms& terms);
    // Deals the next game.
    void restart(const Terms& terms);
    // Plays a legal action; an ended game stands as it ended until restart().
    Played play(Action a, const Terms& terms);
    // Perhaps remembers where the game stands now: of each game one position, all with the same chance.
    void note(const Terms& terms);

    bool is_legal(Action a) const;
    std::span<const Action> legal() const { return {legal_, legal_count_}; }
    const Position& position() const { return position_; }
    Situation situation() const { return {in_check_ != 0, earlier_, plies_}; }
    int plies() const { return plies_; }

    // The whole lane as bytes, the same for the same state; and back. load() refuses what save() did not write
    // under the same terms.
    void save(std::uint8_t* out, const Terms& terms, std::uint32_t fingerprint) const;
    static bool is_valid(const std::uint8_t* saved, const Terms& terms, std::uint32_t fingerprint);
    void load(const std::uint8_t* saved, const Terms& terms);

  private:
    Trace* history() { return reinterpret_cast<Trace*>(this + 1); }
    const Trace* history() const { return reinterpret_cast<const Trace*>(this + 1); }
    Remembered* remembered(const Terms& terms);
    void file_note(const Terms& terms);
    void begin(const Opening& opening);
    void begin_remembered(const Remembered& start, const Terms& terms);
    void begin_opening(const Terms& terms);
    void remember();
    Outcome judge_now(const Constraints& c, const Rules& rules);
    Outcome arrive(const Rules& rules);
    bool play_random(std::uint64_t plies, const Terms& terms);

    // The header is filled when the lane is saved.
    std::uint32_t magic_, fingerprint_;
    std::uint64_t checksum_;
    Position position_;
    std::uint64_t seed_, lane_, drawn_;
    std::uint16_t plies_, legal_count_;
    std::uint8_t in_check_, earlier_, white_bonus_;
    std::uint8_t opened_;                // whether the game began from an opening
    std::uint16_t remembered_, oldest_;  // how many positions are remembered, and which is replaced next
    std::uint16_t noted_, unused_;       // of how many positions of this game the noted one was drawn
    // A Bloom filter over the game's traces: one cache line tells most positions to be new.
    static constexpr int kSeenWords = 64;
    std::uint64_t seen_[kSeenWords];
    Action legal_[(kActionRoom + 7) / 8 * 8];
};

// Tells terms apart, so that a state is not loaded under others than its own.
std::uint32_t fingerprint(const Terms& terms);

}  // namespace keisei::shogi
