// Counts leaves: reads lines "DEPTH COUNT SFEN" from standard input and compares; or "perft DEPTH [SFEN]" prints one.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "../shogi/movegen.hpp"
#include "../shogi/notation.hpp"

using namespace keisei::shogi;

namespace {

int print_one(int depth, const std::string& sfen) {
    Position p = parse_sfen(sfen).position;
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t leaves = perft(p, depth);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%llu leaves, %.1f M/s\n", static_cast<unsigned long long>(leaves), double(leaves) / seconds / 1e6);
    return 0;
}

int compare_all() {
    int passed = 0, failed = 0, depth = 0;
    std::uint64_t expected = 0;
    std::string sfen;
    while (std::cin >> depth >> expected && std::getline(std::cin >> std::ws, sfen)) {
        Position p = parse_sfen(sfen).position;
        const std::uint64_t found = perft(p, depth);
        (found == expected ? passed : failed) += 1;
        if (found != expected)
            std::cout << sfen << " depth " << depth << ": expected " << expected << ", found " << found << '\n';
    }
    std::cout << passed << " passed, " << failed << " failed\n";
    return failed || !passed;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) return print_one(std::atoi(argv[1]), argc > 2 ? argv[2] : kStartSfen);
    return compare_all();
}
