"""The component's exports, implemented for the provider that was exported. Imported in a component only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from componentize_py_types import Err
from wit_world.exports import mcp_host_provider_resource_provider_0_1_1 as wit
from wit_world.imports import wasi_config_store_0_2_0_rc_1 as config_store

from . import _convert as convert
from ._config import Config, ConfigError
from ._failures import Failure, Internal, InvalidRequest
from ._logging import install
from ._provider import Provider, as_sequence, exported
from ._stacks import logged_stacks
from ._types import Contents

_TEMPLATES_PER_PAGE = 100

_IMPORTS = (
    "a component has the standard library, but for what needs native libraries, threads or sockets, the modules beside the provider, "
    "and the packages of which something is imported at the top of a module: import this one there"
)

# The module of the export `prepare`, which the entry of a module that imports `Progress` imports.
_PREPARE_COMPONENT = "mcp_host_provider._prepare_component"

_log = logging.getLogger("mcp_host_provider")

A = ParamSpec("A")
R = TypeVar("R")


def _guarded(function: Callable[A, R]) -> Callable[A, R]:
    """Turns exceptions into failures. One that is no failure is internal, with its traceback in the host's log; for a result of a
    wrong type the text says where it is."""

    @wraps(function)
    def call(*arguments: A.args, **more: A.kwargs) -> R:
        try:
            with logged_stacks(function.__name__):
                return function(*arguments, **more)
        except BaseException as error:  # Nothing may end as a trap without a word.
            failure = failure_of(function.__name__, error)
        raise Err(failure)

    return call


def failure_of(function: str, error: BaseException) -> wit.Failure:
    """Returns the failure of a call that raised that."""
    if isinstance(error, Failure):
        return convert.failure(error)
    if isinstance(error, convert.InvalidResult):
        return wit.Failure_Internal(f"`{function}` returned a value of a wrong type: {error}")
    if isinstance(error, ConfigError):
        return wit.Failure_Internal(str(error))
    traceback = error.__traceback__ and error.__traceback__.tb_next
    if isinstance(error, ModuleNotFoundError):
        error.add_note(_IMPORTS)
    _log.error("%s failed", function, exc_info=error.with_traceback(traceback))
    return wit.Failure_Internal(f"{type(error).__name__}: {error}")


class Instance:
    """The provider of this instance, which is opened by the first call that needs it."""

    def __init__(self) -> None:
        # At build time, so that a missing or doubled `export` is an error of the build.
        self._class = exported()
        self._opened: Provider | None = None

    def _provider(self) -> Provider:
        if self._opened is None:
            install()
            _start()
            self._opened = self._class(Config(_read_config()))
        return self._opened


class ResourceProvider(Instance):
    """The interface `resource-provider` of the contract."""

    def __init__(self) -> None:
        super().__init__()
        self._info = convert.info(self._class.info)
        # At build time: it would never be called.
        if self._class.prepare is not Provider.prepare and _PREPARE_COMPONENT not in sys.modules:
            raise TypeError(f"{self._class.__name__} prepares data: write `from mcp_host_provider import Progress`, so that it is called")

    def describe(self) -> wit.ProviderInfo:
        return self._info

    @_guarded
    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> wit.Page:
        return convert.page(self._provider().list_entries(parent, cursor, max(limit, 1)))

    @_guarded
    def list_templates(self, cursor: str | None) -> wit.TemplatePage:
        templates = self._provider().templates()
        starts = [str(start) for start in range(_TEMPLATES_PER_PAGE, len(templates), _TEMPLATES_PER_PAGE)]
        if cursor is not None and cursor not in starts:
            raise InvalidRequest("expected a cursor that this provider returned")
        start = int(cursor or 0)
        end = start + _TEMPLATES_PER_PAGE
        page = [
            convert.template(template, f"templates[{index}]")
            for index, template in enumerate(templates[start:end], start)
        ]
        return wit.TemplatePage(page, str(end) if end < len(templates) else None)

    @_guarded
    def read(self, path: str) -> list[wit.Contents]:
        result = self._provider().read(path)
        contents = [
            convert.contents(one, "contents" if one is result else f"contents[{index}]")
            for index, one in enumerate(convert.sequence(as_sequence(result), Contents, "contents"))
        ]
        if not contents:
            raise Internal(f"`read` returned no content for {path!r}; raise NotFound if there is no such resource")
        return contents

    @_guarded
    def stat(self, path: str) -> wit.Entry:
        return convert.entry(self._provider().stat(path))

    @_guarded
    def complete(self, template: str, argument: wit.Argument, known: list[wit.Argument]) -> wit.Completion:
        given = {argument.name: argument.value for argument in known}
        return convert.completion(self._provider().complete(template, argument.name, argument.value, given))

    @_guarded
    def changes(self, watched: list[str], since: str | None) -> wit.ChangeSet:
        return convert.changes(self._provider().changes(watched, since))


def _start() -> None:
    """Sets what differs from the state of the build: the module `random` gets a seed, because every instance would draw the same
    numbers, and `sys.argv`, which is empty, the name of a program, which `argparse` and others expect."""
    sys.argv[:] = sys.argv or ["provider"]
    random = sys.modules.get("random")
    if random is not None:
        random.seed()


def _read_config() -> dict[str, str]:
    try:
        return dict(config_store.get_all())
    except Err as error:
        raise Internal(f"cannot read the config from the host: {error.value}") from None
