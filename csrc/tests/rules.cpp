// Answers questions about the rules: reads lines "QUESTION<tab>SFEN<tab>ARGUMENT<tab>ANSWER" from standard input and
// compares. The questions: count (of legal moves), legal (a move), points (of both sides, in a handicap game), and with
// a declaration rule behind it, as in "outcome 27", how a game stands after its moves: outcome, or handicap, where
// missing pieces count.
#include <iostream>
#include <sstream>
#include <string>

#include "../shogi/game.hpp"

using namespace keisei::shogi;

namespace {

std::string in_words(const Outcome& outcome) {
    if (outcome.reason == Reason::kNone) return "none";
    const char* const who[] = {"draw", "black", "white"};
    return std::string(who[int(outcome.winner) + 1]) + " " + kReasonNames[int(outcome.reason)];
}

std::string outcome_of(const Opening& opening, const std::string& rule, const std::string& moves) {
    Game game(opening, Rules{rule == "24" ? DeclarationRule::k24 : DeclarationRule::k27});
    std::istringstream words(moves);
    for (std::string usi; words >> usi;) game.push(usi);
    return in_words(game.outcome());
}

std::string answer(const std::string& question, const std::string& sfen, const std::string& argument) {
    const Opening opening = parse_opening(sfen);
    const Position& p = opening.position;
    const std::string kind = question.substr(0, question.find(' ')), rule = question.substr(question.find(' ') + 1);
    if (kind == "count") return std::to_string(legal_moves(p).size);
    if (kind == "legal") return is_legal(p, parse_usi(argument)) ? "yes" : "no";
    if (kind == "points")
        return std::to_string(declaration_points(p, kBlack)) + " " +
               std::to_string(declaration_points(p, kWhite) + missing_points(p));
    if (kind == "outcome") return outcome_of(opening, rule, argument);
    if (kind == "handicap") return outcome_of(as_handicap(opening), rule, argument);
    return "no such question";
}

}  // namespace

int main() {
    int passed = 0, failed = 0;
    std::string question, sfen, argument, expected;
    while (std::getline(std::cin, question, '\t') && std::getline(std::cin, sfen, '\t') &&
           std::getline(std::cin, argument, '\t') && std::getline(std::cin, expected)) {
        const std::string found = answer(question, sfen, argument);
        (found == expected ? passed : failed) += 1;
        if (found != expected)
            std::cout << question << " of '" << sfen << "' " << argument << ": expected " << expected << ", found "
                      << found << '\n';
    }
    std::cout << passed << " passed, " << failed << " failed\n";
    return failed || !passed;
}
