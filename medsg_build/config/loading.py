"""From a YAML file to a document and back; faults as `file:line: where: what`, all at once."""

import difflib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from ..errors import RecipeError
from .documents import Document

Kind = TypeVar("Kind", bound=Document)


def load(path: Path, kind: type[Kind]) -> Kind:
    """The document at `path`. Raises `RecipeError` with every fault as `file:line: where: what`."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from error
    try:
        tree = yaml.compose(text, yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from error
    faults = [f"{path}:{line}: {what}" for line, what in _doubles(tree)]
    if not isinstance(value, dict):
        raise RecipeError(f"{path}: a mapping of keys is expected, as in recipes/")
    try:
        document = kind.model_validate(value)
    except ValidationError as error:
        for fault in error.errors():
            where = tuple(part for part in fault["loc"] if not str(part).startswith("function-"))
            faults.append(f"{path}:{_line(tree, where)}: {_told(kind, where, fault)}")
        document = None
    if faults or document is None:
        raise RecipeError("\n".join(faults))
    return document


def _told(kind: type[Document], where: tuple[Any, ...], fault: Any) -> str:
    place = ".".join(str(part) for part in where) or "the document"
    if fault["type"] == "extra_forbidden":
        known = _keys(kind, where[:-1])
        near = difflib.get_close_matches(str(where[-1]), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        return f"{place}: unknown key; {hint}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    given = fault.get("input")
    short = (
        "" if isinstance(given, dict | list) or fault["type"] == "missing" else f" (not {given!r})"
    )
    return f"{place}: {message[0].lower() + message[1:]}{short}"


def _keys(kind: type[Document], where: tuple[Any, ...]) -> list[str]:
    """The keys that may stand at `where`; those of the document where the way there is unclear."""
    here: Any = kind
    for part in where:
        fields = getattr(here, "model_fields", {})
        if part in fields:
            here = fields[part].annotation
        for inner in (here, *getattr(here, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, Document):
                here = inner
    return list(getattr(here, "model_fields", kind.model_fields))


def _line(tree: Any, where: tuple[Any, ...]) -> int:
    """The line of the deepest node on the way `where` leads."""
    node, line = tree, 1
    for part in where:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    node, line = value, key.start_mark.line + 1
                    break
            else:
                return line
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line + 1
    return int(line)


def _doubles(node: Any) -> Iterator[tuple[int, str]]:
    """Keys that stand twice in one mapping; YAML would quietly keep the last."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield key.start_mark.line + 1, f"{key.value}: stands twice"
            seen.add(key.value)
            yield from _doubles(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _doubles(item)


def changed(document: Kind, changes: dict[str, Any]) -> Kind:
    """A copy with some values replaced, held to the same rules. Raises `RecipeError`."""
    kind = type(document)
    try:
        return kind.model_validate({**dict(document), **changes})
    except ValidationError as error:
        faults = [_told(kind, fault["loc"], fault) for fault in error.errors()]
        raise RecipeError("\n".join(faults)) from error


def digest_of(document: Document) -> str:
    """SHA-256 of what a document says, whatever its spelling in YAML."""
    told = json.dumps(document.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(told.encode()).hexdigest()


def dumped(document: Document) -> str:
    """The document as YAML, every default written out."""
    return str(
        yaml.safe_dump(document.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    )
