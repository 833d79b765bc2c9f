// What Python sees of the core. Converts and checks shapes, nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>

#include "shogi/batch.hpp"
#include "shogi/drawing.hpp"
#include "shogi/game.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace keisei::shogi;

namespace {

using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

std::string shape_text(std::initializer_list<std::size_t> shape) {
    std::string text = "[";
    for (const std::size_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    return text + "]";
}

// The array's memory, if it has the dtype and shape; else a ValueError that names it.
template <class T>
T* checked(const AnyArray& array, const char* name, std::initializer_list<std::size_t> shape) {
    bool fits = array.dtype() == nb::dtype<T>() && array.ndim() == shape.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = array.shape(i) == shape.begin()[i];
    if (fits) return static_cast<T*>(array.data());
    const std::string dtype = std::is_same_v<T, bool> ? "bool"
                                                      : (std::is_floating_point_v<T> ? "float"
                                                         : std::is_signed_v<T>       ? "int"
                                                                                     : "uint") +
                                                            std::to_string(8 * sizeof(T));
    throw nb::value_error(
        (std::string(name) + ": expected a C-contiguous " + dtype + " array " + shape_text(shape)).c_str());
}

DeclarationRule declaration_rule(std::string_view name) {
    if (name == "27") return DeclarationRule::k27;
    if (name == "24") return DeclarationRule::k24;
    if (name == "none") return DeclarationRule::kNone;
    throw nb::value_error("declaration: expected '27', '24' or 'none'");
}

ObservationForm observation_form(std::string_view name) {
    if (name == "packed") return ObservationForm::kPacked;
    if (name == "uint8") return ObservationForm::kUint8;
    if (name == "float32") return ObservationForm::kFloat32;
    throw nb::value_error("observation: expected 'packed', 'uint8' or 'float32'");
}

LegalForm legal_form(std::string_view name) {
    if (name == "list") return LegalForm::kList;
    if (name == "mask") return LegalForm::kMask;
    if (name == "bits") return LegalForm::kBits;
    throw nb::value_error("legal: expected 'list', 'mask' or 'bits'");
}

constexpr const char* kValues = "observation.values";
constexpr const char* kLegal = "observation.legal.actions";
constexpr const char* kOffsets = "observation.legal.offsets";
constexpr const char* kSeat = "observation.seat";

// Says which of the arrays cannot be taken at all, whatever its shape; the names are those of the given ones, in order.
void refuse(const nb::args& given, std::initializer_list<const char*> names) {
    for (std::size_t i = 0; i < std::min(given.size(), names.size()); ++i) {
        AnyArray array;
        if (!nb::try_cast(given[i], array, false))
            throw nb::value_error(
                (std::string(names.begin()[i]) + ": expected a writable, C-contiguous NumPy array").c_str());
    }
    throw nb::type_error("expected other arguments");
}

// The batch with its Python-side arrays checked.
class BoundBatch {
  public:
    BoundBatch(const BatchOptions& options, Terms terms) : options_(options), batch_(options, std::move(terms)) {}

    void reset(const AnyArray& values, const AnyArray& legal, const AnyArray& offsets, const AnyArray& seat) {
        const ObservationArrays out = observation(values, legal, offsets, seat);
        const nb::gil_scoped_release release;
        batch_.reset(out);
    }

    void observe(const AnyArray& values, const AnyArray& legal, const AnyArray& offsets, const AnyArray& seat) {
        const ObservationArrays out = observation(values, legal, offsets, seat);
        const nb::gil_scoped_release release;
        batch_.observe(out);
    }

    int step(const AnyArray& actions, const AnyArray& reward, const AnyArray& discount, const AnyArray& ended,
             const AnyArray& cut_off, const AnyArray& reason, const AnyArray& length, const AnyArray& final_values,
             const AnyArray& values, const AnyArray& legal, const AnyArray& offsets, const AnyArray& seat) {
        const std::size_t n = copies();
        const std::int64_t* const chosen = checked<std::int64_t>(actions, "actions", {n});
        const StepArrays step{
            checked<float>(reward, "step.reward", {n}),        checked<float>(discount, "step.discount", {n}),
            checked<bool>(ended, "step.ended", {n}),           checked<bool>(cut_off, "step.cut_off", {n}),
            checked<std::uint8_t>(reason, "step.reason", {n}), checked<std::int32_t>(length, "step.length", {n}),
            checked_values(final_values, "step.final")};
        const ObservationArrays out = observation(values, legal, offsets, seat);
        const nb::gil_scoped_release release;
        return batch_.step(chosen, step, out);
    }

    void save(const AnyArray& out) {
        std::uint8_t* const bytes = checked<std::uint8_t>(out, "state", {copies(), batch_.state_bytes()});
        const nb::gil_scoped_release release;
        batch_.save(bytes);
    }

    int load(const nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>& saved) {
        if (saved.shape(0) != copies() || saved.shape(1) != batch_.state_bytes())
            throw nb::value_error(
                ("state: expected a C-contiguous uint8 array " + shape_text({copies(), batch_.state_bytes()})).c_str());
        const nb::gil_scoped_release release;
        return batch_.load(saved.data());
    }

    std::size_t copies() const { return std::size_t(batch_.copies()); }
    std::size_t state_bytes() const { return batch_.state_bytes(); }
    std::string sfen(int lane) const {
        if (lane < 0 || lane >= batch_.copies()) throw nb::index_error("lane");
        const Lane& game = batch_.lane(lane);
        return to_sfen(game.position(), game.plies() + 1);
    }

  private:
    std::uint8_t* checked_values(const AnyArray& values, const char* name) const {
        const std::size_t n = copies();
        switch (options_.observation) {
            case ObservationForm::kPacked:
                return checked<std::uint8_t>(values, name, {n, packed::kBytes});
            case ObservationForm::kUint8:
                return checked<std::uint8_t>(values, name, {n, kPlanes, 9, 9});
            default:
                return reinterpret_cast<std::uint8_t*>(checked<float>(values, name, {n, kPlanes, 9, 9}));
        }
    }

    std::uint8_t* checked_legal(const AnyArray& legal) const {
        const std::size_t n = copies();
        switch (options_.legal) {
            case LegalForm::kList:
                return reinterpret_cast<std::uint8_t*>(checked<std::uint16_t>(legal, kLegal, {n * kMostLegalMoves}));
            case LegalForm::kMask:
                return checked<std::uint8_t>(legal, kLegal, {n, kActions});
            default:
                return checked<std::uint8_t>(legal, kLegal, {n, kMaskBitBytes});
        }
    }

    ObservationArrays observation(const AnyArray& values, const AnyArray& legal, const AnyArray& offsets,
                                  const AnyArray& seat) const {
        const std::size_t n = copies(), listed = options_.legal == LegalForm::kList ? n + 1 : 0;
        return {checked_values(values, kValues), checked_legal(legal),
                checked<std::int32_t>(offsets, kOffsets, {listed}), checked<std::int8_t>(seat, kSeat, {n})};
    }

    BatchOptions options_;
    Batch batch_;
};

// Our errors are raised as the package's own.
void translate(const std::exception_ptr& error, void*) {
    const auto raise = [](const char* name, const std::exception& e) {
        const nb::object type = nb::module_::import_("keisei.errors").attr(name);
        PyErr_SetString(type.ptr(), e.what());
    };
    try {
        std::rethrow_exception(error);
    } catch (const NotationError& e) {
        raise("NotationError", e);
    } catch (const IllegalMoveError& e) {
        raise("IllegalMoveError", e);
    }
}

std::vector<std::string> texts_of(const MoveList& moves) {
    std::vector<std::string> texts;
    for (const Move m : moves) texts.push_back(to_usi(m));
    std::sort(texts.begin(), texts.end());
    return texts;
}

// Counts leaves as perft() does, without the interpreter lock, but lets Ctrl-C end it.
class PatientCount {
  public:
    std::uint64_t leaves(Position& p, int depth) {
        if (depth <= kDepthAtOnce) return perft(p, depth);
        let_signals_in();
        std::uint64_t sum = 0;
        for (const Move m : legal_moves(p)) {
            const Undo undo = p.do_move(m);
            sum += leaves(p, depth - 1);
            p.undo_move(m, undo);
        }
        return sum;
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr int kDepthAtOnce = 3;
    static constexpr std::chrono::milliseconds kPatience{50};

    void let_signals_in() {
        if (Clock::now() < next_look_) return;
        const nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        next_look_ = Clock::now() + kPatience;
    }

    Clock::time_point next_look_ = Clock::now() + kPatience;
};

std::vector<std::pair<std::string, std::uint64_t>> divide(const Game& game, int depth) {
    std::vector<std::pair<std::string, std::uint64_t>> result;
    Position p = game.position();
    PatientCount count;
    for (const Move m : legal_moves(p)) {
        const Undo undo = p.do_move(m);
        result.emplace_back(to_usi(m), count.leaves(p, depth - 1));
        p.undo_move(m, undo);
    }
    std::sort(result.begin(), result.end());
    return result;
}

Action checked_action(std::int64_t action) {
    if (action < 0 || action >= kActions)
        throw NotationError("expected an action from 0 to 13526, found " + std::to_string(action));
    return Action(action);
}

using PackedArray = nb::ndarray<const std::uint8_t, nb::shape<-1, packed::kBytes>, nb::c_contig, nb::device::cpu>;

template <class T>
void expand_all(const PackedArray& in, int move_limit, T* out, void (*expand_one)(const std::uint8_t*, int, T*)) {
    if (move_limit < 1) throw nb::value_error("move_limit: expected 1 or more");
    const std::uint8_t* const rows = in.data();
    const std::size_t n = in.shape(0);
    for (std::size_t i = 0; i < n; ++i)
        if (!is_packed(rows + i * packed::kBytes))
            throw NotationError("packed: no position in row " + std::to_string(i));
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < n; ++i) expand_one(rows + i * packed::kBytes, move_limit, out + i * kPlaneCells);
}

// Where the lists of legal actions of n lanes lie, one behind the other from the first offset on.
struct LegalLists {
    const Action* actions;
    const std::int32_t* offsets;  // [n + 1]

    const Action* begin(std::size_t lane) const { return actions + (offsets[lane] - offsets[0]); }
    int count(std::size_t lane) const { return offsets[lane + 1] - offsets[lane]; }
};

LegalLists checked_lists(const AnyArray& actions, const AnyArray& offsets, std::size_t lanes) {
    const std::int32_t* const places = checked<std::int32_t>(offsets, "offsets", {lanes + 1});
    for (std::size_t i = 0; i < lanes; ++i)
        if (places[i + 1] < places[i] || places[i + 1] - places[i] > kMostLegalMoves)
            throw nb::value_error("offsets: expected lists of 0 to 593 actions");
    const std::size_t size = std::size_t(places[lanes] - places[0]);
    const Action* const listed = checked<Action>(actions, "legal", {size});
    if (size && *std::max_element(listed, listed + size) >= kActions)
        throw nb::value_error("legal: expected actions from 0 to 13526");
    return {listed, places};
}

void draw_all(const AnyArray& cells, const AnyArray& parts, const AnyArray& legal, const AnyArray& offsets,
              const AnyArray& uniform, float temperature, const AnyArray& action, const AnyArray& choice,
              const AnyArray& log_probability) {
    if (cells.ndim() != 2) throw nb::value_error("cells: expected a C-contiguous float32 array [lanes, cells]");
    const std::size_t n = cells.shape(0), width = cells.shape(1);
    const float* const said = checked<float>(cells, "cells", {n, width});
    const Preferences preferences{checked<std::uint32_t>(parts, "parts", {kActions, kPartsPerAction}), width,
                                  temperature};
    const LegalLists lists = checked_lists(legal, offsets, n);
    const float* const numbers = checked<float>(uniform, "uniform", {n});
    std::int64_t* const actions = checked<std::int64_t>(action, "action", {n});
    std::int64_t* const choices = checked<std::int64_t>(choice, "choice", {n});
    float* const log_probabilities = checked<float>(log_probability, "log_probability", {n});
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < n; ++i) {
        const int count = lists.count(i);
        const Drawn drawn = count ? draw(preferences, said + i * width, lists.begin(i), count, numbers[i]) : Drawn{};
        actions[i] = count ? lists.begin(i)[drawn.choice] : 0;
        choices[i] = drawn.choice;
        log_probabilities[i] = drawn.log_probability;
    }
}

void bind_game(nb::module_& m) {
    nb::class_<Game>(m, "Game")
        .def(
            "__init__",
            [](Game* self, std::string_view start, std::string_view declaration, int move_limit, bool handicap) {
                const Opening opening = parse_opening(start);
                new (self)
                    Game(handicap ? as_handicap(opening) : opening, Rules{declaration_rule(declaration), move_limit});
            },
            "start"_a, "declaration"_a, "move_limit"_a, "handicap"_a)
        .def("copy", [](const Game& g) { return Game(g); })
        .def("sfen", &Game::sfen)
        .def("turn", [](const Game& g) { return int(g.position().turn()); })
        .def("plies", &Game::plies)
        .def("moves",
             [](const Game& g) {
                 std::vector<std::string> texts;
                 for (const Move move : g.moves()) texts.push_back(to_usi(move));
                 return texts;
             })
        .def("legal_moves", [](const Game& g) { return texts_of(legal_moves(g.position())); })
        .def(
            "is_legal", [](const Game& g, std::string_view usi) { return is_legal(g.position(), parse_usi(usi)); },
            "usi"_a)
        .def("push", &Game::push, "usi"_a)
        .def("pop",
             [](Game& g) {
                 if (g.plies() == 0) throw nb::index_error("no move to take back");
                 return to_usi(g.take_back());
             })
        .def("in_check", &Game::in_check)
        .def("can_declare", &Game::can_declare)
        .def("occurrences", &Game::occurrences)
        .def("outcome",
             [](const Game& g) {
                 const Outcome outcome = g.outcome();
                 return std::pair<std::string, int>(kReasonNames[int(outcome.reason)], int(outcome.winner));
             })
        .def(
            "perft",
            [](const Game& g, int depth) {
                Position p = g.position();
                const nb::gil_scoped_release release;
                return PatientCount().leaves(p, depth);
            },
            "depth"_a)
        .def(
            "divide",
            [](const Game& g, int depth) {
                const nb::gil_scoped_release release;
                return divide(g, depth);
            },
            "depth"_a)
        .def(
            "pack",
            [](const Game& g, const AnyArray& out) {
                pack(g.position(), g.situation(), checked<std::uint8_t>(out, "out", {packed::kBytes}));
            },
            nb::arg("out").noconvert())
        .def("legal_actions",
             [](const Game& g) {
                 std::vector<Action> actions(kActionRoom);
                 actions.resize(std::size_t(legal_actions(g.position(), constraints(g.position()), actions.data())));
                 return actions;
             })
        .def("key", [](const Game& g) { return g.position().key(); })
        .def("equals", [](const Game& a, const Game& b) { return a == b; }, "other"_a);
}

void bind_batch(nb::module_& m) {
    // Called with what the functions of the same name cannot take.
    const auto refuse_observation = [](const BoundBatch&, const nb::args& given) {
        refuse(given, {kValues, kLegal, kOffsets, kSeat});
    };
    const auto refuse_step = [](const BoundBatch&, const nb::args& given) {
        refuse(given, {"actions", "step.reward", "step.discount", "step.ended", "step.cut_off", "step.reason",
                       "step.length", "step.final", kValues, kLegal, kOffsets, kSeat});
    };
    const auto refuse_state = [](const BoundBatch&, const nb::args& given) { refuse(given, {"state"}); };
    const auto out = [](const char* name) { return nb::arg(name).noconvert(); };
    nb::class_<BoundBatch>(m, "Batch")
        .def(
            "__init__",
            [](BoundBatch* self, int copies, int threads, std::uint64_t seed, std::uint64_t first_lane,
               std::string_view observation, std::string_view legal, std::string_view declaration, int move_limit,
               const std::vector<std::string>& openings, int random_plies, double random_share, int remembered,
               double remembered_share) {
                Terms terms{{declaration_rule(declaration), move_limit},
                            {},
                            random_plies,
                            random_share,
                            remembered,
                            remembered_share};
                for (const std::string& text : openings) terms.openings.push_back(parse_opening(text));
                new (self)
                    BoundBatch({copies, threads, seed, first_lane, observation_form(observation), legal_form(legal)},
                               std::move(terms));
            },
            "copies"_a, "threads"_a, "seed"_a, "first_lane"_a, "observation"_a, "legal"_a, "declaration"_a,
            "move_limit"_a, "openings"_a, "random_plies"_a, "random_share"_a, "remembered"_a, "remembered_share"_a)
        .def_prop_ro("state_bytes", &BoundBatch::state_bytes)
        .def("reset", &BoundBatch::reset, out("values"), out("legal"), out("offsets"), out("seat"))
        .def("observe", &BoundBatch::observe, out("values"), out("legal"), out("offsets"), out("seat"))
        .def("step", &BoundBatch::step, out("actions"), out("reward"), out("discount"), out("ended"), out("cut_off"),
             out("reason"), out("length"), out("final"), out("values"), out("legal"), out("offsets"), out("seat"))
        .def("save", &BoundBatch::save, out("state"))
        .def("reset", refuse_observation)
        .def("observe", refuse_observation)
        .def("step", refuse_step)
        .def("save", refuse_state)
        .def("load", &BoundBatch::load, out("state"))
        .def("sfen", &BoundBatch::sfen, "lane"_a);
}

void bind_actions(nb::module_& m) {
    m.attr("ACTIONS") = kActions;
    m.attr("MOST_LEGAL") = kMostLegalMoves;
    m.attr("PLANES") = kPlanes;
    m.attr("PACKED_BYTES") = int(packed::kBytes);
    m.attr("REASONS") = nb::make_tuple(kReasonNames[0], kReasonNames[1], kReasonNames[2], kReasonNames[3],
                                       kReasonNames[4], kReasonNames[5], kReasonNames[6]);
    m.def("scale", [] { return std::vector<float>(std::begin(kScale), std::end(kScale)); });
    m.def("handicap_names", [] {
        const auto names = handicap_names();
        return std::vector<std::string>(names.begin(), names.end());
    });
    m.def(
        "action_to_usi",
        [](std::int64_t action, bool white) {
            return to_usi(to_move(checked_action(action), white ? kWhite : kBlack));
        },
        "action"_a, "white"_a);
    m.def(
        "usi_to_action",
        [](std::string_view usi, bool white) { return int(to_action(parse_usi(usi), white ? kWhite : kBlack)); },
        "usi"_a, "white"_a);
    m.def(
        "expand",
        [](const PackedArray& in, int move_limit, const AnyArray& out) {
            const std::size_t n = in.shape(0);
            if (out.dtype() == nb::dtype<float>())
                expand_all(in, move_limit, checked<float>(out, "out", {n, kPlanes, 9, 9}), expand<float>);
            else
                expand_all(in, move_limit, checked<std::uint8_t>(out, "out", {n, kPlanes, 9, 9}), expand<std::uint8_t>);
        },
        nb::arg("packed").noconvert(), "move_limit"_a, nb::arg("out").noconvert());
    m.def(
        "expand_channels_last",
        [](const PackedArray& in, int move_limit, const AnyArray& out) {
            float* const planes = checked<float>(out, "out", {in.shape(0), 9, 9, kPlanes});
            expand_all(in, move_limit, planes, expand_channels_last);
        },
        nb::arg("packed").noconvert(), "move_limit"_a, nb::arg("out").noconvert());
    m.def("draw", &draw_all, nb::arg("cells").noconvert(), nb::arg("parts").noconvert(), nb::arg("legal").noconvert(),
          nb::arg("offsets").noconvert(), nb::arg("uniform").noconvert(), "temperature"_a,
          nb::arg("action").noconvert(), nb::arg("choice").noconvert(), nb::arg("log_probability").noconvert());
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "The Shogi core: games, batches of games, and the numbers of moves.";
    nb::register_exception_translator(translate, nullptr);
    bind_game(m);
    bind_batch(m);
    bind_actions(m);
}
