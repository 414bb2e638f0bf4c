"""Conversions to the contract's types. They name the field that is wrong, which the bindings do not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from wit_world.exports import mcp_host_provider_resource_provider_0_1_1 as wit

from . import _types as sdk
from ._changes import Changes
from ._failures import Denied, Failure, Internal, InvalidRequest, NotFound, Unavailable

T = TypeVar("T")


class InvalidResult(TypeError):
    """The provider returned a value of a wrong type. The text says where: a traceback would lead into this module."""


_ROLES = {sdk.Role.USER: wit.Role.USER, sdk.Role.ASSISTANT: wit.Role.ASSISTANT}
_THEMES = {sdk.Theme.LIGHT: wit.Theme.LIGHT, sdk.Theme.DARK: wit.Theme.DARK}


def checked(value: Any, kind: type[T], field: str) -> T:
    """Returns the value if it is of that type; a `bool` is no number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidResult(f"{field}: expected {kind.__name__}, found {value!r}")
    return value


def optional(value: Any, kind: type[T], field: str) -> T | None:
    return None if value is None else checked(value, kind, field)


def natural(value: Any, field: str) -> int | None:
    if value is not None and checked(value, int, field) < 0:
        raise InvalidResult(f"{field}: expected a number from 0 on, found {value!r}")
    return optional(value, int, field)


def sequence(values: Any, kind: type[T], field: str) -> list[T]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidResult(f"{field}: expected a list, found {values!r}")
    return [checked(value, kind, f"{field}[{index}]") for index, value in enumerate(values)]


def milliseconds(seconds: Any, field: str) -> int | None:
    """Converts to milliseconds, rounded up, so that a short time does not become none."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise InvalidResult(f"{field}: expected seconds from 0 on, found {seconds!r}")
    return math.ceil(seconds * 1000)


def timestamp(time: Any, field: str) -> str | None:
    if time is None:
        return None
    if isinstance(time, bool) or not isinstance(time, (datetime, int, float)):
        raise InvalidResult(f"{field}: expected a datetime or seconds since 1970, found {time!r}")
    return sdk.rfc3339(time)


def hints(of: sdk.Entry | sdk.Template, field: str, last_modified: str | None) -> wit.Annotations | None:
    audience = [_ROLES[role] for role in sequence(of.audience, sdk.Role, f"{field}.audience")]
    priority = of.priority
    if priority is not None:
        priority = float(checked(priority, int if isinstance(priority, int) else float, f"{field}.priority"))
    if not audience and priority is None and last_modified is None:
        return None
    return wit.Annotations(audience, priority, last_modified)


def icons(given: Sequence[sdk.Icon], field: str) -> list[wit.Icon]:
    return [
        wit.Icon(
            checked(icon.src, str, f"{field}[{index}].src"),
            optional(icon.mime_type, str, f"{field}[{index}].mime_type"),
            sequence(icon.sizes, str, f"{field}[{index}].sizes"),
            None if icon.theme is None else _THEMES[checked(icon.theme, sdk.Theme, f"{field}[{index}].theme")],
        )
        for index, icon in enumerate(sequence(given, sdk.Icon, field))
    ]


def entry(given: Any, field: str = "entry") -> wit.Entry:
    entry = checked(given, sdk.Entry, field)
    path = checked(entry.path, str, f"{field}.path")
    try:
        return wit.Entry(
            path=path,
            name=checked(entry.name, str, f"{field}.name"),
            title=optional(entry.title, str, f"{field}.title"),
            description=optional(entry.description, str, f"{field}.description"),
            mime_type=optional(entry.mime_type, str, f"{field}.mime_type"),
            size=natural(entry.size, f"{field}.size"),
            annotations=hints(entry, field, timestamp(entry.last_modified, f"{field}.last_modified")),
            icons=icons(entry.icons, f"{field}.icons"),
            listable=checked(entry.listable, bool, f"{field}.listable"),
            subscribable=checked(entry.subscribable, bool, f"{field}.subscribable"),
            ttl_ms=milliseconds(entry.ttl, f"{field}.ttl"),
            meta=sdk.meta_text(entry.meta),
        )
    except InvalidResult as error:
        raise InvalidResult(f"{error} (the path is {path!r})") from None


def contents(given: Any, field: str = "contents") -> wit.Contents:
    contents = checked(given, sdk.Contents, field)
    converted = entry(contents.entry, f"{field}.entry")
    if isinstance(contents.body, str):
        data = contents.body.encode()
        converted.size = len(data)
        return wit.Contents(converted, wit.Body_TextBytes(data))
    data = bytes(contents.body) if isinstance(contents.body, (bytes, bytearray, memoryview)) else None
    if data is None:
        raise InvalidResult(f"{field}.body: expected str or bytes, found {contents.body!r}")
    converted.size = len(data)
    return wit.Contents(converted, wit.Body_Blob(data))


def page(given: Any) -> wit.Page:
    page = checked(given, sdk.Page, "the page")
    entries = [entry(one, f"entries[{index}]") for index, one in enumerate(sequence(page.entries, sdk.Entry, "entries"))]
    return wit.Page(entries, optional(page.next_cursor, str, "next_cursor"))


def template(given: Any, field: str) -> wit.EntryTemplate:
    template = checked(given, sdk.Template, field)
    return wit.EntryTemplate(
        checked(template.path_template, str, f"{field}.path_template"),
        checked(template.name, str, f"{field}.name"),
        optional(template.title, str, f"{field}.title"),
        optional(template.description, str, f"{field}.description"),
        optional(template.mime_type, str, f"{field}.mime_type"),
        hints(template, field, None),
        icons(template.icons, f"{field}.icons"),
        sdk.meta_text(template.meta),
    )


def completion(given: Any) -> wit.Completion:
    completion = checked(given, sdk.Completion, "the completion")
    return wit.Completion(
        sequence(completion.values, str, "values"),
        natural(completion.total, "total"),
        checked(completion.has_more, bool, "has_more"),
    )


def changes(given: Any) -> wit.ChangeSet:
    changes = checked(given, Changes, "the changes")
    return wit.ChangeSet(
        checked(changes.token, str, "token"),
        sequence(changes.changed, str, "changed"),
        checked(changes.listing_changed, bool, "listing_changed"),
        milliseconds(changes.poll_after, "poll_after"),
    )


def info(given: sdk.Info) -> wit.ProviderInfo:
    return wit.ProviderInfo(
        checked(given.name, str, "export: name"),
        checked(given.version, str, "export: version"),
        optional(given.title, str, "export: title"),
        optional(given.description, str, "export: description"),
        checked(given.watches, bool, "export: watches"),
    )


def failure(given: Failure) -> wit.Failure:
    text = str(given)
    match given:
        case NotFound():
            return wit.Failure_NotFound()
        case InvalidRequest():
            return wit.Failure_InvalidRequest(text)
        case Denied():
            return wit.Failure_Denied(text)
        case Unavailable():
            retry_after = milliseconds(given.retry_after, "Unavailable.retry_after")
            return wit.Failure_Unavailable(wit.Retry(given.reason, retry_after))
        case Internal():
            return wit.Failure_Internal(text)
        case _:
            return wit.Failure_Internal(f"{type(given).__name__}: {text}")
