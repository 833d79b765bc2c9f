"""Writes what pip is to install, read from pyproject.toml, and the versions it may choose, from constraints.txt.

The build, the package and its development tools come in one list, so that one call of pip installs them all.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
from pip._vendor.packaging.version import Version


def wanted(pyproject: Path) -> list[Requirement]:
    """Everything the build, the package and `make check test` need."""
    project = tomllib.loads(pyproject.read_text())
    lines = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
    ]
    return [Requirement(line) for line in lines]


def machines_own() -> dict[str, Version]:
    """The packages that this interpreter sees outside its own virtual environment."""
    outside = [path for path in sys.path if path and not path.startswith(sys.prefix)]
    return {canonicalize_name(found.name): Version(found.version) for found in distributions(path=outside)}


def main() -> None:
    """Write requirements.txt and constraints.txt into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--system", action="store_true", help="keep what the machine already has, torch above all")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="leave this package out")
    arguments = parser.parse_args()

    kept = machines_own() if arguments.system else {}
    # A vendor's build such as 2.11.0a0+vendor counts as the 2.11 that it is a build of.
    requirements = [
        str(requirement)
        for requirement in wanted(Path("pyproject.toml"))
        if requirement.name not in arguments.without
        and not (
            (version := kept.get(canonicalize_name(requirement.name)))
            and requirement.specifier.contains(version.base_version)
        )
    ]
    constraints = [
        line
        for line in Path("constraints.txt").read_text().splitlines()
        if not line.startswith("#") and canonicalize_name(Requirement(line).name) not in kept
    ]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "requirements.txt").write_text("\n".join(requirements) + "\n")
    (arguments.folder / "constraints.txt").write_text("\n".join(constraints) + "\n")


if __name__ == "__main__":
    main()
