"""Providers of functions: each reads one resource, or all of a template."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ._arguments import is_below
from ._changes import Changes
from ._config import Config
from ._failures import Denied, Internal, InvalidRequest, NotFound
from ._listing import page_of
from ._prepare import Progress
from ._provider import Provider, ReadResult, offer
from ._resource import Item, Listed, ResourceFunction, check_literals, shape
from ._results import Body, contents_of, entry_of_file, fingerprint_of, status_of
from ._types import Completion, Entry, Icon, Info, Page, Role, Template

A = ParamSpec("A")
R = TypeVar("R", bound=Body)
P = TypeVar("P", bound=Callable[[str | None], Progress])

_log = logging.getLogger("mcp_host_provider")


class FunctionProvider:
    """A provider whose resources are functions. It is what the module exports: there is one in a component.

        provider = FunctionProvider(name="notes", version="0.1.0", description="Notes.")

        @provider.resource("notes/{name}")
        def note(name: Path) -> Path:
            return Path("/data") / name

        @note.listing
        def notes() -> Iterable[Path]:
            return Path("/data").iterdir()

    `provider.config` is the plugin's config, in calls. For tests, `provider.open(Config(…))` returns the `Provider`.
    """

    def __init__(
        self, *, name: str, version: str, title: str | None = None, description: str | None = None, watches: bool = True
    ) -> None:
        self.resources: list[ResourceFunction[..., Any]] = []
        self._config: Config | None = None
        functions = self

        class Functions(_Functions):
            info = Info(name, version, title, description, watches)

            def __init__(self, config: Config) -> None:
                super().__init__(functions, config)

        Functions.__name__ = f"FunctionProvider(name={name!r})"
        self._class = offer(Functions)

    @property
    def config(self) -> Config:
        """The plugin's config."""
        if self._config is None:
            raise RuntimeError("there is no config before the first call: read it in a function, not at the top of the module")
        return self._config

    def open(self, config: Config) -> Provider:
        """Opens the provider with a config."""
        return self._class(config)

    def resource(
        self,
        path_template: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        audience: Sequence[Role] = (),
        priority: float | None = None,
        icons: Sequence[Icon] = (),
        meta: Mapping[str, Any] | None = None,
        ttl: float | None = None,
        subscribable: bool = True,
    ) -> Callable[[Callable[A, R]], ResourceFunction[A, R]]:
        """Decorates the function that reads the resource of a path, or all of an RFC 6570 template.

        The parameters are the variables, converted to their types; variables of the query may have defaults. It returns text,
        a dict or list as JSON, bytes, a file as its `Path`, `Contents`, or none if there is no such resource. The first line of its
        docstring is the description, and its name the resource's, unless given.
        """

        def decorate(function: Callable[A, R]) -> ResourceFunction[A, R]:
            check_literals(path_template)
            documented = (inspect.getdoc(function) or "").partition("\n")[0] or None
            named = name or function.__name__.strip("_").replace("_", "-")
            declared = Template(
                path_template, named, title, description or documented, mime_type, audience, priority, icons, meta or {}
            )
            made = ResourceFunction(function, declared, subscribable, ttl)
            for other in self.resources:
                if shape(other.pattern.text) == shape(path_template):
                    raise TypeError(
                        f"{made.__name__}(): the paths of {path_template!r} are those of {other.pattern.text!r}, of {other.__name__}(); "
                        "give it other text, such as a first segment"
                    )
                if other.template.name == named:
                    raise TypeError(f"{made.__name__}(): there is a resource {named!r} already; write `name=`")
            self.resources.append(made)
            return made

        return decorate

    def prepare(self, function: P) -> P:
        """Decorates the function that prepares a part of the work that takes longer than a call, as `Provider.prepare` does.

            @provider.prepare
            def index(token: str | None) -> Progress:
                start = int(token or 0)
                …
                return Progress.of(end, len(events), "events", end)

        Its parameter is the `next_token` of the call before. A resource that needs more than there is raises `BeingPrepared`.
        """
        if "prepare" in vars(self._class):
            raise TypeError(f"{function.__name__}(): there is a function that prepares already; remove one of them")
        if len(inspect.signature(function).parameters) != 1:
            raise TypeError(f"{function.__name__}(): expected one parameter, `token: str | None`")

        def prepare(provider: _Functions, token: str | None) -> Progress:
            self.use(provider._config)
            return function(token)

        setattr(self._class, "prepare", prepare)
        return function

    def use(self, config: Config) -> None:
        """Sets the config of the calls that follow."""
        self._config = config


class _Functions(Provider):
    """The contract, by functions."""

    def __init__(self, functions: FunctionProvider, config: Config) -> None:
        self._functions = functions
        self._config = config
        functions.use(config)

    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
        if parent is not None:
            self.stat(parent)
            raise InvalidRequest("expected no parent: this resource has no children")
        return page_of([partial(self._items, one) for one in self._listed()], cursor, limit)

    def read(self, path: str) -> ReadResult:
        resource, arguments = self._find(path)
        return contents_of(_entry(resource, path), self._call(resource, arguments), resource.__name__)

    def stat(self, path: str) -> Entry:
        resource, arguments = self._find(path)
        body = self._call(resource, arguments)
        entry = _entry(resource, path)
        if isinstance(body, Path):
            return entry_of_file(entry, body)
        for contents in contents_of(entry, body, resource.__name__):
            if contents.entry.path == path:
                text = contents.body
                return replace(contents.entry, size=len(text.encode() if isinstance(text, str) else text))
        raise Internal(f"{resource.__name__}() returned no content with the path {path!r}")

    def templates(self) -> Sequence[Template]:
        return [one.template for one in self._functions.resources if one.pattern.variables]

    def complete(self, path_template: str, variable: str, value: str, known: Mapping[str, str]) -> Completion:
        self._functions.use(self._config)
        for resource in self._functions.resources:
            if resource.pattern.text == path_template and resource.pattern.variables:
                break
        else:
            raise InvalidRequest(f'expected a template as `resources/templates/list` has it, found "{path_template}"')
        if variable not in resource.pattern.variables:
            names = ", ".join(resource.pattern.variables)
            raise InvalidRequest(f'expected a variable of "{path_template}" ({names}), found "{variable}"')
        if variable in resource.completers:
            completer = resource.completers[variable]
            wanted = len(inspect.signature(completer).parameters)
            found = completer(*(value, known)[:wanted])
            return found if isinstance(found, Completion) else Completion.matching(found, value)
        choices = resource.arguments.choices(variable)
        if choices:
            return Completion.matching(choices, value)
        lists = [one for one in (resource, *self._functions.resources) if one.lists and variable in one.in_path]
        return _matching(self._values(lists[0]), variable, value, known) if lists else Completion()

    def changes(self, watched: Sequence[str], since: str | None) -> Changes:
        listing = sorted(_state_of_item(one, *item) for one in self._listed() for item in self._values(one))
        return Changes.compare(watched, since, state=self._state, listing=listing)

    def _state(self, path: str) -> object:
        try:
            resource, arguments = self._find(path)
            if resource.fingerprints is not None:
                self._functions.use(self._config)
                return resource.fingerprints(**arguments)
            body = self._call(resource, arguments)
            return None if body is None else fingerprint_of(body)
        except (NotFound, InvalidRequest, Denied) as failure:
            return None if isinstance(failure, NotFound) else str(failure)

    def _find(self, path: str) -> tuple[ResourceFunction[..., Any], dict[str, Any]]:
        """The function of a path, with its arguments. A path without variables is preferred to templates."""
        for resource in sorted(self._functions.resources, key=lambda one: bool(one.in_path)):
            variables = resource.pattern.match(path)
            if variables is not None:
                return resource, resource.arguments.convert(variables)
        raise NotFound

    def _call(self, resource: ResourceFunction[..., Any], arguments: Mapping[str, Any]) -> Any:
        self._functions.use(self._config)
        try:
            body = resource.function(**arguments)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            named = Path(error.filename) if isinstance(error.filename, str) else None
            if named and any(isinstance(one, Path) and named.parts[-len(one.parts) :] == one.parts for one in arguments.values()):
                status_of(named)
                raise NotFound from None
            raise  # A file that no argument names is one that the provider needs.
        # A name from a client may not lead out of the folder that the function joined it with.
        if isinstance(body, Path) and not all(is_below(one) for one in arguments.values() if isinstance(one, str)):
            raise NotFound
        return body

    def _listed(self) -> list[ResourceFunction[..., Any]]:
        """The functions that are listed: resources without variables of the path, and templates with a listing."""
        return [one for one in self._functions.resources if one.lists or (not one.in_path and one.arguments.has_no_required)]

    def _values(self, resource: ResourceFunction[..., Any]) -> Iterator[tuple[dict[str, str], Item]]:
        """The values of the variables of each resource that is listed. What the template cannot have is left out."""
        self._functions.use(self._config)
        if resource.lists is None:
            yield {}, Item("")
            return
        try:
            for listed in resource.lists():
                item = _item(listed)
                if item is None:
                    continue
                values = _variables(resource, item)
                path = _expand(resource, values)
                if resource.pattern.match(path) == values and is_below(path) and "." not in path.split("/"):
                    yield values, item
                else:
                    _log.warning("%s: no path of %r has the value %r", resource.__name__, resource.pattern.text, item.value)
        except OSError as error:
            raise Internal(f"{resource.__name__}: the listing failed: {error}; does `grants.dirs` grant it?") from None

    def _items(self, resource: ResourceFunction[..., Any]) -> Iterator[tuple[str, Callable[[], Entry | None]]]:
        for values, item in self._values(resource):
            path = _expand(resource, values)
            yield path, partial(_entry_of_item, resource, path, values, item)


def _entry(resource: ResourceFunction[..., Any], path: str) -> Entry:
    """The entry of a path, by what is declared."""
    declared = resource.template
    variables = resource.pattern.match(path) or {}
    name = "/".join(variables[one] for one in resource.in_path) or declared.name
    is_one = not resource.in_path  # What is declared of a template describes the family.
    return Entry(
        path,
        name,
        title=declared.title if is_one else None,
        description=declared.description if is_one else None,
        mime_type=declared.mime_type,
        audience=declared.audience,
        priority=declared.priority,
        icons=declared.icons,
        meta=declared.meta,
        ttl=resource.ttl,
        subscribable=resource.subscribable,
    )


def _entry_of_item(resource: ResourceFunction[..., Any], path: str, values: Mapping[str, str], item: Item) -> Entry | None:
    """The entry of an item; none if its file is gone."""
    given = {name: getattr(item, name) for name in _METADATA if getattr(item, name)}
    entry = replace(_entry(resource, path), **given)
    if item.file is None:
        return entry
    try:
        return entry_of_file(entry, item.file)
    except NotFound:
        return None


_METADATA = ("name", "title", "description", "mime_type", "size", "audience", "priority", "last_modified", "icons", "ttl", "meta")


def _item(listed: Listed) -> Item | None:
    """An item of what a listing gave; none for a file that is none, or hidden."""
    if isinstance(listed, Path):
        return Item(listed.name, file=listed) if not listed.name.startswith(".") and listed.is_file() else None
    return listed if isinstance(listed, Item) else Item(listed)


def _variables(resource: ResourceFunction[..., Any], item: Item) -> dict[str, str]:
    """The variables of the path, as text."""
    value, names = item.value, resource.in_path
    if isinstance(value, Mapping):
        given = dict(value)
    else:
        given = dict(zip(names, value)) if isinstance(value, tuple) and len(value) == len(names) else {names[0]: value}
    if sorted(given) != sorted(names):
        raise Internal(f"{resource.__name__}: the listing gave {value!r}; expected values of {', '.join(names)}, as a tuple or dict")
    return {name: _text(given[name]) for name in names}


def _text(value: object) -> str:
    """A value as a client writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Path):
        return value.as_posix()
    inner = getattr(value, "isoformat", None)
    return str(inner() if inner else value)


def _expand(resource: ResourceFunction[..., Any], values: Mapping[str, str]) -> str:
    try:
        return resource.pattern.expand(values)
    except UnicodeEncodeError:  # A name of a file that is not UTF-8. No path matches an empty text of a variable.
        return ""


def _state_of_item(resource: ResourceFunction[..., Any], values: Mapping[str, str], item: Item) -> str:
    status = None
    if item.file is not None:
        try:
            found = status_of(item.file)
            status = found.st_size, found.st_mtime_ns
        except NotFound:
            return ""
    return repr((resource.pattern.text, values, status, replace(item, file=None)))


def _matching(
    listed: Iterable[tuple[Mapping[str, str], Item]], variable: str, typed: str, known: Mapping[str, str]
) -> Completion:
    """The values of a variable in a listing, in items with the known values of the other variables."""

    def is_beside(values: Mapping[str, str]) -> bool:
        return all(values.get(name, value) == value for name, value in known.items() if name != variable)

    return Completion.matching((values[variable] for values, _ in listed if is_beside(values)), typed)
