# SPDX-License-Identifier: Apache-2.0
"""A YAML file as plain values, with the place of each. PyYAML comes with Optuna."""

from __future__ import annotations

import os
import re
from typing import Any

import yaml

from ._errors import Path, SpecError


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """With the numbers of YAML 1.2: 1e-4 is one."""


_Loader.yaml_implicit_resolvers = {key: list(value) for key, value in yaml.SafeLoader.yaml_implicit_resolvers.items()}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def read_yaml(path: str) -> tuple[Any, dict[Path, str]]:
    """The values, and where each is: "search.yaml:3:8". Raises SpecError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: {error.strerror if isinstance(error, OSError) else error}",
                        code="HVD-E0104" if isinstance(error, OSError) else "HVD-E0102") from None
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        places: dict[Path, str] = {(): os.path.basename(path)}
        return (None if node is None else _value(loader, node, (), os.path.basename(path), places)), places
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise SpecError(f"{os.path.basename(path)}{where}: {error.problem}", code="HVD-E0102") from None
    except SpecError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"{os.path.basename(path)}: {error}", code="HVD-E0102") from None
    finally:
        loader.dispose()


def _value(loader: Any, node: Any, path: Path, name: str, places: dict[Path, str], around: tuple[int, ...] = ()) -> Any:
    mark = node.start_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}"
    places.setdefault(path, where)
    if id(node) in around:
        raise SpecError(f"{where}: a value that contains itself", code="HVD-E0102")
    around = (*around, id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, entry, (*path, at), name, places, around) for at, entry in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            mark = key_node.start_mark
            where = f"{name}:{mark.line + 1}:{mark.column + 1}"
            if not isinstance(key, (str, int)) or key in found:
                raise SpecError(f"{where}: {'a key that is not text' if not isinstance(key, str) else f'{key!r} is there twice'}", code="HVD-E0102")
            places[(*path, key)] = where
            found[key] = _value(loader, value_node, (*path, key), name, places, around)
        return found
    return loader.construct_object(node)
