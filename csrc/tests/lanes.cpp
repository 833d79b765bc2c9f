// Plays random games in a batch with several threads, and loads its saved lanes, whole and damaged: lanes STEPS SEED.
// Run under the sanitizers; a damaged state that is loaded, or one that does not come back as it was, ends the program
// with a status other than 0.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "../shogi/batch.hpp"

using namespace keisei::shogi;

namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<std::uint8_t>;

inline constexpr int kCopies = 21;

std::size_t below(Random& random, std::size_t n) { return random() % n; }

[[noreturn]] void broken(const char* what, long step) {
    std::fprintf(stderr, "%s at step %ld\n", what, step);
    std::exit(1);
}

// Short games, so that many end, with everything that a lane can keep.
Terms terms() {
    Terms made{{DeclarationRule::k27, 40}, {parse_opening("startpos"), parse_opening("two_piece")}, 6};
    made.remembered = 3;
    made.remembered_share = 0.5;
    return made;
}

// A batch and the arrays that it fills.
class Table {
  public:
    explicit Table(std::uint64_t seed)
        : batch_({kCopies, 3, seed, 0, ObservationForm::kPacked, LegalForm::kList}, terms()),
          values_(kCopies * batch_.value_bytes()),
          final_(values_.size()),
          legal_(kCopies * kMostLegalMoves) {
        batch_.reset(seen());
    }

    Batch& batch() { return batch_; }

    void play(Random& random, long step) {
        std::int64_t actions[kCopies];
        for (int i = 0; i < kCopies; ++i) {
            const auto legal = std::as_const(batch_).lane(i).legal();
            if (legal.empty()) broken("a game that is over stands there", step);
            actions[i] = legal[below(random, legal.size())];
        }
        if (batch_.step(actions, told(), seen()) != -1) broken("a legal action was refused", step);
    }

    Bytes saved() {
        Bytes out(kCopies * batch_.state_bytes());
        batch_.save(out.data());
        return out;
    }

  private:
    ObservationArrays seen() {
        return {values_.data(), reinterpret_cast<std::uint8_t*>(legal_.data()), offsets_, seat_};
    }
    StepArrays told() { return {reward_, discount_, ended_, cut_off_, reason_, length_, final_.data()}; }

    Batch batch_;
    Bytes values_, final_;
    std::vector<Action> legal_;
    std::int32_t offsets_[kCopies + 1], length_[kCopies];
    std::int8_t seat_[kCopies];
    float reward_[kCopies], discount_[kCopies];
    bool ended_[kCopies], cut_off_[kCopies];
    std::uint8_t reason_[kCopies];
};

// Changes up to eight bytes of one lane, anywhere in it; gives the lane.
int damage(Bytes& saved, Random& random) {
    const std::size_t stride = saved.size() / kCopies, lane = below(random, kCopies);
    const Bytes before = saved;
    while (saved == before)
        for (std::size_t edits = 1 + below(random, 8); edits > 0; --edits)
            saved[lane * stride + below(random, stride)] ^= std::uint8_t(1 + below(random, 255));
    return int(lane);
}

// Loads the lanes damaged, which must change nothing, and as they were at another time, which must give just that.
void try_states(Table& table, const Bytes& earlier, Random& random, long step) {
    const Bytes now = table.saved();
    Bytes damaged = earlier;
    const int lane = damage(damaged, random);
    if (table.batch().load(damaged.data()) != lane) broken("a damaged state was not refused", step);
    if (table.saved() != now) broken("a refused state changed something", step);
    if (below(random, 4)) return;
    if (table.batch().load(earlier.data()) != -1) broken("a state was refused", step);
    if (table.saved() != earlier) broken("a state came back as another", step);
}

}  // namespace

int main(int argc, char** argv) {
    const long steps = argc > 1 ? std::atol(argv[1]) : 1000;
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    Random random(seed);
    Table table(seed);
    Bytes earlier = table.saved();
    for (long step = 0; step < steps; ++step) {
        table.play(random, step);
        try_states(table, earlier, random, step);
        if (below(random, 8) == 0) earlier = table.saved();
    }
    std::printf("%ld steps, %ld damaged states refused\n", steps, steps);
}
