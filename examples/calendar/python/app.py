"""The events of an iCalendar file (RFC 5545): each, those of some days, and those of a category."""

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from mcp_host_provider import FunctionProvider, Item, Needs

NEEDS: Needs = {
    "dirs": [{"guest": "/calendar", "why": "the folder of the file"}],
    "config": {"file": {"type": "string", "default": "calendar.ics", "why": "the name of the file"}},
}
# A line: its name, its parameters, whose values may be quoted, and its value.
LINE = re.compile(r'([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^";:])*)*):(.*)', re.DOTALL)
TEXTS = {"SUMMARY": "summary", "DESCRIPTION": "description", "LOCATION": "location", "STATUS": "status"}

provider = FunctionProvider(name="calendar", version="0.1.0", description="The events of a calendar.")


@provider.resource("events/{uid}")
def event(uid: str) -> dict[str, Any] | None:
    """An event, by its UID."""
    return parsed().get(uid)


@event.listing
def events() -> Iterator[Item]:
    for found in by_start():
        description = f"{found['start']}{' in ' + found['location'] if 'location' in found else ''}"
        yield Item(found["uid"], title=found.get("summary"), description=description, mime_type="application/json")


@provider.resource("agenda{?start,days}")
def agenda(start: date | None = None, days: int = 7) -> list[dict[str, Any]]:
    """The events that begin within some days, by default the next seven, in UTC."""
    first = moment(start or datetime.now(timezone.utc).date())
    last = first + timedelta(days=min(max(days, 0), 3660))
    return [found for found in by_start() if first <= moment(found["start"]) < last]


@provider.resource("categories/{category}")
def category(category: str) -> list[dict[str, Any]] | None:
    """The events of a category."""
    return [found for found in by_start() if category in found["categories"]] or None


@category.listing
def categories() -> Iterable[str]:
    return sorted({category for found in parsed().values() for category in found["categories"]})


def by_start() -> list[dict[str, Any]]:
    return sorted(parsed().values(), key=lambda found: (moment(found["start"]), found["uid"]))


def parsed() -> dict[str, dict[str, Any]]:
    """The events of the file, parsed once in an instance unless the file changes."""
    file = Path("/calendar") / provider.config.text("file", "calendar.ics")
    status = file.stat()
    return parse(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1)
def parse(file: Path, size: int, modified: int) -> dict[str, dict[str, Any]]:
    """The events that have a UID and a start. Of a repeated one that is the first: rules are not expanded."""
    events: dict[str, dict[str, Any]] = {}
    within, found = [""], dict[str, Any]()  # The components that a line is within, such as an alarm in an event.
    for line in re.sub(r"\r?\n[ \t]", "", file.read_text(encoding="utf-8-sig", errors="replace")).splitlines():
        name, parameters, value = match.groups() if (match := LINE.fullmatch(line)) else ("", "", "")
        match name.upper():
            case "BEGIN":
                within.append(value.upper())
                found = {"categories": []} if value.upper() == "VEVENT" else found
            case "END" if len(within) > 1:
                if within.pop() == "VEVENT" and found.get("uid") and found.get("start"):
                    events.setdefault(found["uid"], found)
            case _ if within[-1] != "VEVENT":
                pass
            case "UID":
                found["uid"] = value
            case "DTSTART" | "DTEND":
                found["start" if name.upper() == "DTSTART" else "end"] = at(parameters, value)
            case "CATEGORIES":
                found["categories"] += [plain(one) for one in re.split(r"(?<!\\),", value)]
            case text if text in TEXTS:
                found[TEXTS[text]] = plain(value)
    return events


def plain(value: str) -> str:
    return value if "\\" not in value else re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] in "nN" else escaped[1], value)


def at(parameters: str, value: str) -> date | None:
    """A day, or a time in its zone; one of no zone that is known is taken for UTC. None if it is malformed."""
    zone = re.search(r';TZID="?([^";]+)', parameters) if parameters else None
    try:
        if "T" not in value:
            return date.fromisoformat(value)
        known = ZoneInfo(zone[1]) if zone and zone[1] in available_timezones() else timezone.utc
        return datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=known)
    except ValueError:
        return None


def moment(of: date) -> datetime:
    return of if isinstance(of, datetime) else datetime.combine(of, time(), timezone.utc)
