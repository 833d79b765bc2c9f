"""Checkpoints: what is written comes back bit for bit, and what was not written so is refused with the reason."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
import stat
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from checkpoints import bits, same, small
from keisei.checkpoint import (
    JSON,
    Checkpoint,
    files,
    folder_of,
    latest,
    manifest,
    numbers,
    read,
    verify,
    weights_sha256,
    write,
)
from keisei.checkpoint.text import MOST_BYTES
from keisei.errors import CheckpointError

WEIGHTS = "weights.safetensors"


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the files is the same without; `test_checkpoint_crash.py` is about what is on the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, 1, small())


def refusal(folder: Path) -> str:
    """Why a checkpoint is refused, by all who read it."""
    with pytest.raises(CheckpointError) as caught:
        read(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"checkpoint {folder}: ")
    return line.removeprefix(f"checkpoint {folder}: ")


def forge(folder: Path, name: str, content: bytes) -> None:
    """Change or add a file and let the manifest agree."""
    (folder / name).write_bytes(content)
    values = json.loads((folder / "manifest.json").read_text())
    values["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(values))


def tensor_file(header: object, data: bytes = b"") -> bytes:
    """A safetensors file with this header, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


# --- what is written comes back --------------------------------------------------------------------------------------


def every_type() -> dict[str, torch.Tensor]:
    """Tensors of every type and of the odd shapes, with the bit patterns that conversions lose."""
    patterns = torch.tensor([0x7FC00001, 0xFF800001, 0x80000000, 0x7F800000, 1, 0], dtype=torch.uint32)
    whole = {
        str(dtype).removeprefix("torch."): torch.tensor([0, 1, 100, 127], dtype=dtype)
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32)
    }
    return {
        **whole,
        "float64": torch.tensor([1 / 3, -0.0, float("inf"), float("nan")], dtype=torch.float64),
        "float32 patterns": patterns.view(torch.float32),
        "bfloat16 patterns": patterns.view(torch.bfloat16),
        "float16 patterns": patterns.view(torch.float16),
        "uint64": torch.tensor([-1, 5], dtype=torch.int64).view(torch.uint64),
        "int64 extremes": torch.tensor([-(2**63), 2**63 - 1]),
        "bool": torch.tensor([[True, False, True]]),
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(3, 0, 5),
        '形勢 " \\ \n': torch.arange(5),
        "transposed": torch.arange(12.0).reshape(3, 4).T,
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "repeated": torch.tensor([1.5]).expand(4, 3),
        "every other": torch.arange(20, dtype=torch.int16)[::2],
        "view": torch.arange(20.0)[7:9],
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }


def test_everything_comes_back_bit_for_bit(tmp_path: Path) -> None:
    facts: dict[str, JSON] = {
        "text": '形勢 \ud800 \x00 "',
        "whole": 2**64 - 1,
        "numbers": [0.1, 1e-308, 5e-324, -0.0, 1.7976931348623157e308, True, None],
        "nested": {"empty": {}, "": []},
    }
    written = Checkpoint({"layer.weight": torch.randn(3, 4)}, {"odd": every_type(), "none": {}}, facts, "名: 値\n")
    folder = write(tmp_path, 12, written)
    found = read(folder)
    assert folder == tmp_path / "checkpoints" / "00000012"
    assert same(found, written)
    assert repr(found.facts) == repr(facts)
    verify(folder)


def test_tensors_of_a_checkpoint_can_be_written_to(folder: Path) -> None:
    environment = read(folder).tensors["environment"]["state"].numpy()
    environment[:] = 9
    assert environment.flags.owndata is False
    assert read(folder).tensors["environment"]["state"][0, 0] == 1


def test_tensor_files_are_those_of_the_format_s_own_writer(tmp_path: Path) -> None:
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in every_type().items()}
    folder = write(tmp_path, 1, replace(small(), tensors={"odd": dict(reversed(tensors.items()))}))
    assert (folder / "odd.safetensors").read_bytes() == safetensors.torch.save(tensors)
    assert bits(safetensors.torch.load_file(folder / "odd.safetensors")) == bits(tensors)


def test_same_weights_have_the_same_sha256_whatever_their_order_and_layout(tmp_path: Path) -> None:
    weights = {"a": torch.randn(2, 3, 4, 5), "b": torch.randn(7), "c": torch.tensor(3)}
    other = {name: weights[name].clone() for name in "cba"}
    other["a"] = other["a"].to(memory_format=torch.channels_last)
    first = write(tmp_path, 1, replace(small(), weights=weights))
    second = write(tmp_path, 2, replace(small(9), weights=other))
    assert weights_sha256(first) == weights_sha256(second)
    assert weights_sha256(first) == hashlib.sha256((second / WEIGHTS).read_bytes()).hexdigest()
    other["b"][0] += 1e-6
    assert weights_sha256(write(tmp_path, 3, replace(small(), weights=other))) != weights_sha256(first)


def test_wanted_groups_alone_are_read(folder: Path) -> None:
    assert read(folder, ()).tensors == {}
    found = read(folder, ["published"])
    assert bits({"published": small().tensors["published"]}) == bits(dict(found.tensors))
    with pytest.raises(CheckpointError, match=r"it has no replay\.safetensors"):
        read(folder, ["replay"])
    damaged = folder / "environment.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"environment\.safetensors has \d+ bytes, expected \d+"):
        read(folder, ())


def test_writing_again_replaces(tmp_path: Path) -> None:
    write(tmp_path, 1, replace(small(1), tensors={"old": {}}))
    folder = write(tmp_path, 1, small(2))
    assert same(read(folder), small(2))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000001"]


def test_writing_again_replaces_where_names_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(one: Path, other: Path) -> None:
        raise OSError(22, "Invalid argument")

    write(tmp_path, 1, small(1))
    monkeypatch.setattr(files, "_exchange", unknown)
    assert same(read(write(tmp_path, 1, small(2))), small(2))
    files.remove_temporary(tmp_path / "checkpoints")
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000001"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_has_the_name_of_a_checkpoint_is_replaced(tmp_path: Path, kind: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints").mkdir()
    if kind == "file":
        folder_of(tmp_path, 1).write_text("nothing")
    else:
        folder_of(tmp_path, 1).symlink_to(tmp_path / "elsewhere")
    assert same(read(write(tmp_path, 1, small())), small())
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000001"]
    assert (tmp_path / "elsewhere").exists()


def test_files_have_the_usual_permissions(folder: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask
    assert stat.S_IMODE((folder / WEIGHTS).stat().st_mode) == 0o666 & ~mask


# --- what cannot be saved --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_that_are_not_finite_are_not_written(tmp_path: Path, value: float, dtype: torch.dtype) -> None:
    bad = torch.ones(300, dtype=dtype)
    bad[251] = value
    for checkpoint in (
        replace(small(), weights={"good": torch.ones(2), "layer.bias": bad}),
        replace(small(), tensors={"published": {"layer.bias": bad}}),
    ):
        with pytest.raises(CheckpointError, match=r"safetensors: tensor 'layer\.bias' is not finite"):
            write(tmp_path, 1, checkpoint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"facts": {"loss": float("nan")}}, r"state\.json: Out of range float values are not JSON compliant"),
        ({"facts": {"pair": (1, 2)}}, r"state\.json: tuples"),
        ({"facts": {3: 1}}, r"state\.json: tuples, keys that are no text"),
        ({"facts": {"array": np.int64(3)}}, r"state\.json: Object of type int64 is not JSON serializable"),
        ({"facts": {"text": "x" * MOST_BYTES}}, r"state\.json: \d+ bytes of JSON, at most"),
        ({"config": "x" * (MOST_BYTES + 1)}, r"config\.yaml: more than"),
        ({"config": "\ud800"}, r"config\.yaml: 'utf-8' codec can't encode"),
        ({"tensors": {"weights": {}}}, r"no further group of tensors can be called 'weights'"),
        ({"tensors": {"../up": {}}}, r"can be called '\.\./up'"),
        ({"tensors": {"": {}}}, r"can be called ''"),
        ({"tensors": {"a": {"x": torch.ones(2, dtype=torch.complex64)}}}, r"tensor x of torch.complex64"),
        ({"tensors": {"a": {"x": torch.ones(2, device="meta")}}}, r"on meta cannot be saved"),
        ({"tensors": {"a": {"x": torch.ones(2).to_sparse()}}}, r"torch.sparse_coo"),
        ({"tensors": {"a": {"__metadata__": torch.ones(2)}}}, r"no tensor can be called __metadata__"),
        ({"tensors": {"a": {"x": [1.0]}}}, r"x is no tensor: list"),
    ],
)
def test_what_would_not_come_back_is_not_written(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    with pytest.raises(CheckpointError, match=f"this checkpoint cannot be saved: .*{reason}"):
        write(tmp_path, 1, replace(small(), **change))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_missing_run_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"00000001 cannot be written: No such file or directory"):
        write(tmp_path / "gone", 1, small())


# --- the newest good one ---------------------------------------------------------------------------------------------


def test_newest_checkpoint_is_found(tmp_path: Path) -> None:
    for number in (9, 10, 100_000_000):
        write(tmp_path, number, small(number))
    for name in ("0000011", "000000012", "00000013.old", ".00000014.tmp", "１２３４５６７８"):
        (tmp_path / "checkpoints" / name).mkdir()
    assert numbers(tmp_path) == [9, 10, 100_000_000]
    found = latest(tmp_path)
    assert (found.number, found.refused, found.behind) == (100_000_000, (), 0)
    assert same(found.checkpoint, small(100_000_000))


def test_damaged_newest_is_refused_with_the_reason_and_an_older_one_taken(tmp_path: Path) -> None:
    for number in (3, 5, 8, 11):
        write(tmp_path, number, small(number))
    (folder_of(tmp_path, 11) / "state.json").unlink()
    shutil.rmtree(folder_of(tmp_path, 8))
    folder_of(tmp_path, 8).symlink_to(folder_of(tmp_path, 3))
    found = latest(tmp_path)
    assert (found.number, found.behind) == (5, 6)
    assert [refused.folder for refused in found.refused] == [folder_of(tmp_path, 11), folder_of(tmp_path, 8)]
    assert "state.json is missing" in found.refused[0].reason
    assert "it is a symbolic link" in found.refused[1].reason


def test_run_without_a_good_checkpoint_says_why(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"{tmp_path} has no checkpoint that can be used$"):
        latest(tmp_path)
    for number in (1, 2):
        (write(tmp_path, number, small()) / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=r"used: .*00000002: weights\S+ is missing; .*00000001: weights"):
        latest(tmp_path)


def test_checkpoint_that_is_rotated_away_while_it_is_looked_at_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1, small(1))

    def rotated(folder: Path) -> dict[str, manifest.Entry]:
        if folder == folder_of(tmp_path, 1):
            write(tmp_path, 2, small(2))
            files.remove_folder(folder)
        return reading(folder)

    reading = manifest.read
    monkeypatch.setattr(manifest, "read", rotated)
    found = latest(tmp_path)
    assert (found.number, found.refused) == (2, ())


def test_checkpoint_with_weights_that_are_not_finite_is_not_selected(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write(tmp_path, number, small(number))
    bad = {"linear.weight": torch.tensor([1.0, float("nan")])}
    forge(folder_of(tmp_path, 3), WEIGHTS, safetensors.torch.save(bad))
    forge(folder_of(tmp_path, 2), "published.safetensors", safetensors.torch.save(bad))
    found = latest(tmp_path)
    assert found.number == 1
    assert all("tensor 'linear.weight' is not finite" in refused.reason for refused in found.refused)


# --- damage ----------------------------------------------------------------------------------------------------------


def test_one_flipped_bit_anywhere_is_seen(folder: Path) -> None:
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for at in range(len(content)):
            flipped = bytearray(content)
            flipped[at] ^= 1 << at % 8
            file.write_bytes(flipped)
            with pytest.raises(CheckpointError):
                verify(folder)
        refusal(folder)
        file.write_bytes(content)
    assert same(read(folder), small())


def test_without_the_sha256_a_flipped_bit_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_compare", lambda name, entry, sha256: None)
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (folder / WEIGHTS).write_bytes(content)
    assert not same(read(folder), small())


def test_truncated_and_lengthened_files_are_refused(folder: Path) -> None:
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for length in range(0, len(content), 16):
            file.write_bytes(content[:length])
            assert file.name in refusal(folder)
        file.write_bytes(content + b"\0")
        assert file.name in refusal(folder)
        file.write_bytes(content)
    assert same(read(folder), small())


def test_files_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    folder, other = write(tmp_path, 1, small(1)), write(tmp_path, 2, small(2))
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        shutil.copy(other / file.name, file)
        assert "is not what manifest.json says" in refusal(folder)
        file.write_bytes(content)


def test_missing_and_extra_files_are_refused(folder: Path) -> None:
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        file.unlink()
        assert file.name in refusal(folder)
        file.write_bytes(content)
    (folder / "weights.pt").write_bytes(b"")
    assert refusal(folder) == "it has a file that manifest.json does not name: 'weights.pt'"
    assert "there is no " in refusal(folder / "nowhere")
    assert refusal(folder / WEIGHTS) == "Not a directory"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_regular_file_is_refused(folder: Path, tmp_path: Path, kind: str) -> None:
    for name in (WEIGHTS, "manifest.json"):
        file = folder / name
        moved = file.rename(tmp_path / name)
        if kind == "link":
            file.symlink_to(moved)
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
        assert re.search(rf"{name} is (a symbolic link|no regular file)", refusal(folder))
        file.rmdir() if kind == "folder" else file.unlink()
        moved.rename(file)


# --- the format's version --------------------------------------------------------------------------------------------


def test_checkpoint_of_the_first_format_stays_readable() -> None:
    golden = Path(__file__).parent / "data" / "checkpoint-1"
    assert same(read(golden), small(5))
    assert weights_sha256(golden) == "d95bb8e9b1640be6b1c947655631cdfb9fc1b779934f71fb706d7edc45ece011"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "format version 2, this Keisei reads 1: a newer Keisei wrote it"),
        ({"format": 0}, "format version 0, this Keisei reads 1: no Keisei ever wrote that"),
        ({"format": "1"}, "it names no format version"),
        ({"format": True}, "it names no format version"),
        ({"format": None}, "it names no format version"),
        ({"more": 1}, "expected `format` and `files`, got"),
        ({"files": []}, "expected `format` and `files`, got"),
        ({"files": {}}, "it does not name config.yaml"),
    ],
)
def test_manifest_of_another_version_or_form_is_refused(folder: Path, change: dict[str, object], reason: str) -> None:
    values = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(values | change))
    assert refusal(folder).startswith(f"manifest.json: {reason}")


@pytest.mark.parametrize(
    ("name", "entry", "reason"),
    [
        ("../state.json", {}, "no file of a checkpoint is called '../state.json'"),
        ("/etc/passwd", {}, "no file of a checkpoint is called"),
        ("manifest.json", {}, "no file of a checkpoint is called"),
        ("a/b.safetensors", {}, "no file of a checkpoint is called"),
        (".safetensors", {}, "no file of a checkpoint is called"),
        ("x\0.safetensors", {}, "no file of a checkpoint is called"),
        ("n" * 100_000, {}, "no file of a checkpoint is called"),
        (WEIGHTS, [], "expected `bytes` and `sha256` of"),
        (WEIGHTS, {"bytes": 1}, "expected `bytes` and `sha256` of"),
        (WEIGHTS, {"bytes": -1, "sha256": ""}, "cannot have -1 bytes"),
        (WEIGHTS, {"bytes": 10**30, "sha256": ""}, "cannot have 1000000000000000000000000000000 bytes"),
        (WEIGHTS, {"bytes": 1.5, "sha256": ""}, "cannot have 1.5 bytes"),
        (WEIGHTS, {"bytes": 1, "sha256": "A" * 64}, "cannot have the sha256"),
        (WEIGHTS, {"bytes": 1, "sha256": "a" * 64}, "has"),
        (WEIGHTS, {"bytes": 2**59, "sha256": "a" * 64}, "more than this machine's memory"),
    ],
)
def test_manifest_with_an_impossible_entry_is_refused(folder: Path, name: str, entry: object, reason: str) -> None:
    values = json.loads((folder / "manifest.json").read_text())
    values["files"][name] = entry
    (folder / "manifest.json").write_text(json.dumps(values))
    assert reason in refusal(folder)


# --- malice ----------------------------------------------------------------------------------------------------------


MARK = "keisei-was-here"


class Malice:
    """Runs code when it is unpickled: it leaves a mark in the folder where the program works."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (MARK,)


def zipped_pickle(path: Path) -> bytes:
    with zipfile.ZipFile(path / "zip", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Malice()))
    return (path / "zip").read_bytes()


FLOAT = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}

HOSTILE_TENSORS = {
    "nothing": b"",
    "pickle": pickle.dumps(Malice()),
    "length of the header 2^60": (2**60).to_bytes(8, "little") + b"{}",
    "header longer than the file": (3).to_bytes(8, "little") + b"{}",
    "header of 50 MB": tensor_file(b"{" + b" " * 50_000_000 + b"}"),
    "header of many lists": tensor_file(b"[" + b"[]," * (MOST_BYTES // 3 - 9) + b"[]]"),
    "header of many keys": tensor_file({str(at): 0 for at in range(MOST_BYTES // 16)}),
    "header of deep lists": tensor_file(b"[" * 1_000_000),
    "header of deep objects": tensor_file(b'{"a":' * 500_000),
    "header of digits": tensor_file(b"1" * 1_000_000),
    "header is no text": tensor_file(b"\xff" * 16),
    "header is a list": tensor_file([FLOAT]),
    "key twice": tensor_file(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'),
    "metadata": tensor_file({"__metadata__": {"format": "pt"}, "a": FLOAT}, bytes(4)),
    "a tensor of metadata": tensor_file({"__metadata__": FLOAT}, bytes(4)),
    "no entry": tensor_file({"a": 7}),
    "no type": tensor_file({"a": {"shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
    "unknown type": tensor_file({"a": FLOAT | {"dtype": "F4"}}, bytes(4)),
    "type is a list": tensor_file({"a": FLOAT | {"dtype": []}}, bytes(4)),
    "shape 10^9": tensor_file({"a": FLOAT | {"shape": [10**9]}}, bytes(4)),
    "shape 10^9 with its offsets": tensor_file({"a": FLOAT | {"shape": [10**9], "data_offsets": [0, 4 * 10**9]}}),
    "shape 2^62 × 4": tensor_file({"a": FLOAT | {"shape": [2**62, 4], "data_offsets": [0, 0]}}),
    "shape 0 × 2^62": tensor_file({"a": FLOAT | {"shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}),
    "shape of 100,000 numbers": tensor_file({"a": FLOAT | {"shape": [1] * 100_000}}, bytes(4)),
    "negative shape": tensor_file({"a": FLOAT | {"shape": [-1], "data_offsets": [0, -4]}}),
    "shape is a truth": tensor_file({"a": FLOAT | {"shape": [True]}}, bytes(4)),
    "shape is a fraction": tensor_file({"a": FLOAT | {"shape": [1.0]}}, bytes(4)),
    "data outside": tensor_file({"a": FLOAT | {"data_offsets": [4, 8]}}, bytes(4)),
    "data before": tensor_file({"a": FLOAT | {"data_offsets": [-4, 0]}}, bytes(4)),
    "data shared": tensor_file({"a": FLOAT, "b": FLOAT}, bytes(4)),
    "data too many": tensor_file({"a": FLOAT}, bytes(8)),
    "not aligned": tensor_file({"a": FLOAT | {"data_offsets": [1, 5]}, "b": FLOAT | {"dtype": "U8"}}, bytes(5)),
}


def most_memory(action: Callable[[], object]) -> int:
    """By how many bytes this process grows at most while something is done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("this system does not tell a process's greatest size anew")

    def size(key: str) -> int:
        status = Path("/proc/self/status").read_text()
        return int(re.findall(rf"{key}:\s+(\d+) kB", status)[0]) * 1024

    before = size("VmRSS")
    action()
    return size("VmHWM") - before


def cheap_refusal(folder: Path) -> str:
    """Why a checkpoint is refused, which takes less than 100 MB and a second."""
    reasons = []
    start = time.process_time()
    assert most_memory(lambda: reasons.append(refusal(folder))) < 100e6
    assert time.process_time() - start < 1
    return reasons[0]


@pytest.mark.parametrize("name", HOSTILE_TENSORS)
def test_forged_tensors_cost_a_sentence_and_little_memory(folder: Path, name: str) -> None:
    forge(folder, WEIGHTS, HOSTILE_TENSORS[name])
    assert cheap_refusal(folder).startswith(f"{WEIGHTS}: ")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b""),
        ("state.json", b"[]"),
        ("state.json", b"\xff\xfe"),
        ("state.json", b"[" * 1_000_000),
        ("state.json", b"[" + b"[]," * (MOST_BYTES // 3 - 9) + b"[]]"),
        ("state.json", b'{"a": NaN}'),
        ("state.json", b'{"a": 1e999}'),
        ("state.json", b'{"a": ' + b"9" * 5000 + b"}"),
        ("state.json", b'{"a": 1, "a": 2}'),
        ("state.json", b" " * (MOST_BYTES + 1)),
        ("config.yaml", b"\xff"),
    ],
)
def test_forged_texts_cost_a_sentence_and_little_memory(folder: Path, name: str, content: bytes) -> None:
    forge(folder, name, content)
    assert cheap_refusal(folder).startswith(f"{name}: ")


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_with_a_pickle_run_no_code(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    forge(folder, WEIGHTS, zipped_pickle(tmp_path) if zipped else pickle.dumps(Malice()))
    assert "a header of" in refusal(folder)
    assert not (tmp_path / MARK).exists()
    pickle.loads(pickle.dumps(Malice()))
    assert (tmp_path / MARK).exists(), "whoever unpickles it runs it"


def test_huge_files_without_content_are_refused_at_once(folder: Path) -> None:
    size = 2**42
    os.truncate(folder / WEIGHTS, size)
    values = json.loads((folder / "manifest.json").read_text())
    values["files"][WEIGHTS]["bytes"] = size
    (folder / "manifest.json").write_text(json.dumps(values))
    assert "more than this machine's memory" in refusal(folder)
    os.truncate(folder / WEIGHTS, 0)
    os.truncate(folder / "manifest.json", size)
    assert re.fullmatch(r"manifest.json has \d+ bytes, at most \d+ are read", refusal(folder))


def test_folder_of_many_files_is_refused_at_once(folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}").touch()
    assert "it has a file that manifest.json does not name" in refusal(folder)
