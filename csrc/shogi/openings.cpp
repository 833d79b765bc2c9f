#include "openings.hpp"

#include <utility>

#include "rules.hpp"

namespace keisei::shogi {
namespace {

constexpr std::pair<std::string_view, std::string_view> kHandicaps[] = {
    {"lance", "lnsgkgsn1/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"right_lance", "1nsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"bishop", "lnsgkgsnl/1r7/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"rook", "lnsgkgsnl/7b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"rook_lance", "lnsgkgsn1/7b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"two_piece", "lnsgkgsnl/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"four_piece", "1nsgkgsn1/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"six_piece", "2sgkgs2/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"eight_piece", "3gkg3/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
    {"ten_piece", "4k4/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"},
};

}  // namespace

Opening parse_opening(std::string_view text) {
    if (text == "startpos") text = kStartSfen;
    for (const auto& [name, sfen] : kHandicaps)
        if (text == name) return as_handicap(parse_opening(sfen));
    const NumberedPosition start = parse_sfen(text);
    return {start.position, start.move_number, 0};
}

Opening as_handicap(Opening opening) {
    opening.white_bonus = missing_points(opening.position);
    return opening;
}

std::vector<std::string_view> handicap_names() {
    std::vector<std::string_view> names;
    for (const auto& [name, sfen] : kHandicaps) names.push_back(name);
    return names;
}

}  // namespace keisei::shogi
