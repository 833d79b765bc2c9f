"""The command line as a user meets it: help, the doctor, positions, and errors of one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import keisei
from keisei.cli import app, doctor
from keisei.cli.doctor import Finding

START = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"

runner = CliRunner()


def keisei_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a user sees who types `keisei …`: a process of its own, a terminal of 80 columns."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "keisei", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_help_names_every_command() -> None:
    done = keisei_command("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in ("board", "perft", "bench", "doctor"):
        assert command in done.stdout


@pytest.mark.parametrize("command", ["board", "perft", "bench", "doctor"])
def test_every_command_has_help(command: str) -> None:
    shown = runner.invoke(app, [command, "-h"])
    assert shown.exit_code == 0
    assert "Usage" in shown.output


def test_help_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, keisei.cli; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'pydantic')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_version_is_printed() -> None:
    assert runner.invoke(app, ["--version"]).output == f"keisei {keisei.__version__}\n"


def test_unknown_command_is_a_usage_error() -> None:
    assert runner.invoke(app, ["nonsense"]).exit_code == 2


def test_error_is_one_line_and_status_two() -> None:
    done = keisei_command("board", "xyz")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("keisei: ")
    assert done.stderr.count("\n") == 1


# --- Shogi -----------------------------------------------------------------------------------------------------------


def test_board_is_printed_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "board.svg"
    shown = runner.invoke(app, ["board", *START.split(), "--svg", str(file)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.strip()
    assert "<svg" in file.read_text(encoding="utf-8")


def test_board_accepts_a_quoted_position() -> None:
    assert runner.invoke(app, ["board", START]).output == runner.invoke(app, ["board", *START.split()]).output


def test_picture_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    shown = runner.invoke(app, ["board", START, "--svg", str(tmp_path / "absent" / "board.svg")])
    assert shown.exit_code == 1
    assert "No such file or directory" in shown.output.splitlines()[-1]


def test_perft_counts() -> None:
    shown = runner.invoke(app, ["perft", "--depth", "3"])
    assert shown.output.startswith("25470 nodes in ")


def test_perft_divides() -> None:
    shown = runner.invoke(app, ["perft", "--sfen", START, "--depth", "2", "--divide", "--json"])
    counted = json.loads(shown.output)
    assert counted["nodes"] == 900
    assert counted["sfen"] == START
    assert len(counted["divide"]) == 30
    assert set(counted["divide"].values()) == {30}


def test_perft_of_depth_zero_is_the_position_itself() -> None:
    for options in ([], ["--divide"]):
        assert runner.invoke(app, ["perft", "--depth", "0", *options]).output.startswith("1 nodes in ")


# --- the doctor ------------------------------------------------------------------------------------------------------


def test_doctor_says_what_there_is() -> None:
    shown = runner.invoke(app, ["doctor"])
    for group in ("Versions", "Processor", "Threads", "GPU", "Memory", "Files and processes"):
        assert group in shown.output
    assert f"keisei                {keisei.__version__}" in shown.output


def test_doctor_speaks_json() -> None:
    report = json.loads(runner.invoke(app, ["doctor", "--json"]).output)
    found = {finding["name"]: finding for finding in report["findings"]}
    assert found["memfd"]["value"] == "works"
    assert "this CPU" in found["native code"]["value"]
    assert report["problems"] == sum(finding["verdict"] == "problem" for finding in report["findings"])


def test_doctor_ends_with_status_one_where_there_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Finding]:
        yield Finding("Memory", "memfd", "does not work", "problem", "Processes cannot share arrays here.")

    monkeypatch.setattr(doctor, "memory", broken)
    shown = runner.invoke(app, ["doctor"])
    assert shown.exit_code == 1
    assert "problem: Processes cannot share arrays here." in shown.output
    assert shown.output.splitlines()[-1].startswith("Problems: ")


def verdicts(found: Iterator[Finding]) -> dict[str, str]:
    return {finding.name: finding.verdict for finding in found}


def test_native_code_of_another_cpu_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_native_build", lambda: {"compiler": "GNU 12", "cpu_flags": "avx2 avx10_3 htt"})
    found = next(finding for finding in doctor.processor() if finding.name == "native code")
    assert found.verdict == "problem"
    assert "avx10_3" in found.advice
    assert "htt" not in found.advice


def test_native_code_for_any_cpu_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_native_build", lambda: {"compiler": "GNU 12", "cpu_flags": ""})
    assert verdicts(doctor.processor())["native code"] == "fine"


def test_missing_native_code_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_native_build", lambda: None)
    assert verdicts(doctor.processor())["native code"] == "problem"


def test_few_open_files_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _kind: (256, 512))
    found = next(finding for finding in doctor.files() if finding.name == "open files")
    assert found.verdict == "note"
    assert "`ulimit -n 512`" in found.advice


def test_container_limits_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"/sys/fs/cgroup/cpu.max": "50000 100000\n", "/sys/fs/cgroup/memory.max": "1073741824\n"}
    monkeypatch.setattr(doctor, "_text", lambda path: texts.get(path, ""))
    assert "gets 0.5 cores' worth" in next(
        found.advice for found in doctor.threads() if found.name == "container's share"
    )
    assert verdicts(doctor.memory())["memory allowed"] == "note"


def test_memfd_that_is_forbidden_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_name: str) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.memfd_create", forbidden)
    assert verdicts(doctor.memory())["memfd"] == "problem"


def test_package_that_is_missing_or_old_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=999", "no-such-package>=1.0", "pytest; extra == 'dev'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _name: wanted)
    found = verdicts(doctor.versions())
    assert found["numpy"] == found["no-such-package"] == "problem"
    assert "pytest" not in found
