"""Modules and data files that are kept in the memory of the component, so that they can be imported after the build.

The build imports the provider and stores the memory of the interpreter; the files that it read are not there later. What Python
itself or a package imports within a function would then fail, often in silence: `datetime.strptime` imports `_strptime`, a codec
its module of `encodings`, `ZoneInfo` the package `tzdata`. So the last step of the build, `store`, keeps

- the standard library, but for what cannot work in a component,
- the modules beside the provider, and the packages of which it imports something, with their data files,
- the package `tzdata`.

They are kept as compiled code, compressed: 4 MB. `_Finder` finds them, before any file; it is installed at the end of the build.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import io
import marshal
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.resources.abc import Traversable, TraversableResources
from types import ModuleType
from typing import IO, Any

# Where componentize-py has the standard library.
_STANDARD = "/python"

# What needs processes, sockets, threads, a terminal or a display, and what installs packages.
_USELESS = frozenset(
    "_pyrepl antigravity curses ctypes doctest ensurepip ftplib idlelib imaplib multiprocessing pdb poplib pty pydoc pydoc_data "
    "site-packages smtplib socketserver test this tkinter turtle turtledemo venv webbrowser".split()
)

# Packages that are kept although nothing is imported from them at build time.
_BY_NAME = ("tzdata",)

# What Python imports when it needs it, and many providers need: imported at build time, because each call would import it again.
_PRELOADED = "_strptime encodings.ascii encodings.cp1252 encodings.idna encodings.latin_1 encodings.utf_16 encodings.utf_8_sig".split()

# The largest data file, and all code and all data files, compressed.
_MAX_FILE = 1 << 20
_MAX_KEPT = 32 << 20

# Neither modules nor data.
_SUFFIXES = (".py", ".pyc", ".pyi", ".so", ".typed", ".wit")

# The modules by name: the path of the source, whether it is a package, and the compressed code.
_modules: dict[str, tuple[str, bool, bytes]] = {}

# The data files by path, compressed.
_files: dict[str, bytes] = {}

# The size of both.
_kept = 0


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the modules that are kept, and loads them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _modules:
            return None
        source, is_package, _ = _modules[fullname]
        below = [os.path.dirname(source)] if is_package else None
        return importlib.util.spec_from_file_location(fullname, source, loader=self, submodule_search_locations=below)

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)

    def get_code(self, fullname: str) -> Any:
        return marshal.loads(zlib.decompress(_modules[fullname][2]))

    def get_source(self, fullname: str) -> str | None:
        return None

    def is_package(self, fullname: str) -> bool:
        return _modules[fullname][1]

    def get_data(self, path: str) -> bytes:
        """Returns a data file, for `pkgutil.get_data`."""
        if path not in _files:
            raise FileNotFoundError(path)
        return zlib.decompress(_files[path])

    def get_resource_reader(self, fullname: str) -> TraversableResources:
        """Returns the data files of a package, for `importlib.resources`."""
        return _Resources(os.path.dirname(_modules[fullname][0]))


class _Resources(TraversableResources):
    def __init__(self, path: str) -> None:
        self._path = path

    def files(self) -> Traversable:
        return _Resource(self._path)


class _Resource(Traversable):
    """A data file that is kept, or a directory with some."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return os.path.basename(self._path)

    def iterdir(self) -> Iterator[Traversable]:
        start = self._path + "/"
        names = {path[len(start) :].partition("/")[0] for path in _files if path.startswith(start)}
        return (_Resource(start + name) for name in sorted(names))

    def is_dir(self) -> bool:
        return any(path.startswith(self._path + "/") for path in _files)

    def is_file(self) -> bool:
        return self._path in _files

    def joinpath(self, *descendants: Any) -> Traversable:
        return _Resource(os.path.normpath(os.path.join(self._path, *map(str, descendants))))

    def __truediv__(self, child: Any) -> Traversable:
        return self.joinpath(child)

    def read_bytes(self) -> bytes:
        if self._path not in _files:
            raise FileNotFoundError(self._path)
        return zlib.decompress(_files[self._path])

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:
        content = io.BytesIO(self.read_bytes())
        return content if "b" in mode else io.TextIOWrapper(content, *args, **kwargs)


def store(provider: str) -> None:
    """Keeps the modules, and finds them from now on. Called when the provider has been imported, with the path of its module."""
    for name in _PRELOADED:
        importlib.import_module(name)
    imported = {name.partition(".")[0] for name in sys.modules}
    own = os.path.dirname(provider)
    _keep(_STANDARD, lambda name, _: name not in _USELESS, with_data=False)
    for directory in sys.path:
        if directory != _STANDARD and os.path.isdir(directory):
            # Any module beside the provider is its own. Of packages there, and elsewhere, those that it imports are.
            _keep(
                directory,
                lambda name, is_package: name in imported or name in _BY_NAME or (directory == own and not is_package),
                with_data=True,
            )
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    # A directory that is granted at one of these paths has none of the provider's modules.
    sys.path.clear()
    sys.path_importer_cache.clear()
    with_data = {os.path.dirname(path) for path in _files}
    for name, module in list(sys.modules.items()):
        if name in _modules and any(path.startswith(os.path.dirname(_modules[name][0])) for path in with_data):
            module.__loader__ = finder
            if module.__spec__ is not None:
                module.__spec__.loader = finder
    _clear_freed_memory()


def _clear_freed_memory() -> None:
    """Overwrites freed memory with zeros, which take no room in the component: what compiling left there would take 3 MB."""
    gc.collect()
    zeros = [bytearray(size) for size, count in ((1 << 16, 128), (1 << 12, 512)) for _ in range(count)]
    zeros.clear()


def _keep(directory: str, is_kept: Callable[[str, bool], bool], with_data: bool) -> None:
    """Keeps the modules and packages of a directory that are wanted. Of several with one name, the first is."""
    for entry in sorted(os.listdir(directory)):
        name, suffix = os.path.splitext(entry)
        path = os.path.join(directory, entry)
        if suffix == ".py" and is_kept(name, False) and name not in _modules:
            _keep_module(name, path, is_package=False)
        elif os.path.isfile(os.path.join(path, "__init__.py")) and is_kept(entry, True) and entry not in _modules:
            _keep_package(entry, path, with_data)


def _keep_package(name: str, directory: str, with_data: bool) -> None:
    _keep_module(name, os.path.join(directory, "__init__.py"), is_package=True)
    for entry in sorted(os.listdir(directory)):
        path = os.path.join(directory, entry)
        stem, suffix = os.path.splitext(entry)
        if entry == "__pycache__" or (directory.startswith(_STANDARD) and entry in ("test", "tests")):
            continue
        if os.path.isdir(path):
            if os.path.isfile(os.path.join(path, "__init__.py")):
                _keep_package(f"{name}.{entry}", path, with_data)
            elif with_data:
                _keep_data(path)
        elif suffix == ".py" and entry != "__init__.py":
            _keep_module(f"{name}.{stem}", path, is_package=False)
        elif with_data:
            _keep_file(path)


def _keep_data(directory: str) -> None:
    for root, _, files in os.walk(directory):
        for file in files:
            _keep_file(os.path.join(root, file))


def _keep_file(path: str) -> None:
    if path.endswith(_SUFFIXES):
        return
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_FILE + 1)
    except OSError:
        return  # A link that leads out of the directories of the build.
    if len(content) <= _MAX_FILE and (kept := _compressed(content)) is not None:
        _files[path] = kept


def _compressed(content: bytes) -> bytes | None:
    """Compresses what is to be kept; None if that would be too much."""
    global _kept
    kept = zlib.compress(content)
    if _kept + len(kept) > _MAX_KEPT:
        return None
    _kept += len(kept)
    return kept


def _keep_module(name: str, path: str, is_package: bool) -> None:
    with open(path, "rb") as file:
        source = file.read()
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return  # It cannot be imported, as before.
    if (kept := _compressed(marshal.dumps(code))) is not None:
        _modules[name] = (path, is_package, kept)
