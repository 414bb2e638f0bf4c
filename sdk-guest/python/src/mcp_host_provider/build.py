"""`mcp-host-provider build app.py -o app.wasm`: makes a component of a provider.

It runs componentize-py with the contract's WIT files, which are part of this package. The interpreter starts, and imports
the provider, at build time; the component contains the initialized memory.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WORLDS = ("provider", "provider-keyvalue", "provider-http", "provider-sql", "provider-all")

# The world that has what a module imports, by the beginning of the module's name.
_WORLD_OF = {
    "mcp_host_provider.http": "provider-http",
    "mcp_host_provider.keyvalue": "provider-keyvalue",
    "mcp_host_provider.sql": "provider-sql",
    "wit_world.imports.wasi_http": "provider-http",
    "wit_world.imports.wasi_keyvalue": "provider-keyvalue",
    "wit_world.imports.mcp_host_sql": "provider-sql",
    "wit_world.imports.wasi_filesystem": "provider-dirs",
    "wit_world.imports.wasi_cli": "provider-env",
}

# What a module imports that exports `prepare`, too.
_PREPARES = "mcp_host_provider.Progress"

# Named as the bindings name the exported interfaces.
_ENTRY = """\
import {module}
from mcp_host_provider._component import ResourceProvider as McpHostProviderResourceProvider011
{prepare}
from mcp_host_provider._embedded import store

store({module}.__file__)
"""

_PREPARE_ENTRY = "from mcp_host_provider._prepare_component import Prepare as McpHostProviderPrepare011"

_NEEDS_SECTION = b"mcp-host:needs/v1"
_MAX_NEEDS = 65_536

_TOOL = "import componentize_py; componentize_py.script()"


class BuildError(Exception):
    """Why there is no component. The text says what to do."""


def build(source: Path, output: Path, world: str | None = None, paths: tuple[Path, ...] = ()) -> None:
    """Makes a component of a module, which exports one class. `paths` are searched for modules that it imports. Without a world the
    component has what these modules import."""
    if not source.is_file() or source.suffix != ".py" or not source.stem.isidentifier():
        raise BuildError(f"{source}: expected a Python file whose name is that of a module, such as app.py")
    package = Path(__file__).parent
    needs = declared_needs(source)
    with tempfile.TemporaryDirectory(prefix="mcp-host-provider-") as entry:
        names = used_names(source, (source.parent, *paths))
        prepares = _PREPARES in names
        _write_entry(Path(entry, "mcp_host_entry.py"), source.stem, prepares)
        search = [entry, str(source.parent.resolve()), *(str(path) for path in paths), str(package.parent)]
        made = Path(entry, "component.wasm")
        # WASI is not stubbed: that would stub `wasi:config`, files and the clock, too.
        needed = [world] if world else needed_worlds(names)
        is_own = len(needed) > 1 or prepares
        wit = _write_world(Path(entry, "wit"), package / "wit", needed, prepares) if is_own else package / "wit"
        command = [sys.executable, "-c", _TOOL, "--quiet", "-d", str(wit), "-w", "app" if is_own else needed[0]]
        command += ["--full-names", "componentize", "mcp_host_entry", "-o", str(made)]
        command += [argument for path in search for argument in ("-p", path)]
        run = subprocess.run(command, capture_output=True, text=True, env=_environment())
        if run.returncode != 0:
            raise BuildError(_explain(source, run.stdout + run.stderr))
        output.parent.mkdir(parents=True, exist_ok=True)
        # Renamed, so that a host that reloads on change never reads half a component.
        aside = output.with_name(f"{output.name}.{os.getpid()}.new")
        aside.write_bytes(made.read_bytes() + (b"" if needs is None else needs_section(needs)))
        aside.replace(output)


def _environment() -> dict[str, str]:
    """Returns the variables of componentize-py.

    It takes other packages from the virtual environment that `VIRTUAL_ENV` names, and otherwise from the `python3` in the
    path, which need not be the one that runs this.
    """
    variables = {**os.environ, "RUST_BACKTRACE": "0"}
    if sys.prefix != sys.base_prefix:
        variables["VIRTUAL_ENV"] = sys.prefix
    return variables


def _write_entry(file: Path, module: str, prepares: bool) -> None:
    file.write_text(_ENTRY.format(module=module, prepare=_PREPARE_ENTRY if prepares else ""))


def needed_worlds(names: set[str]) -> list[str]:
    """Returns the worlds with the interfaces that modules with those names need."""
    needed = {world for start, world in _WORLD_OF.items() if any(name.startswith(start) for name in names)}
    return sorted(needed) or ["provider"]


def used_names(source: Path, directories: tuple[Path, ...]) -> set[str]:
    """Returns the names that a module imports, itself or by other modules of these directories."""
    used: set[str] = set()
    seen, files = {source.resolve()}, [source]
    while files:
        file = files.pop()
        for name in _imported_names(file):
            used.add(name)
            path = name.replace(".", "/")
            for candidate in (Path(d, path + end) for d in (*directories, file.parent) for end in (".py", "/__init__.py")):
                if candidate.is_file() and candidate.resolve() not in seen:
                    seen.add(candidate.resolve())
                    files.append(candidate)
    return used


def _imported_names(source: Path) -> set[str]:
    """Returns the names that a module imports, at its top or within functions: of modules, and of what it takes from them."""
    try:
        module = ast.parse(source.read_bytes(), source.name)
    except (SyntaxError, ValueError):
        return set()  # The interpreter says more about it, if it imports the module.
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names.update([base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)])
    return names - {""}


def _write_world(folder: Path, contract: Path, worlds: list[str], prepares: bool) -> Path:
    """Writes a package with a world that includes those, and exports `prepare` if it is to."""
    for wit in contract.rglob("*.wit"):
        within = wit.relative_to(contract)
        copy = folder / "deps" / ("mcp-host-provider" if len(within.parts) == 1 else "") / within.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(wit.read_bytes())
    includes = "".join(f"  include mcp-host:provider/{world}@0.1.1;\n" for world in worlds)
    includes += "  export mcp-host:provider/prepare@0.1.1;\n" if prepares else ""
    Path(folder, "app.wit").write_text(f"package local:app;\n\nworld app {{\n{includes}}}\n")
    return folder


def declared_needs(source: Path) -> bytes | None:
    """Returns the literal `NEEDS` of a module as JSON; None if it has none."""
    try:
        module = ast.parse(source.read_bytes(), source.name)
    except SyntaxError:
        return None  # The interpreter says more about it.
    for statement in module.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        if value is None or not any(isinstance(target, ast.Name) and target.id == "NEEDS" for target in targets):
            continue
        try:
            needs = json.dumps(ast.literal_eval(value), ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, TypeError) as error:
            where = f"{source}:{statement.lineno}"
            raise BuildError(f"{where}: NEEDS must be a literal of dicts, lists, texts and numbers: {error}") from None
        if len(needs) > _MAX_NEEDS:
            raise BuildError(f"{source}:{statement.lineno}: NEEDS has {len(needs)} bytes as JSON, more than {_MAX_NEEDS}")
        return needs
    return None


def needs_section(needs: bytes) -> bytes:
    """Returns the custom section of a component with that JSON."""
    body = _length(_NEEDS_SECTION) + _NEEDS_SECTION + needs
    return b"\0" + _length(body) + body


def _length(text: bytes) -> bytes:
    """The length as LEB128."""
    rest, encoded = len(text), bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _explain(source: Path, said: str) -> str:
    """Returns the traceback of the provider's module, without the tracebacks of the tool around it."""
    for behind in ("\nStack backtrace:", "\nCaused by:"):
        said = said.partition(behind)[0]
    start = said.rfind("Traceback (most recent call last)")
    cause = said[max(start, 0) :].strip()
    return f"{source} could not be imported in the component:\n{cause}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="mcp-host-provider", description="Builds providers for mcp-host.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("build", help="make a component of a provider")
    command.add_argument("source", type=Path, metavar="APP.py", help="the module with the exported class")
    command.add_argument("-o", "--output", type=Path, help="the component; by default the module's name with .wasm")
    command.add_argument(
        "--world",
        choices=WORLDS,
        help="the interfaces that it may import; by default those that its modules do",
    )
    command.add_argument("-p", "--path", type=Path, action="append", default=[], help="a directory with modules")
    given = parser.parse_args()
    output: Path = given.output or given.source.with_suffix(".wasm")
    try:
        build(given.source, output, given.world, tuple(given.path))
    except BuildError as error:
        sys.exit(f"error: {error}")
    print(f"built {output} ({output.stat().st_size / 1_000_000:.1f} MB)", file=sys.stderr)


if __name__ == "__main__":
    main()
