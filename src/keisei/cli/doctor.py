"""`keisei doctor`: what this machine has, what is wrong with it, and what to do. It changes nothing.

A *note* is good to know; a *problem* keeps Keisei from working, and the command then ends with the status 1.
"""

from __future__ import annotations

import importlib.metadata
import json
import mmap
import os
import platform
import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    group: str
    name: str
    value: str
    verdict: Literal["fine", "note", "problem"] = "fine"
    advice: str = ""  # what the verdict means, and what to do


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Say what this machine has, and what is wrong with it."""
    findings = [*versions(), *processor(), *threads(), *gpu(), *memory(), *files()]
    problems = sum(finding.verdict == "problem" for finding in findings)
    if as_json:
        typer.echo(json.dumps({"problems": problems, "findings": [asdict(finding) for finding in findings]}))
    else:
        _print(findings)
        typer.echo("\n" + (f"Problems: {problems}." if problems else "Nothing is wrong."))
    if problems:
        raise typer.Exit(1)


def _print(findings: list[Finding]) -> None:
    group = ""
    colours = {"fine": None, "note": typer.colors.YELLOW, "problem": typer.colors.RED}
    for finding in findings:
        if finding.group != group:
            group = finding.group
            typer.secho(f"\n{group}", bold=True)
        typer.echo(f"  {finding.name:22}{finding.value}")
        if finding.advice:
            typer.secho(f"  {'':22}{finding.verdict}: {finding.advice}", fg=colours[finding.verdict])


# --- versions --------------------------------------------------------------------------------------------------------


def versions() -> Iterator[Finding]:
    """Keisei, what it stands on, and whether each is there and new enough."""
    group = "Versions"
    system = platform.system()
    untested = "Keisei is written for Linux; other systems are untested." if system != "Linux" else ""
    yield Finding(group, "system", platform.platform(), "note" if untested else "fine", untested)
    yield Finding(group, "Python", platform.python_version())
    try:
        yield Finding(group, "keisei", importlib.metadata.version("keisei"))
    except importlib.metadata.PackageNotFoundError:
        yield Finding(group, "keisei", "not installed", "problem", "Run `make setup` and use .venv/bin/keisei.")
        return
    for line in importlib.metadata.requires("keisei") or ():
        wanted = re.fullmatch(r"([\w-]+)\s*>=\s*([\d.]+)", line)
        if wanted is None:  # an extra
            continue
        name, least = wanted.groups()
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(group, name, "not installed", "problem", f"Keisei needs {name} {least}: run `make setup`.")
            continue
        old = _numbers(version) < _numbers(least)
        advice = f"Keisei needs {least} or newer: run `make setup`." if old else ""
        yield Finding(group, name, version, "problem" if old else "fine", advice)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:2])


# --- processor and native code ---------------------------------------------------------------------------------------

_INSTRUCTION_SET = re.compile(
    r"sse|ssse|avx|bmi|fma|f16c|popcnt|abm|adx|v?aes|v?pclmulqdq|gfni|sha|movbe|amx|asimd|sve|crc32|atomics|lse"
)


def processor() -> Iterator[Finding]:
    """The CPU, and whether the native code was built for it."""
    group = "Processor"
    described = _cpu_description()
    yield Finding(group, "model", described.get("model name", platform.processor() or platform.machine()))
    flags = set(described.get("flags", described.get("Features", "")).split())
    shown = [flag for flag in ("popcnt", "avx2", "bmi2", "avx512f", "amx_bf16", "asimd", "sve") if flag in flags]
    yield Finding(group, "features", " ".join(shown) or "none that matter here")

    built = _native_build()
    if built is None:
        yield Finding(group, "native code", "not built", "problem", "Run `make setup` and use .venv/bin/keisei.")
        return
    needed = {flag for flag in built.get("cpu_flags", "").split() if _INSTRUCTION_SET.match(flag)}
    value = f"{built.get('compiler', '?')}, for {'this CPU' if needed else 'any CPU of this kind'}"
    if missing := sorted(needed - flags):
        advice = (
            f"It was built on a CPU that has {' '.join(missing)}; here it may end with 'illegal instruction'. "
            "Build it again: `make clean setup`."
        )
        yield Finding(group, "native code", f"{built.get('compiler', '?')}, for another CPU", "problem", advice)
    else:
        yield Finding(group, "native code", value)


def _cpu_description() -> dict[str, str]:
    """What /proc/cpuinfo says of the first core."""
    text = _text("/proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _native_build() -> dict[str, str] | None:
    """What the build wrote down about itself; None where there is none. Does not load the native code."""
    try:
        recorded = importlib.metadata.distribution("keisei").files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in recorded:
        if file.name == "native_build.json":
            text = _text(str(file.locate()))
            return {str(key): str(value) for key, value in json.loads(text).items()} if text else None
    return None


# --- threads ---------------------------------------------------------------------------------------------------------


def threads() -> Iterator[Finding]:
    """How many cores there are, and how many of them this process may use."""
    group = "Threads"
    cores = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    yield Finding(group, "cores", str(cores))
    advice = f"This process may use {allowed} of {cores} cores; more threads than that only wait for each other."
    yield _note(group, "cores allowed", str(allowed), advice if allowed < cores else "")
    quota, _, period = _text("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdecimal() and period.strip().isdecimal():
        share = int(quota) / int(period)
        advice = f"The container gets {share:g} cores' worth of time: use no more threads than that."
        yield _note(group, "container's share", f"{share:g} cores", advice if share < allowed else "")
    if chosen := os.environ.get("OMP_NUM_THREADS"):
        yield Finding(group, "OMP_NUM_THREADS", chosen)


# --- GPU -------------------------------------------------------------------------------------------------------------


def gpu() -> Iterator[Finding]:
    """The GPUs that torch sees, and why it sees none."""
    group = "GPU"
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding(group, "torch", "does not load", "problem", f"{str(error).splitlines()[0]}: run `make setup`.")
        return
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU only"
    yield Finding(group, "torch is built for", built)
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            yield Finding(group, f"GPU {index}", f"{device.name}, {device.total_memory / GIB:.0f} GiB")
        return
    if not Path("/proc/driver/nvidia/version").exists():
        yield Finding(group, "GPU", "none", "note", "Networks act and learn on the CPU.")
    elif torch.version.cuda is None:
        advice = "There is an NVIDIA driver, but this torch cannot use it: install a torch that is built for CUDA."
        yield Finding(group, "GPU", "not used", "problem", advice)
    else:
        advice = "There is an NVIDIA driver, but torch finds no GPU: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES."
        yield Finding(group, "GPU", "not found", "problem", advice)


# --- memory ----------------------------------------------------------------------------------------------------------


def memory() -> Iterator[Finding]:
    """Main memory, and whether processes can share it."""
    group = "Memory"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield Finding(group, "memory", f"{total / GIB:.1f} GiB")
    limit = _text("/sys/fs/cgroup/memory.max").strip()
    if limit.isdecimal() and int(limit) < total:
        advice = "The container's limit: whatever needs more is killed without a word."
        yield _note(group, "memory allowed", f"{int(limit) / GIB:.1f} GiB", advice)
    try:
        shm = os.statvfs("/dev/shm")
        size = shm.f_blocks * shm.f_frsize
        small = "" if size >= GIB else "Too little for torch's own data loaders; memfd, below, is not bound by it."
        yield _note(group, "/dev/shm", f"{size / GIB:.2f} GiB", small)
    except OSError:
        yield _note(group, "/dev/shm", "none", "Only torch's own data loaders would need it.")
    yield _memfd(group)


def _memfd(group: str) -> Finding:
    try:
        descriptor = os.memfd_create("keisei-doctor")
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            mmap.mmap(descriptor, mmap.PAGESIZE).close()
        finally:
            os.close(descriptor)
    except (OSError, AttributeError) as error:
        advice = (
            f"Processes cannot share arrays here ({error}): this needs Linux 3.17, outside sandboxes that forbid it."
        )
        return Finding(group, "memfd", "does not work", "problem", advice)
    return Finding(group, "memfd", "works")


# --- files and processes ---------------------------------------------------------------------------------------------


def files() -> Iterator[Finding]:
    """How many files may be open and how many processes may run, and whether a process can be watched."""
    group = "Files and processes"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = f"Few for many processes: run `ulimit -n {'4096' if hard < 0 else min(hard, 4096)}` before Keisei."
    yield _note(group, "open files", f"{_limit(soft)} (at most {_limit(hard)})", few if 0 <= soft < 1024 else "")
    if hasattr(resource, "RLIMIT_NPROC"):
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        few = "Few for many processes: ask for more with `ulimit -u`."
        yield _note(group, "processes", _limit(soft), few if 0 <= soft < 256 else "")
    try:
        os.close(os.pidfd_open(os.getpid()))
        yield Finding(group, "pidfd", "works")
    except (OSError, AttributeError) as error:
        yield Finding(
            group, "pidfd", "does not work", "problem", f"A worker's end goes unseen ({error}): use Linux 5.3."
        )
    yield Finding(group, "interpreter", sys.executable)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _note(group: str, name: str, value: str, advice: str) -> Finding:
    """Something that is fine unless there is advice about it."""
    return Finding(group, name, value, "note" if advice else "fine", advice)


def _text(path: str) -> str:
    """A file's text; nothing where it cannot be read, as these files exist on some machines only."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
