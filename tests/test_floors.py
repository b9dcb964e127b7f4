"""The house rules that a linter does not know: who imports whom, and how large a file may grow."""

import ast
import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).parents[1]
PACKAGE = REPOSITORY / "jaxgrpo"

FLOORS = [
    {"core"},
    {
        "advantages",
        "aggregation",
        "answers",
        "clipping",
        "divergences",
        "metrics",
        "ratios",
        "sharding",
        "tokenizers",
    },
    {"data", "losses", "models", "rewards"},
    {"check", "checkpoints", "sampling", "training"},
    {"atlas", "rollouts"},
    {"evaluation"},
    {"config"},
    {"run"},
    {"bench", "cli"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# A reward worker starts in a fraction of a second, because what it imports never imports JAX.
JAX_FREE = [
    "answers",
    "rewards",
    "tokenizers",
    "core/errors.py",
    "core/registry.py",
    "metrics/writer.py",
    "checkpoints/config.py",
    "checkpoints/manifest.py",
]

FILES = sorted(PACKAGE.rglob("*.py"))
IN_ROOMS = [path for path in FILES if path.parent != PACKAGE]


def name_of(path):
    return path.relative_to(REPOSITORY).as_posix()


def room_of(path):
    return path.relative_to(PACKAGE).parts[0]


def module_of(path):
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path):
    """Dotted names of all that a file imports, wherever in it the import stands."""
    package = path.relative_to(REPOSITORY).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imported_rooms(path):
    """Rooms of ours that a file imports."""
    for module in imported_modules(path):
        top, _, rest = module.partition(".")
        if top == "jaxgrpo":
            room = rest.partition(".")[0]
            # `import jaxgrpo as jg` would hide which rooms are meant.
            assert room, f"{name_of(path)}: import the room, not the package"
            if not room.startswith("__"):
                yield room


def test_every_folder_has_its_floor():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders, "there is something to check"
    assert folders <= FLOOR_OF.keys(), f"no floor for {sorted(folders - FLOOR_OF.keys())}"
    assert {path.name for path in PACKAGE.glob("*.py")} <= {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("path", IN_ROOMS, ids=name_of)
def test_imports_point_down(path):
    room = room_of(path)
    for other in set(imported_rooms(path)) - {room}:
        assert FLOOR_OF[other] < FLOOR_OF[room], f"{name_of(path)}: {room} may not import {other}"


@pytest.mark.parametrize(
    ("source", "rooms"),
    [
        ("import jaxgrpo.losses.objective", {"losses"}),
        ("from jaxgrpo.losses import ppo_clip", {"losses"}),
        ("from jaxgrpo import losses, core", {"losses", "core"}),
        ("def f():\n    from jaxgrpo.run import loop", {"run"}),
        ("from ..losses import ppo_clip", {"losses"}),
        ("from .. import losses", {"losses"}),
        ("from . import checks", {"core"}),
        ("from jaxgrpo import __version__\nimport jax", set()),
    ],
)
def test_no_spelling_of_an_import_is_missed(source, rooms, monkeypatch):
    monkeypatch.setattr(pathlib.Path, "read_text", lambda _: source)
    assert set(imported_rooms(PACKAGE / "core" / "example.py")) == rooms


def test_importing_the_whole_package_in_a_room_is_refused(monkeypatch):
    monkeypatch.setattr(pathlib.Path, "read_text", lambda _: "import jaxgrpo as jg")
    with pytest.raises(AssertionError, match="import the room"):
        list(imported_rooms(PACKAGE / "core" / "example.py"))


def test_what_reward_workers_import_never_imports_jax():
    paths = [p for p in FILES for free in JAX_FREE if p.is_relative_to(PACKAGE / free)]
    modules = [module_of(path) for path in paths if path.name != "__main__.py"]
    assert "jaxgrpo.core.errors" in modules
    script = (
        "import importlib, sys\n"
        f"for name in {modules}:\n"
        "    importlib.import_module(name)\n"
        "    loaded = {'jax', 'flax', 'optax', 'orbax', 'torch'} & sys.modules.keys()\n"
        "    assert not loaded, f'{name} imports {loaded}'\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_short_enough_to_read(path):
    lines = len(path.read_text().splitlines())
    assert lines <= 300, f"{name_of(path)} has {lines} lines; split it by job"
    assert path.name not in ("utils.py", "helpers.py", "common.py"), "name the job"


@pytest.mark.parametrize("path", IN_ROOMS, ids=name_of)
def test_only_the_command_line_prints(path):
    if room_of(path) in ("cli", "bench"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{name_of(path)}:{node.lineno}: log, do not print"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_shapes_are_not_turned_into_strings(path):
    imported = set(imported_modules(path))
    if any(module.startswith("jaxtyping") for module in imported):
        assert "__future__.annotations" not in imported, f"{name_of(path)}: jaxtyping reads them"
