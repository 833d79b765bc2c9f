"""Networks: no row depends on another, the first policy is near uniform, and the policy's cells tell moves apart."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from keisei import build
from keisei.config_learner import DQNConfig
from keisei.config_network import NetworkConfig
from keisei.environment import Int64
from keisei.networks import MLP, ConvolutionalTower, DenseNetwork, Network, ResidualTower
from keisei.networks.network import ConvolutionalPolicy, ValueHead
from keisei.networks.resnet import Normalization, ResidualBlock, SqueezeExcite
from keisei.opponents import RandomOpponent
from keisei.policy import choices_of_lists, masked
from keisei.shogi.actions import POLICY_PLANES, Turn, policy_parts, usi_to_action
from keisei.threads import torch_threads
from shogi_table import ACTIONS, Table
from small_shogi import KINDS, play_on, positions, shake, small_game, small_network

ROWS = 12
EVERY_KIND = pytest.mark.parametrize("kind", list(KINDS))


def planes(count: int = ROWS, seed: int = 0) -> Tensor:
    """Positions as networks see them, in memory of their own."""
    return small_game().encoder()(positions(count, seed=seed)).clone(memory_format=torch.channels_last)


def some_actions(rows: int, columns: int = 30) -> Tensor:
    return torch.randint(ACTIONS, (rows, columns), generator=torch.Generator().manual_seed(rows))


@torch.no_grad()
def said(network: Network, seen: Tensor, actions: Tensor | None = None) -> tuple[Tensor, Tensor]:
    logits, values = network(seen, actions)
    return logits, values


# --- rows


@EVERY_KIND
@pytest.mark.parametrize("listed", [True, False])
def test_row_keeps_every_bit_when_other_rows_change(kind: str, listed: bool) -> None:
    network, first = small_network(kind), planes()
    actions = some_actions(ROWS) if listed else None
    other = planes(3 * ROWS, seed=1)[-ROWS:] * 3 - 1
    kept = torch.arange(ROWS) % 3 == 0
    logits, values = said(network, first, actions)
    changed = torch.where(kept[:, None, None, None], first, other).contiguous(memory_format=torch.channels_last)
    other_logits, other_values = said(network, changed, actions)
    assert torch.equal(logits[kept], other_logits[kept])
    assert torch.equal(values[kept], other_values[kept])
    assert (logits[~kept] != other_logits[~kept]).any(1).all()
    assert (values[~kept] != other_values[~kept]).all()


@EVERY_KIND
def test_row_is_the_same_in_a_batch_of_any_size_while_training_too(kind: str) -> None:
    network, seen, actions = small_network(kind), planes(), some_actions(ROWS)
    for mode in (True, False):
        network.train(mode)
        logits, values = said(network, seen, actions)
        assert logits.std() > 0.01  # there is something that could differ
        assert values.std() > 0.001
        for first, end in ((0, 1), (3, 5), (2, ROWS)):
            some_logits, some_values = said(network, seen[first:end], actions[first:end])
            torch.testing.assert_close(some_logits, logits[first:end], rtol=0, atol=1e-5)
            torch.testing.assert_close(some_values, values[first:end], rtol=0, atol=1e-5)


@EVERY_KIND
def test_what_is_seen_stays_as_it_is_and_the_same_input_gives_the_same_bits(kind: str) -> None:
    network, seen = small_network(kind), planes()
    before = seen.clone()
    first, again = said(network, seen), said(network, seen)
    assert torch.equal(seen, before)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    with torch.no_grad():
        assert torch.equal(network.values(seen), first[1])


@EVERY_KIND
def test_channels_last_and_contiguous_agree(kind: str) -> None:
    network, seen, actions = small_network(kind), planes(), some_actions(ROWS)
    plain = small_network(kind).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    contiguous = seen.contiguous()
    assert contiguous.stride() != seen.stride()
    for one, other in zip(said(network, seen, actions), said(plain, contiguous, actions), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_built_convolutions_hold_their_weights_channels_last() -> None:
    for kind in ("residual", "convolutional"):
        weights = [p for p in small_network(kind).body.parameters() if p.dim() == 4 and p.shape[2] > 1]
        assert weights
        assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)


@EVERY_KIND
def test_listed_actions_have_the_logits_of_all_in_order(kind: str) -> None:
    network, seen, actions = small_network(kind), planes(), some_actions(ROWS)
    whole, _ = said(network, seen)
    assert whole.shape == (ROWS, ACTIONS)
    listed, _ = said(network, seen, actions)
    torch.testing.assert_close(listed, whole.gather(1, actions), rtol=0, atol=1e-6)


# --- first weights


@EVERY_KIND
def test_first_policy_is_near_uniform_and_first_value_near_even(kind: str) -> None:
    game = small_game(block_size=24, random_plies=60)
    network = small_network(kind, fresh=True)
    environment = game.build_environment(0)
    table = Table(24, observation="packed", random_plies=60)
    environment.close()
    legal = table.observation[0].legal
    counts = np.diff(legal.offsets)
    choices = choices_of_lists(legal.actions[: legal.offsets[-1]], counts)
    logits, values = said(network, game.encoder()(table.values), choices.actions)
    chances = masked(logits, choices.mask).softmax(1)
    entropy = torch.special.entr(chances).sum(1).numpy()
    assert (entropy[counts > 1] >= 0.99 * np.log(counts[counts > 1])).all()
    assert values.abs().max() < 0.1


@EVERY_KIND
def test_layers_of_the_body_start_orthogonal(kind: str) -> None:
    checked = 0
    for layer in small_network(kind, fresh=True).body.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            weight = layer.weight.detach().flatten(1)
            short = weight if weight.shape[0] <= weight.shape[1] else weight.T
            torch.testing.assert_close(short @ short.T, 2 * torch.eye(len(short)), rtol=0, atol=1e-4)
            assert layer.bias is not None
            assert not layer.bias.any()
            checked += 1
    assert checked >= KINDS[kind].depth


@pytest.mark.parametrize("kind", ["residual, normalised", "convolutional", "mlp"])
def test_same_seed_gives_the_same_weights_and_leaves_other_chance_alone(kind: str) -> None:
    def built(seed: int) -> dict[str, Tensor]:
        return build.network(KINDS[kind], small_game(), seed).state_dict()

    torch.manual_seed(1)
    one = built(3)
    number = torch.rand(1)
    torch.manual_seed(2)
    again, other = built(3), built(4)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), number)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@EVERY_KIND
def test_weights_go_through_a_state_dict_and_back(kind: str) -> None:
    network, twin = small_network(kind), small_network(kind)
    shake(twin, 2)
    seen = planes()
    assert not torch.equal(said(network, seen)[0], said(twin, seen)[0])
    twin.load_state_dict(network.state_dict())
    assert all(torch.equal(one, other) for one, other in zip(said(network, seen), said(twin, seen), strict=True))
    assert not any("parts" in name for name in network.state_dict())  # they belong to the game


def test_every_weight_of_every_kind_learns() -> None:
    for kind in KINDS:
        network = small_network(kind)
        logits, values = network(planes(), None)
        (logits.square().mean() + values.square().mean()).backward()
        idle = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()]
        assert idle == [], kind


# --- bodies


def test_residual_block_begins_as_the_identity_and_then_adds_what_it_found() -> None:
    block = ResidualBlock(8, "none")
    features = torch.rand(2, 8, 9, 9)
    assert torch.equal(block(features), features)
    with torch.no_grad():
        block.weight.fill_(0.5)
        inner = block.scale(block.second(torch.relu(block.first(features))))
        torch.testing.assert_close(block(features), torch.relu(features + 0.5 * inner))


def test_squeeze_and_excite_scales_each_channel_by_what_all_cells_say() -> None:
    layer = SqueezeExcite(8)
    features = torch.randn(3, 8, 9, 9)
    with torch.no_grad():
        scaled = layer(features)
        for b in range(3):
            means = torch.stack([features[b, c].mean() for c in range(8)])
            inner = torch.clamp(layer.squeeze.weight @ means + layer.squeeze.bias, min=0)
            scale = 1 / (1 + torch.exp(-(layer.excite.weight @ inner + layer.excite.bias)))
            for c in range(8):
                torch.testing.assert_close(scaled[b, c], features[b, c] * scale[c])


@pytest.mark.parametrize("normalization", ["none", "group"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7, 16, 24, 40, 50, 67, 96])
def test_tower_may_have_any_width(channels: int, normalization: Normalization) -> None:
    tower = ResidualTower(5, 2, channels, normalization)
    assert tower(torch.rand(2, 5, 9, 9)).shape == (2, channels, 9, 9)
    groups = [layer for layer in tower.modules() if isinstance(layer, nn.GroupNorm)]
    assert len(groups) == (4 if normalization == "group" else 0)


def test_towers_and_perceptrons_are_as_deep_as_told() -> None:
    def layers(body: nn.Module) -> int:
        return sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in body.modules())

    assert layers(ConvolutionalTower(5, 3, 8)) == 3
    assert layers(MLP((5, 9, 9), [16, 8])) == 2
    assert sum(isinstance(layer, ResidualBlock) for layer in ResidualTower(5, 4, 8)) == 4
    assert MLP((5, 9, 9), [16, 8])(torch.rand(3, 5, 9, 9)).shape == (3, 8)


@pytest.mark.parametrize("kind", ["mlp", "residual", "dqn"])
def test_first_weights_are_the_same_on_any_number_of_processors(kind: str) -> None:
    game = small_game(observation="float32")
    section = NetworkConfig(kind="mlp" if kind == "dqn" else kind, depth=2, width=256, policy="dense")  # type: ignore[arg-type]
    if kind == "residual":
        section = section.model_copy(update={"width": 64, "policy": "convolutional"})

    def first() -> dict[str, Tensor]:
        if kind == "dqn":
            return build.players.values(section, DQNConfig(kind="dqn"), game, 3).network.state_dict()
        return build.network(section, game, 3).state_dict()

    weights = []
    for threads in (1, 2):
        with torch_threads(threads):
            weights.append(first())
    assert all(torch.equal(one, weights[1][name]) for name, one in weights[0].items())


def test_heads_of_a_dense_network_begin_as_two_would() -> None:
    heads = DenseNetwork(nn.Identity(), 20, 6).heads
    with torch.no_grad():
        for rows in (heads.weight[:-1], heads.weight[-1:]):
            torch.testing.assert_close(rows @ rows.T, 1e-4 * torch.eye(len(rows)))
        assert not heads.bias.any()


def test_dense_network_takes_any_game_that_has_numbers() -> None:
    game = small_game(observation="float32")
    network = build.network(NetworkConfig(kind="mlp", depth=1, width=4, policy="dense"), game, 0)
    assert [tensor.shape for tensor in said(network, torch.rand(2, 46, 9, 9))] == [(2, ACTIONS), (2,)]


# --- the cells of the policy


@cache
def parts() -> Int64:
    return policy_parts()


def part(usi: str, turn: Turn = "black") -> list[tuple[int, int]]:
    """The cells of a move as (plane, square)."""
    return [(int(cell) // 81, int(cell) % 81) for cell in parts()[usi_to_action(usi, turn)] if cell >= 0]


def square(usi: str, turn: Turn) -> int:
    """The number of a square as `turn` sees the board."""
    number = 9 * (ord(usi[1]) - ord("a")) + 9 - int(usi[0])
    return number if turn == "black" else 80 - number


def test_no_two_legal_moves_of_a_position_are_made_of_the_same_cells() -> None:
    table, opponent = Table(48, seed=5, random_plies=40, move_limit=300), RandomOpponent(5)
    seats = {0: 0, 1: 0}
    for _ in range(100):
        legal = table.observation[0].legal
        actions = legal.actions[: legal.offsets[-1]]
        cells = parts()[actions]
        assert (cells[:, 0] >= 0).all()
        rows = np.repeat(np.arange(48), np.diff(legal.offsets))
        keys = (rows * 82 * 81 + cells[:, 0]) * 82 * 81 + cells[:, 1] + 1
        assert len(np.unique(keys)) == len(keys)
        for seat in seats:
            seats[seat] += int((table.observation[0].seat == seat).sum())
        play_on(table, opponent)
    assert min(seats.values()) > 1000


def test_every_move_that_some_piece_can_make_has_its_cells() -> None:
    """On an empty board: queens' and knights' moves depart and arrive, drops only arrive, and nothing else has any."""
    cells = parts()
    assert cells.shape == (ACTIONS, 2)
    assert cells.max() < 81 * POLICY_PLANES
    assert cells.min() == -1
    for start in range(81):
        for target in range(81):
            if start == target:
                continue
            action = 160 * start + 2 * (target - (target > start))
            rows, columns = target // 9 - start // 9, target % 9 - start % 9
            straight = rows == 0 or columns == 0 or abs(rows) == abs(columns)
            leaps = rows == -2 and abs(columns) == 1
            for promotes in (0, 1):
                arrival, departure = cells[action + promotes]
                assert (arrival >= 0) == (departure >= 0) == (straight or leaps)
                if straight or leaps:
                    assert (arrival % 81, departure % 81) == (target, start)
    drops = cells[81 * 160 :]
    assert (drops[:, 1] == -1).all()
    assert (drops[:, 0] % 81 == np.arange(len(drops)) // 7).all()
    assert len(np.unique(drops[:, 0])) == len(drops)


@pytest.mark.parametrize("turn", ["black", "white"])
def test_cells_are_seen_by_the_side_that_moves(turn: Turn) -> None:
    (arrival, departure), (drop,) = part("7g7f", turn), part("P*5e", turn)
    assert (arrival[1], departure[1]) == (square("7f", turn), square("7g", turn))
    assert drop[1] == square("5e", turn)
    assert part("7g7f", "black") == part("3c3d", "white")


def test_like_moves_on_other_squares_share_their_planes_and_unlike_ones_do_not() -> None:
    def of(usi: str) -> list[int]:
        return [plane for plane, _ in part(usi)]

    assert of("7g7f") == of("2g2f") == of("9i9b")  # one or more squares ahead
    ways = ["5e5d", "5e5f", "5e4e", "5e6e", "5e4d", "5e6d", "5e4f", "5e6f", "5e4c", "5e6c", "5d5c+", "5e4c+"]
    kinds = [tuple(of(usi)) for usi in ways] + [tuple(of(f"{piece}*5e")) for piece in "PLNSGBR"]
    assert len(set(kinds)) == len(kinds)
    assert sorted(plane for kind in kinds[-7:] for plane in kind) == list(range(40, 47))
    for arrival, departure in kinds[:-7]:
        assert 0 <= arrival < 20 <= departure < 40


def test_logit_of_an_action_is_the_sum_of_its_cells() -> None:
    made = torch.tensor([[0, 9], [17, -1], [-1, -1], [5, 5]])
    head = ConvolutionalPolicy(3, 2, 9, made)
    with torch.no_grad():
        head.convolution.weight.normal_(generator=torch.Generator().manual_seed(0))
        head.convolution.bias.normal_(generator=torch.Generator().manual_seed(1))  # type: ignore[union-attr]
    features = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(2))
    logits = head(features, None)
    for b in range(4):
        cells = [
            sum(head.convolution.weight[plane, c, 0, 0] * features[b, c].flatten()[cell] for c in range(3))
            + head.convolution.bias[plane]  # type: ignore[index]
            for plane in range(2)
            for cell in range(9)
        ]
        expected = torch.stack([cells[0] + cells[9], cells[17], torch.zeros(()), cells[5] + cells[5]])
        torch.testing.assert_close(logits[b], expected)
    asked = torch.tensor([[3, 0], [1, 1], [2, 3], [0, 2]])
    assert torch.equal(head(features, asked), logits.gather(1, asked))
    channels_last = features.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(head(channels_last, None), logits)


def test_planes_of_directions_turn_with_the_board() -> None:
    """A row of steps in one direction shares its plane, each on its own square."""
    steps = [f"5{a}5{b}" for b, a in pairwise("abcdefghi")]
    cells = [part(usi) for usi in steps]
    assert len({arrival for (arrival, _), _ in cells}) == 1
    assert len({at for (_, at), _ in cells}) == len(steps)


@pytest.mark.parametrize("reach", [1.0, 100.0])
def test_values_reach_as_far_as_they_are_told(reach: float) -> None:
    features = torch.full((2, 3, 2, 2), 1e4) * torch.tensor([1.0, -1.0])[:, None, None, None]
    flat = DenseNetwork(nn.Flatten(), 12, 5, reach=reach)
    with torch.no_grad():
        flat.heads.weight.fill_(1.0)
        assert flat.values(features).tolist() == [reach, -reach]
        assert flat(features)[1].tolist() == [reach, -reach]
        head, plain = ValueHead(3, 4, reach=reach), ValueHead(3, 4)
        head.load_state_dict(plain.state_dict())
        assert torch.equal(head(features / 1e4), reach * plain(features / 1e4))
