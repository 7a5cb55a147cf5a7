# SPDX-License-Identifier: Apache-2.0
"""What is checked of blocks that can't run on one machine, in README.md and docs/*.md: docs/tutorial/README.md has the rule.

Nothing here runs what a block says; hvdray is only asked which options it has."""

import ast
import functools
import json
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
SEPARATORS = {"&&", "||", ";", "|", "&", "exec", "$(", ")", "(", "nohup"}


def faults(block, bin_dir):
    """What is wrong with a block, a line of text each."""
    return globals()[f"_{block.language}"](block.text, pathlib.Path(bin_dir))


def _text(text, _):
    """Anything but what could be run."""
    if re.search(r"^\$ ", text, re.M):
        yield "a command in ```text: commands are ```console, or ```sh where one machine can't run them"


def _mermaid(_text, _):
    """hvdray-gen-cli writes it."""
    return ()


def _json(text, _):
    for line in text.splitlines():
        try:
            json.loads(line)
        except ValueError as error:
            yield f"no JSON: {error}"


def _yaml(text, _):
    """A part of a cluster file: its keys."""
    known = (ROOT / "configs/schema/cluster.schema.json").read_text(encoding="utf-8") + (ROOT / "configs/static_job.yaml").read_text(encoding="utf-8")
    for key in re.findall(r"^\s*(\w+):", text, re.M):
        if not re.search(rf'"{key}": {{|^#?{key}:', known, re.M):
            yield f"no key of a cluster file or job: {key}"


def _cpp(text, _):
    """Its headers are there, and have what is hvdray's in it."""
    headers = re.findall(r'#include "(.*)"', text)
    yield from (f"no such header: {name}" for name in headers if not (ROOT / name).is_file())
    public = "\n".join(re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for folder in ("base", "collective")
                       for path in (ROOT / folder).rglob("*.h"))
    for name in set(re.findall(r"\bhvdray::(\w+)|::(k[A-Z]\w+)|(?:->|\.)([A-Z]\w+)\(", text)):
        word = "".join(name)
        if not re.search(rf"\b{word}\b", public):
            yield f"no header of base/ or collective/ has {word}"


def _sh(text, bin_dir):
    """bash can read it, files of the tree that it names are there, and hvdray has the commands and options."""
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    if read.returncode:
        yield read.stderr.strip()
        return
    for line in re.sub(r"\\\n", " ", text).splitlines():
        lexer = shlex.shlex(line.replace("…", ""), posix=True, punctuation_chars=True)
        lexer.wordchars += "{}[]:,@%+!^$"
        lexer.commenters = "#"
        command = []
        for word in [*lexer, ";"]:
            if word in SEPARATORS or set(word) <= set(lexer.punctuation_chars):
                yield from _command(command, bin_dir)
                command = []
            else:
                command.append(word)


def _command(words, bin_dir):
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    for word in words:
        if re.match(r"(?:\./)?(?:tools|examples|configs|bench|tests)/|\./(?:quickstart|check)$", word) and not (ROOT / word).exists():
            yield f"no such file in the tree: {word}"
    if words and pathlib.PurePosixPath(words[0]).name == "hvdray" and len(words) > 1:
        yield from _options(words[1:], bin_dir)


def _options(words, bin_dir):
    verb, *words = words
    offered = help_of(bin_dir / "hvdray", verb)
    if offered is None:
        yield f"no such command: hvdray {verb}"
        return
    for word in words:
        if word == "--":
            return
        if word.startswith("-"):
            name = word.split("=")[0]
            if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", offered):
                yield f"hvdray {verb} --help has no {name}"
        elif verb in ("run", "check", "serve") and re.match(r"(?:\./|python|sh$|sleep)", word):
            return  # the command begins


@functools.lru_cache(maxsize=None)
def help_of(program, verb):
    """None: there is no such command."""
    done = subprocess.run([program, verb, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def _python(text, _):
    """Python can read it, and the package has the names and parameters."""
    try:
        tree = ast.parse(text.replace("…", "..."))
    except SyntaxError as error:
        yield f"line {error.lineno} of the block: {error.msg}"
        return
    imported = {}  # by the name here: module and name there
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hvdray":
            for name in node.names:
                imported[name.asname or name.name] = (node.module, name.name)
                yield from _missing(node.module, name.name)
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "hvdray" and module_path(name.name) is None:
                    yield f"no such module: {name.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (found := _place(node, imported)):
            yield from _missing(*found)
        elif isinstance(node, ast.Call) and (found := _place(node.func, imported)):
            parameters = parameters_of(*found)
            yield from (f"{'.'.join(found)} has no parameter {keyword.arg}" for keyword in node.keywords
                        if parameters is not None and keyword.arg and keyword.arg not in parameters)


def _place(node, imported):
    """Module and name of what `hvdray.x` or an imported name means; None for all else."""
    words = []
    while isinstance(node, ast.Attribute):
        words.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    if node.id in imported:
        module, name = imported[node.id]
        words = [*module.split("."), name, *words]
    elif node.id == "hvdray" and words:
        words.insert(0, "hvdray")
    else:
        return None
    module = words[:1]
    while len(words) > len(module) + 1 and module_path(".".join([*module, words[len(module)]])):
        module.append(words[len(module)])
    return (".".join(module), words[len(module)]) if len(words) == len(module) + 1 else None


def module_path(module):
    base = PACKAGE / module.replace(".", "/")
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


def _missing(module, name):
    path = module_path(module)
    if path is None:
        yield f"no such module: {module}"
    elif module_path(f"{module}.{name}") is None and not re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")):
        yield f"{module} has no {name}"


@functools.lru_cache(maxsize=None)
def parameters_of(module, name):
    """The names of a function's or class's parameters; None if it takes any, or is defined elsewhere."""
    path = module_path(module)
    files = path.parent.glob("*.py") if path and path.name == "__init__.py" else [path] if path else []
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if getattr(node, "name", None) != name:
                continue
            if isinstance(node, ast.ClassDef):
                fields = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
                node = next((item for item in node.body if getattr(item, "name", None) == "__init__"), None)
                if node is None:
                    return fields or None
            if isinstance(node, ast.FunctionDef):
                words = node.args
                return None if words.kwarg else {arg.arg for arg in (*words.posonlyargs, *words.args, *words.kwonlyargs)}
    return None
