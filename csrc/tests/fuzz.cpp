// Feeds random and half-right SFENs, USI moves, lines and games to the core: fuzz COUNT SEED. Run under the sanitizers;
// any crash, undefined behaviour or broken invariant ends the program with a status other than 0.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>

#include "../shogi/game.hpp"

using namespace keisei::shogi;

namespace {

using Random = std::mt19937_64;

inline constexpr int kLinePlies = 12;

std::size_t below(Random& random, std::size_t n) { return n ? random() % n : 0; }

[[noreturn]] void broken(const char* what, const std::string& text) {
    std::fprintf(stderr, "%s: '%s'\n", what, text.c_str());
    std::exit(1);
}

// A few letters changed, doubled, left out or swapped for others.
std::string mutated(std::string text, Random& random) {
    static const std::string letters = "PLNSGBRKplnsgbrk+/123456789 bw-*0abcdefghi\0\xff\n";
    for (std::size_t edits = below(random, 4); edits > 0 && !text.empty(); --edits) {
        const std::size_t at = below(random, text.size());
        switch (below(random, 4)) {
            case 0:
                text[at] = letters[below(random, letters.size())];
                break;
            case 1:
                text.insert(at, 1, letters[below(random, letters.size())]);
                break;
            case 2:
                text.erase(at, 1 + below(random, 3));
                break;
            default:
                text.insert(at, text.substr(below(random, text.size()), below(random, 12)));
        }
    }
    return text;
}

void check_counts(const Position& p, const std::string& text) {
    int pieces = p.occupied().count();
    for (const Color c : {kBlack, kWhite})
        for (int k = 0; k < kHandKinds; ++k) pieces += p.hand(c, Kind(k));
    if (pieces > 40) broken("more than 40 pieces", text);
    if (p.in_check(~p.turn())) broken("the side not to move is in check", text);
}

// Reads the text; where it is a position, it must be written and read again as the same one.
void try_sfen(const std::string& text) {
    try {
        const NumberedPosition read = parse_sfen(text);
        check_counts(read.position, text);
        const std::string written = to_sfen(read.position, read.move_number);
        if (!(parse_sfen(written).position == read.position)) broken("not the same after writing", text);
        if (legal_moves(read.position).size > kMostLegalMoves) broken("too many legal moves", text);
    } catch (const NotationError& error) {
        if (std::string(error.what()).rfind("SFEN ", 0) != 0) broken("an error without a field", text);
    }
}

void try_usi(const Position& p, const std::string& text) {
    try {
        const Move m = parse_usi(text);
        if (to_usi(m) != text) broken("not the same move after writing", text);
        is_legal(p, m);
    } catch (const NotationError&) {
    }
}

// Plays a line of moves from the start, as far as it goes; what is refused must change nothing.
void try_line(const std::string& text) {
    Game game(parse_opening("startpos"), Rules{});
    std::istringstream words(text);
    for (std::string usi; words >> usi;) {
        const std::string before = game.sfen();
        try {
            game.push(usi);
            check_counts(game.position(), text);
        } catch (const std::invalid_argument&) {
            if (game.sfen() != before) broken("a refused move was played", text);
        }
    }
}

// The beginning of a game as a line of moves.
std::string line_of(const Game& game) {
    std::string line;
    for (int i = 0; i < std::min(game.plies(), kLinePlies); ++i) line += to_usi(game.moves()[std::size_t(i)]) + ' ';
    return line;
}

// Plays a random move, and checks that taking it back restores everything.
void play_on(Game& game, Random& random) {
    const MoveList moves = legal_moves(game.position());
    if (moves.size == 0 || game.plies() > 300 || game.outcome().reason != Reason::kNone) {
        game = Game(parse_opening("startpos"), Rules{});
        return;
    }
    const Move m = moves.moves[below(random, std::size_t(moves.size))];
    const Color mover = game.position().turn();
    if (!(to_move(to_action(m, mover), mover) == m)) broken("action is not the move", to_usi(m));
    const std::string before = game.sfen();
    const Key key = game.position().key();
    game.play(m);
    check_counts(game.position(), game.sfen());
    if (!(parse_sfen(game.sfen()).position.key() == game.position().key())) broken("incremental key", game.sfen());
    game.take_back();
    if (game.sfen() != before || game.position().key() != key) broken("not taken back", before);
    game.play(m);
}

}  // namespace

int main(int argc, char** argv) {
    const long count = argc > 1 ? std::atol(argv[1]) : 100000;
    Random random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
    Game game(parse_opening("startpos"), Rules{});
    for (long i = 0; i < count; ++i) {
        if (i % 4 == 0) play_on(game, random);
        const std::string sfen = game.sfen();
        if (i % 2)
            try_sfen(mutated(sfen, random));
        else if (i % 16)
            try_usi(game.position(), mutated(below(random, 2) ? "7g7f+" : "P*5e", random));
        else
            try_line(mutated(line_of(game), random));
    }
    std::printf("%ld texts, no fault\n", count);
}
