#include "movegen.hpp"

#include <algorithm>

namespace keisei::shogi {
namespace {

template <Color us>
constexpr Square behind(Square s) {
    return us == kBlack ? s + 9 : s - 9;
}

template <Color us>
struct ListSink {
    Move* out;

    template <bool promote>
    void board(Square from, Bitboard to) {
        to.each([&](Square s) { *out++ = Move::board(from, s, promote); });
    }
    template <bool promote>
    void pawns(Bitboard to) {
        to.each([&](Square s) { *out++ = Move::board(behind<us>(s), s, promote); });
    }
    void drops(Kind k, Bitboard to) {
        to.each([&](Square s) { *out++ = Move::drop(k, s); });
    }
};

template <Color us>
struct ActionSink {
    Action* out;

    template <bool promote>
    void board(Square from, Bitboard to) {
        out = write_actions(to, board_line<us>(from, promote), out);
    }
    template <bool promote>
    void pawns(Bitboard to) {
        out = write_actions(to, pawn_line<us>(promote), out);
    }
    void drops(Kind k, Bitboard to) { out = write_actions(to, drop_line<us>(k), out); }
};

struct CountSink {
    int count = 0;

    template <bool promote>
    void board(Square, Bitboard to) {
        count += to.count();
    }
    template <bool promote>
    void pawns(Bitboard to) {
        count += to.count();
    }
    void drops(Kind, Bitboard to) { count += to.count(); }
};

template <Color us>
std::uint64_t perft_of(Position& p, int depth) {
    const Constraints c = constraints<us>(p);
    if (depth == 1) {
        CountSink sink;
        generate<us>(p, c, sink);
        return std::uint64_t(sink.count);
    }
    Move moves[kMostLegalMoves];
    ListSink<us> sink{moves};
    generate<us>(p, c, sink);
    std::uint64_t leaves = 0;
    for (const Move* m = moves; m != sink.out; ++m) {
        const Undo undo = p.do_move<us>(*m);
        leaves += perft_of<~us>(p, depth - 1);
        p.undo_move(*m, undo);
    }
    return leaves;
}

}  // namespace

template <Color us>
bool is_drop_pawn_mate(const Position& p, Square s) {
    constexpr Color them = ~us;
    const Square k = p.king(them);
    const Bitboard pawn = Bitboard::of(s), occupied = p.occupied() | pawn;
    const Bitboard without_king = occupied ^ Bitboard::of(k);
    bool escapes = false;
    kAttacks.step[kBlack][kKing][k].minus(p.pieces(them)).each([&](Square to) {
        escapes = escapes || !p.is_attacked<us>(to, without_king);
    });
    if (escapes) return false;
    const Bitboard takers = p.attackers<them>(s, occupied).minus(Bitboard::of(k));
    bool can_take = false;
    takers.each([&](Square from) {
        const Bitboard after = (occupied ^ Bitboard::of(from)) | pawn;
        can_take = can_take || p.attackers<us>(k, after).none();
    });
    return !can_take;
}
template bool is_drop_pawn_mate<kBlack>(const Position&, Square);
template bool is_drop_pawn_mate<kWhite>(const Position&, Square);

MoveList legal_moves(const Position& p) {
    MoveList list;
    const Constraints c = constraints(p);
    const auto fill = [&]<Color us>() {
        ListSink<us> sink{list.moves};
        generate<us>(p, c, sink);
        list.size = int(sink.out - list.moves);
    };
    p.turn() == kBlack ? fill.operator()<kBlack>() : fill.operator()<kWhite>();
    return list;
}

int count_legal_moves(const Position& p, const Constraints& c) {
    CountSink sink;
    generate(p, c, sink);
    return sink.count;
}

bool is_legal(const Position& p, Move m) {
    const MoveList list = legal_moves(p);
    return std::find(list.begin(), list.end(), m) != list.end();
}

int legal_actions(const Position& p, const Constraints& c, Action* out) {
    const auto fill = [&]<Color us>() {
        ActionSink<us> sink{out};
        generate<us>(p, c, sink);
        return int(sink.out - out);
    };
    return p.turn() == kBlack ? fill.operator()<kBlack>() : fill.operator()<kWhite>();
}

std::uint64_t perft(Position& p, int depth) {
    if (depth <= 0) return 1;
    return p.turn() == kBlack ? perft_of<kBlack>(p, depth) : perft_of<kWhite>(p, depth);
}

}  // namespace keisei::shogi
