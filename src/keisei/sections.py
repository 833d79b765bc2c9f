"""How configuration is read: YAML and `key=value` into typed sections, and pydantic's errors into one line each.

`load` reads a whole run, `check` the values of one section. Both raise `ConfigError` in one line that names the key,
what came and what is allowed. What the keys are is said in `config.py`.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Tag, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from keisei.errors import ConfigError


class Section(BaseModel):
    """What every section derives from: unknown keys are refused, types are not guessed, and nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, values: object) -> object:
        """A section of which only the name is written: everything in it has its default."""
        return {} if values is None else values


# --- from text to sections -------------------------------------------------------------------------------------------

S = TypeVar("S", bound=Section)
Location = tuple[int | str, ...]

COMMAND_LINE = "on the command line"


def load(model: type[S], path: Path | None = None, overrides: Sequence[str] = ()) -> S:
    """The configuration in a YAML file, changed by overrides such as `environment.copies=8`."""
    values = {} if path is None else _read(path)
    overridden = [_override(values, override) for override in overrides]

    def where(location: Location) -> str:
        """Who said what stands there: an override of it, of a part of it, or of what it is a part of; or the file."""
        said = any(key == location[: len(key)] or location == key[: len(location)] for key in overridden)
        return COMMAND_LINE if said or path is None else f"in {path.name}"

    return _validate(model, values, where)


def read_values(path: Path | None, overrides: Sequence[str] = ()) -> dict[str, object]:
    """The bare values of a file and its overrides, before any section has looked at them."""
    values = {} if path is None else _read(path)
    for override in overrides:
        _override(values, override)
    return values


def check(model: type[S], values: Mapping[str, object], where: str) -> S:
    """The section with these values; `where` is the end of an error's line, such as `in keisei.make('shogi')`."""
    return _validate(model, values, lambda _location: where)


class _Loader(yaml.SafeLoader):
    """YAML as most people believe it is: 1e-4 is a number, `on` and 010 are text, a key is written only once."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (as PyYAML declares it)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[typing.Hashable, object]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(None, None, "a key is not a word", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key '{key.value}' is written twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?(0|[1-9][0-9_]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?([0-9][0-9_]*(\.[0-9]*|(?=[eE]))|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


def _parse(text: str, where: str) -> object:
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{error.problem or error.context} in {where}{line}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{str(error).splitlines()[0]} in {where}") from None


def _read(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read the configuration {path}: {reason}") from None
    values = _parse(text, path.name)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"expected sections such as 'environment:', got {values!r:.40} in {path.name}")
    return values


def _override(values: dict[str, object], override: str) -> Location:
    """Write one `key=value` into the values, and give the key's location."""
    name, equals, text = override.partition("=")
    *parents, last = name.split(".")
    if not equals or not last or not all(parents):
        raise ConfigError(f"expected key=value, such as environment.copies=8, got '{override}' {COMMAND_LINE}")
    place: object = values
    location: list[int | str] = []
    for part in parents:
        if isinstance(place, dict) and place.get(part) is None:
            place[part] = {}
        location.append(_key(place, part, override))
        place = place[location[-1]]  # type: ignore[index]
    location.append(_key(place, last, override))
    place[location[-1]] = _parse(text, f"'{override}'")  # type: ignore[index]
    return tuple(location)


def _key(place: object, part: str, override: str) -> int | str:
    """What a part of a dotted key is called where it leads: a key of a section, or the number of an item."""
    if isinstance(place, dict):
        return part
    if isinstance(place, list) and part.isdecimal() and int(part) < len(place):
        return int(part)
    raise ConfigError(f"there is no place for '{part}' of '{override}' {COMMAND_LINE}")


# --- from pydantic's errors to one line ------------------------------------------------------------------------------


def _validate(model: type[S], values: Mapping[str, object], where: typing.Callable[[Location], str]) -> S:
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        # A misspelt key first: it may be the reason of the others.
        found: dict[Location, ErrorDetails] = {}
        for each in error.errors():
            found.setdefault(_said(model, each["loc"]), each)
        errors = sorted(found.items(), key=lambda each: each[1]["type"] != "extra_forbidden")
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ConfigError(_line(model, errors[0][1], where(errors[0][0])) + more) from None


def _line(model: type[Section], error: ErrorDetails, where: str) -> str:
    location = error["loc"]
    key = ".".join(map(str, _said(model, location)))
    owner, field = _find(model, location)
    if error["type"] == "union_tag_invalid":  # of several kinds of section
        tags = ", ".join(_kinds(field.annotation)) if field else ""
        name, tag = error["ctx"]["discriminator"].strip("_()"), error["ctx"]["tag"]
        return f"'{key}.{name}' {where} must be one of {tags}, not {tag!r}"
    if error["type"] == "extra_forbidden":
        return f"unknown key '{key}' {where} ({_nearest(str(location[-1]), owner.model_fields)})"
    if error["type"] == "missing":
        return f"key '{key}' is missing {where}"
    if error["type"] in ("value_error", "assertion_error"):  # a section's own check, in its own words
        return f"'{key}' {where}: ".removeprefix("'' ") + error["msg"].partition(", ")[2]
    if error["type"] == "model_type":
        expected = "a section of keys"
    elif field is None or isinstance(location[-1], int):  # an item of a list
        expected = error["msg"].removeprefix("Input should be ")
    else:
        expected = allowed(field)
    value = repr(error["input"])
    return f"'{key}' {where} must be {expected}, not {value if len(value) <= 60 else value[:59] + '…'}"


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"


def _said(model: type[BaseModel], location: Location) -> Location:
    """A location as people write it: without the kind of value that pydantic tried where there are several."""
    said: Location = ()
    for number, part in enumerate(location):
        _, field = _find(model, location[:number])
        if field is not None and part in _kinds(field.annotation):
            continue
        if isinstance(part, str) and field is not None and _section(field.annotation) is None:
            break
        said = (*said, part)
    return said


def _find(model: type[BaseModel], location: Location) -> tuple[type[BaseModel], FieldInfo | None]:
    """The innermost section that a location leads into, and the field that it names there."""
    owner: type[BaseModel] = model
    field: FieldInfo | None = None
    for part in location:
        inner = _section(field.annotation) if field else None
        if field and part in (kinds := _kinds(field.annotation)):
            owner, field = kinds[str(part)], None
        elif inner:
            owner, field = inner, None
        if isinstance(part, str) and part in owner.model_fields:
            field = owner.model_fields[part]
    return owner, field


def _section(annotation: object) -> type[BaseModel] | None:
    """The section that a field holds: alone, in a list, or where it may be left out."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = (_section(argument) for argument in typing.get_args(annotation))
    return next((section for section in inside if section), None)


def _kinds(annotation: object) -> dict[str, type[BaseModel]]:
    """The sections of which a field holds one, by the tags that tell them apart."""
    found: dict[str, type[BaseModel]] = {}
    for argument in typing.get_args(annotation):
        section, *extra = typing.get_args(argument) or (None,)
        found |= {tag.tag: section for tag in extra if isinstance(tag, Tag)}
    return found


def allowed(field: FieldInfo) -> str:
    """What a field accepts, in words: its type and its range."""
    return _allowed(field.annotation, field.metadata)


def _allowed(annotation: object, metadata: Sequence[object]) -> str:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = (part for part in typing.get_args(annotation) if part is not types.NoneType)
        return " or ".join(_allowed(part, metadata).removeprefix("one of ") for part in parts)
    if typing.get_origin(annotation) is Annotated:
        inner, *limits = typing.get_args(annotation)
        return _allowed(inner, [part for limit in limits for part in getattr(limit, "metadata", [limit])])
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(annotation)))
    if typing.get_origin(annotation) in (tuple, list):
        return "a list" + (" that is not empty" if any(hasattr(limit, "min_length") for limit in metadata) else "")
    if typing.get_origin(annotation) is dict:
        return "keys and values"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if isinstance(annotation, type) and annotation in words:
        return words[annotation] + _range(metadata)
    return "valid"


def _range(metadata: Sequence[object]) -> str:
    limits = {
        name: getattr(limit, name) for limit in metadata for name in ("ge", "gt", "le", "lt") if hasattr(limit, name)
    }
    if "ge" in limits and "le" in limits:
        return f" from {limits['ge']} to {limits['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    return "".join(f" {words[name]} {limit}" for name, limit in limits.items())
