#include "notation.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "movegen.hpp"

namespace keisei::shogi {
namespace {

constexpr std::string_view kLetters = "PLNSGBRK";
constexpr std::string_view kHandOrder = "RBGSNLP";
inline constexpr int kMostMoveNumber = 999'999'999;
inline constexpr std::size_t kMostQuoted = 120;

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The text as it may stand in a message: printable ASCII, and not too much of it.
std::string quoted(std::string_view text) {
    std::string result = "'";
    for (const char c : text.substr(0, kMostQuoted)) result += c >= ' ' && c <= '~' ? c : '?';
    return result + (text.size() > kMostQuoted ? "…'" : "'");
}

std::string quoted(char c) { return quoted(std::string_view(&c, 1)); }

[[noreturn]] void fail(std::string_view text, std::string_view field, const std::string& problem) {
    throw NotationError("SFEN " + std::string(field) + ": " + problem + " in " + quoted(text));
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t end = std::min(text.find(' ', i), text.size());
        if (end > i) words.push_back(text.substr(i, end - i));
        i = end + 1;
    }
    return words;
}

Kind kind_of_letter(char c) {
    const std::size_t i = kLetters.find(upper(c));
    return i == std::string_view::npos ? kNoKind : Kind(i);
}

char letter_of(Color c, Kind k) { return c == kBlack ? kLetters[k] : lower(kLetters[k]); }

class SfenReader {
  public:
    explicit SfenReader(std::string_view text) : text_(text) {}

    NumberedPosition read() {
        const auto words = words_of(text_);
        if (words.size() < 3) fail(text_, "fields", "expected board, turn, hands and move number");
        if (words.size() > 4) fail(text_, "fields", "unexpected " + quoted(words[4]));
        read_board(words[0]);
        read_turn(words[1]);
        read_hands(words[2]);
        check_pieces();
        return {position_, words.size() == 4 ? read_number(words[3]) : 1};
    }

  private:
    void read_board(std::string_view board) {
        int row = 0, column = 0;
        bool promote = false;
        for (const char c : board) {
            if (promote && kind_of_letter(c) == kNoKind) fail(text_, "board", "'+' before " + quoted(c));
            if (c == '/') {
                end_row(row++, column);
                column = 0;
            } else if (c == '+') {
                promote = true;
            } else if (c >= '1' && c <= '9') {
                column += c - '0';
                check_room(row, column - 1);
            } else {
                check_room(row, column);
                put(c, promote, 9 * row + column++);
                promote = false;
            }
        }
        if (promote) fail(text_, "board", "'+' at the end");
        end_row(row, column);
        if (row != 8) fail(text_, "board", "expected 9 rows, found " + std::to_string(row + 1));
    }

    void check_room(int row, int column) const {
        if (row > 8) fail(text_, "board", "more than 9 rows");
        if (column > 8) fail(text_, "board", "row " + std::to_string(row + 1) + " has more than 9 squares");
    }

    void end_row(int row, int columns) const {
        check_room(row, 0);
        if (columns != 9)
            fail(text_, "board",
                 "row " + std::to_string(row + 1) + " has " + std::to_string(columns) + " squares, expected 9");
    }

    void put(char c, bool promote, Square s) {
        Kind kind = kind_of_letter(c);
        if (kind == kNoKind) fail(text_, "board", "unknown piece " + quoted(c));
        if (promote && !can_promote(kind))
            fail(text_, "board", "a piece that cannot promote, '+" + std::string{c} + "',");
        const Color color = upper(c) == c ? kBlack : kWhite;
        if (kind == kKing && position_.has_king(color))
            fail(text_, "board", std::string("two kings of ") + (color == kBlack ? "Black" : "White"));
        if (promote) kind = promoted(kind);
        const int ahead_rows = color == kBlack ? row_of(s) : 8 - row_of(s);
        if (((kind == kPawn || kind == kLance) && ahead_rows < 1) || (kind == kKnight && ahead_rows < 2))
            fail(text_, "board", "a piece that can never move, " + quoted(c) + " on " + to_usi(s) + ",");
        position_.put(color, kind, s);
    }

    void read_turn(std::string_view turn) {
        if (turn != "b" && turn != "w") fail(text_, "turn", "expected 'b' or 'w', found " + quoted(turn));
        position_.set_turn(turn == "b" ? kBlack : kWhite);
    }

    void read_hands(std::string_view hands) {
        if (hands == "-") return;
        int count = 0;
        bool counted = false;
        for (const char c : hands) {
            if (is_digit(c)) {
                count = 10 * count + (c - '0');
                counted = true;
                if (count == 0) fail(text_, "hands", "a count of 0");
                if (count > kSetOfPieces[kPawn]) fail(text_, "hands", "a count above 18");
                continue;
            }
            const Kind kind = kind_of_letter(c);
            if (kind == kNoKind || kind == kKing) fail(text_, "hands", "unknown piece " + quoted(c));
            add_to_hand(upper(c) == c ? kBlack : kWhite, kind, counted ? count : 1);
            count = 0;
            counted = false;
        }
        if (counted) fail(text_, "hands", "a count without a piece");
    }

    void add_to_hand(Color c, Kind k, int count) {
        const int sum = position_.hand(c, k) + count;
        if (sum > kSetOfPieces[k]) fail(text_, "hands", too_many(k));
        position_.set_hand(c, k, sum);
    }

    static std::string too_many(Kind k) {
        return "more than " + std::to_string(kSetOfPieces[k]) + " pieces of kind '" + kLetters[k] + "'";
    }

    void check_pieces() const {
        for (int i = 0; i < kHandKinds; ++i) {
            const Kind k = Kind(i);
            int count = position_.pieces(k).count() + position_.hand(kBlack, k) + position_.hand(kWhite, k);
            if (can_promote(k)) count += position_.pieces(promoted(k)).count();
            if (count > kSetOfPieces[k]) fail(text_, "board and hands", too_many(k));
        }
        if (position_.in_check(~position_.turn())) fail(text_, "turn", "the side that is not to move is in check");
    }

    int read_number(std::string_view word) const {
        int number = -1;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (error != std::errc() || end != word.data() + word.size() || number < 0 || number > kMostMoveNumber)
            fail(text_, "move number", "expected a number from 0 to 999999999, found " + quoted(word));
        return number;
    }

    std::string_view text_;
    Position position_;
};

[[noreturn]] void fail_move(std::string_view text) {
    throw NotationError("expected a move like '7g7f', '8h2b+' or 'P*5e', found " + quoted(text));
}

Square parse_square(std::string_view text, char file, char rank) {
    if (file < '1' || file > '9' || rank < 'a' || rank > 'i') fail_move(text);
    return 9 * (rank - 'a') + ('9' - file);
}

}  // namespace

NumberedPosition parse_sfen(std::string_view text) { return SfenReader(text).read(); }

std::string to_sfen(const Position& p, int move_number) {
    std::string result;
    for (int row = 0; row < 9; ++row) {
        if (row > 0) result += '/';
        int empty = 0;
        const auto flush = [&] {
            if (empty) result += char('0' + empty);
            empty = 0;
        };
        for (int column = 0; column < 9; ++column) {
            const Piece piece = p.at(9 * row + column);
            if (piece == kEmpty) {
                ++empty;
                continue;
            }
            flush();
            const Kind k = kind_of(piece);
            if (is_promoted(k)) result += '+';
            result += letter_of(color_of(piece), unpromoted(k));
        }
        flush();
    }
    result += p.turn() == kBlack ? " b " : " w ";
    const std::size_t hands = result.size();
    for (const Color c : {kBlack, kWhite})
        for (const char letter : kHandOrder) {
            const Kind k = kind_of_letter(letter);
            if (const int count = p.hand(c, k)) {
                if (count > 1) result += std::to_string(count);
                result += letter_of(c, k);
            }
        }
    if (result.size() == hands) result += '-';
    return result + ' ' + std::to_string(std::min(move_number, kMostMoveNumber));
}

Move parse_usi(std::string_view text) {
    if (text.size() == 4 && text[1] == '*') {
        const Kind kind = kind_of_letter(text[0]);
        if (kind >= kKing || text[0] != upper(text[0])) fail_move(text);
        return Move::drop(kind, parse_square(text, text[2], text[3]));
    }
    if (text.size() != 4 && !(text.size() == 5 && text[4] == '+')) fail_move(text);
    const Square from = parse_square(text, text[0], text[1]), to = parse_square(text, text[2], text[3]);
    if (from == to) fail_move(text);
    return Move::board(from, to, text.size() == 5);
}

std::string to_usi(Square s) { return {char('9' - column_of(s)), char('a' + row_of(s))}; }

std::string to_usi(Move m) {
    if (m.is_drop()) return std::string{kLetters[m.dropped()], '*'} + to_usi(m.to());
    return to_usi(m.from()) + to_usi(m.to()) + (m.is_promotion() ? "+" : "");
}

}  // namespace keisei::shogi
