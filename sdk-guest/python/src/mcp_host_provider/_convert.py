"""Conversions to the contract's types. They name the field that is wrong, which the bindings do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from wit_world.exports import mcp_host_provider_resource_provider_0_1_0 as wit

from . import _types as sdk
from ._changes import Changes
from ._failures import Denied, Failure, Internal, InvalidRequest, NotFound, Unavailable

T = TypeVar("T")

_ROLES = {sdk.Role.USER: wit.Role.USER, sdk.Role.ASSISTANT: wit.Role.ASSISTANT}
_THEMES = {sdk.Theme.LIGHT: wit.Theme.LIGHT, sdk.Theme.DARK: wit.Theme.DARK}


def checked(value: Any, kind: type[T], field: str) -> T:
    """Returns the value if it is of that type; a `bool` is no number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{field}: expected {kind.__name__}, found {value!r}")
    return value


def optional(value: Any, kind: type[T], field: str) -> T | None:
    return None if value is None else checked(value, kind, field)


def natural(value: Any, field: str) -> int | None:
    if value is not None and checked(value, int, field) < 0:
        raise TypeError(f"{field}: expected a number from 0 on, found {value!r}")
    return optional(value, int, field)


def sequence(values: Any, kind: type[T], field: str) -> list[T]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{field}: expected a list, found {values!r}")
    return [checked(value, kind, f"{field}[{index}]") for index, value in enumerate(values)]


def milliseconds(seconds: Any, field: str) -> int | None:
    """Converts to milliseconds, rounded up, so that a short time does not become none."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise TypeError(f"{field}: expected seconds from 0 on, found {seconds!r}")
    return math.ceil(seconds * 1000)


def timestamp(time: Any, field: str) -> str | None:
    if time is None:
        return None
    if isinstance(time, bool) or not isinstance(time, (datetime, int, float)):
        raise TypeError(f"{field}: expected a datetime or seconds since 1970, found {time!r}")
    return sdk.rfc3339(time)


def hints(of: sdk.Entry | sdk.Template, last_modified: str | None) -> wit.Annotations | None:
    kind = type(of).__name__
    audience = [_ROLES[role] for role in sequence(of.audience, sdk.Role, f"{kind}.audience")]
    priority = of.priority
    if priority is not None:
        priority = float(checked(priority, int if isinstance(priority, int) else float, f"{kind}.priority"))
    if not audience and priority is None and last_modified is None:
        return None
    return wit.Annotations(audience, priority, last_modified)


def icons(given: Sequence[sdk.Icon], field: str) -> list[wit.Icon]:
    return [
        wit.Icon(
            checked(icon.src, str, "Icon.src"),
            optional(icon.mime_type, str, "Icon.mime_type"),
            sequence(icon.sizes, str, "Icon.sizes"),
            None if icon.theme is None else _THEMES[checked(icon.theme, sdk.Theme, "Icon.theme")],
        )
        for icon in sequence(given, sdk.Icon, field)
    ]


def entry(given: Any) -> wit.Entry:
    entry = checked(given, sdk.Entry, "entry")
    return wit.Entry(
        path=checked(entry.path, str, "Entry.path"),
        name=checked(entry.name, str, "Entry.name"),
        title=optional(entry.title, str, "Entry.title"),
        description=optional(entry.description, str, "Entry.description"),
        mime_type=optional(entry.mime_type, str, "Entry.mime_type"),
        size=natural(entry.size, "Entry.size"),
        annotations=hints(entry, timestamp(entry.last_modified, "Entry.last_modified")),
        icons=icons(entry.icons, "Entry.icons"),
        listable=checked(entry.listable, bool, "Entry.listable"),
        subscribable=checked(entry.subscribable, bool, "Entry.subscribable"),
        ttl_ms=milliseconds(entry.ttl, "Entry.ttl"),
        meta=sdk.meta_text(entry.meta),
    )


def contents(given: Any) -> wit.Contents:
    contents = checked(given, sdk.Contents, "contents")
    converted = entry(contents.entry)
    if isinstance(contents.body, str):
        data = contents.body.encode()
        converted.size = len(data)
        return wit.Contents(converted, wit.Body_TextBytes(data))
    data = bytes(contents.body) if isinstance(contents.body, (bytes, bytearray, memoryview)) else None
    if data is None:
        raise TypeError(f"Contents.body: expected str or bytes, found {contents.body!r}")
    converted.size = len(data)
    return wit.Contents(converted, wit.Body_Blob(data))


def page(given: Any) -> wit.Page:
    page = checked(given, sdk.Page, "the result of list_entries")
    entries = [entry(one) for one in page.entries]
    return wit.Page(entries, optional(page.next_cursor, str, "Page.next_cursor"))


def template(given: Any) -> wit.EntryTemplate:
    template = checked(given, sdk.Template, "template")
    return wit.EntryTemplate(
        checked(template.path_template, str, "Template.path_template"),
        checked(template.name, str, "Template.name"),
        optional(template.title, str, "Template.title"),
        optional(template.description, str, "Template.description"),
        optional(template.mime_type, str, "Template.mime_type"),
        hints(template, None),
        icons(template.icons, "Template.icons"),
        sdk.meta_text(template.meta),
    )


def completion(given: Any) -> wit.Completion:
    completion = checked(given, sdk.Completion, "the result of complete")
    return wit.Completion(
        sequence(completion.values, str, "Completion.values"),
        natural(completion.total, "Completion.total"),
        checked(completion.has_more, bool, "Completion.has_more"),
    )


def changes(given: Any) -> wit.ChangeSet:
    changes = checked(given, Changes, "the result of changes")
    return wit.ChangeSet(
        checked(changes.token, str, "Changes.token"),
        sequence(changes.changed, str, "Changes.changed"),
        checked(changes.listing_changed, bool, "Changes.listing_changed"),
        milliseconds(changes.poll_after, "Changes.poll_after"),
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
