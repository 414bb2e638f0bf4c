"""The base class of providers, and the decorators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar, Union

from ._changes import Changes
from ._config import Config
from ._failures import Internal, InvalidRequest, NotFound
from ._prepare import Progress
from ._templates import PathTemplate
from ._types import Completion, Contents, Entry, Icon, Info, Page, Role, Template

ReadResult = Union[Contents, Sequence[Contents]]
"""What a read returns: one content, or several."""

P = TypeVar("P", bound="type[Provider]")
C = TypeVar("C", bound=Callable[..., Union[Completion, Iterable[str]]])

_exported: list[type[Provider]] = []


class TemplateMethod:
    """A method that reads the resources of a template. See `template`."""

    def __init__(self, declared: Template, handler: Callable[..., ReadResult]) -> None:
        self.template = declared
        self.pattern = PathTemplate(declared.path_template)
        self.handler = handler
        self.completers: dict[str, Callable[..., Completion | Iterable[str]]] = {}
        self.__doc__ = handler.__doc__

    def __get__(self, provider: Any, owner: type) -> Any:
        return self if provider is None else partial(self.handler, provider)

    def completes(self, variable: str) -> Callable[[C], C]:
        """Decorates the method that completes a variable: `method(self, value, known)`.

        `value` is the prefix that has been typed, and `known` has the variables with values. The method returns candidates,
        of which those that start with `value` are used, or a `Completion`.
        """
        if variable not in self.pattern.variables:
            raise ValueError(f"the template {self.pattern.text!r} has no variable {variable!r}")

        def decorate(completer: C) -> C:
            self.completers[variable] = completer
            return completer

        return decorate


def template(
    path_template: str,
    *,
    name: str,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    audience: Sequence[Role] = (),
    priority: float | None = None,
    icons: Sequence[Icon] = (),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[Callable[[Any, str, Mapping[str, str]], ReadResult]], TemplateMethod]:
    """Declares a family of resources: decorates the method that reads them, `method(self, path, variables)`.

        @template("log/{rev}{?limit}", name="log", description="The history of a revision.")
        def log(self, path: str, variables: Mapping[str, str]) -> Contents: ...

        @log.completes("rev")
        def complete_rev(self, value: str, known: Mapping[str, str]) -> Iterable[str]: ...
    """
    declared = Template(
        path_template, name, title, description, mime_type, audience, priority, icons, meta if meta is not None else {}
    )
    return lambda handler: TemplateMethod(declared, handler)


class Provider:
    """The base class of a provider.

    The host usually creates a fresh instance for every call, and may drop one between any two: what must last is stored
    outside. Calls never overlap. `__init__` is called before the first call, with the config; it should be cheap.
    """

    info: ClassVar[Info]
    """The description; set by `export`."""

    def __init__(self, config: Config) -> None:
        """Opens the provider. A failure fails the call, and the next one tries again."""

    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
        """Lists the children of `parent`, or without one the resources that are most useful at the top level.

        `limit`, at least 1, is the number of entries that the host can use; a page may have fewer. Fails with `NotFound` if
        there is no such parent, and with `InvalidRequest` if it is not listable or the cursor is unknown. By default the
        listing is empty.
        """
        return Page([])

    def read(self, path: str) -> ReadResult:
        """Reads a resource. By default, the method of the first template that matches does.

        Several contents with the same path are the same resource in several formats, the preferred first.
        """
        for method in self._template_methods():
            variables = method.pattern.match(path)
            if variables is not None:
                return method.handler(self, path, variables)
        raise NotFound

    def stat(self, path: str) -> Entry:
        """Returns the metadata of a resource. By default it is read for that; override it if there is a cheaper way."""
        for contents in as_sequence(self.read(path)):
            if contents.entry.path == path:
                return contents.entry if contents.entry.size is not None else with_size(contents)
        raise Internal(f"`read` returned no content with the path {path!r}; implement `stat`")

    def templates(self) -> Sequence[Template]:
        """Returns the templates. By default the templates of the decorated methods."""
        return [method.template for method in self._template_methods()]

    def complete(self, path_template: str, variable: str, value: str, known: Mapping[str, str]) -> Completion:
        """Completes a variable of one of the templates. By default, the decorated method does, if there is one."""
        for method in self._template_methods():
            if method.pattern.text != path_template:
                continue
            if variable not in method.pattern.variables:
                names = ", ".join(method.pattern.variables)
                raise InvalidRequest(f'expected a variable of "{path_template}" ({names}), found "{variable}"')
            completer = method.completers.get(variable)
            found = completer(self, value, known) if completer else Completion()
            return found if isinstance(found, Completion) else Completion.matching(found, value)
        raise InvalidRequest(f'expected a template as `resources/templates/list` has it, found "{path_template}"')

    def changes(self, watched: Sequence[str], since: str | None) -> Changes:
        """Returns what changed since a token; see `Changes.compare`. Only called if `export` says `watches=True`.

        Without a token nothing has changed yet. By default nothing ever changes.
        """
        return Changes("")

    def prepare(self, token: str | None) -> Progress:
        """Prepares a part of the work that takes longer than a call, such as an index: a few hundred milliseconds of it.

        The host calls it in the background where the config has `limits.prepare`, after it has loaded the provider and after
        changes that `changes` reports; `token` is the `next_token` of the call before, without one the preparation begins. Results
        are kept in a granted directory or in a bucket. A call that fails is repeated with the same token. A component has this
        function only if its module imports `Progress`.
        """
        raise NotImplementedError

    @classmethod
    def _template_methods(cls) -> list[TemplateMethod]:
        found: dict[str, TemplateMethod] = {}
        for base in reversed(cls.__mro__):
            methods = {name: value for name, value in vars(base).items() if isinstance(value, TemplateMethod)}
            found.update(methods)
        return list(found.values())


def export(
    *, name: str, version: str, title: str | None = None, description: str | None = None, watches: bool = False
) -> Callable[[P], P]:
    """Decorates the class that is this component's provider, and describes it. `watches` says that `changes` reports any."""

    def decorate(provider: P) -> P:
        provider.info = Info(name, version, title, description, watches)
        return offer(provider)

    return decorate


def offer(provider: P) -> P:
    """Makes a class the component's provider."""
    _exported.append(provider)
    return provider


def exported() -> type[Provider]:
    """Returns the class that was exported."""
    if len(_exported) != 1:
        names = ", ".join(provider.__name__ for provider in _exported) or "none"
        raise TypeError(f"expected one class that is decorated with `@export(name=…, version=…)`, or one `FunctionProvider`, found {names}")
    return _exported[0]


def as_sequence(result: ReadResult) -> Sequence[Contents]:
    """Returns the contents of a read."""
    return [result] if isinstance(result, Contents) else result


def with_size(contents: Contents) -> Entry:
    """Returns the entry of contents with their size."""
    body = contents.body
    return replace(contents.entry, size=len(body.encode() if isinstance(body, str) else body))
