"""The same calendar as a server of FastMCP, to compare: without pages, completion, updates and a sandbox."""

import json
import re
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from fastmcp import FastMCP
from fastmcp.exceptions import ResourceError
from fastmcp.resources import FunctionResource

FILE = Path("data/team.ics")
LINE = re.compile(r'([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^";:])*)*):(.*)', re.DOTALL)
TEXTS = {"SUMMARY": "summary", "DESCRIPTION": "description", "LOCATION": "location", "STATUS": "status"}

mcp: FastMCP = FastMCP("calendar")


@mcp.resource("calendar:///events/{uid}", mime_type="application/json")
def event(uid: str) -> str:
    """An event, by its UID."""
    if uid not in (events := parse()):
        raise ResourceError("not found")
    return as_json(events[uid])


@mcp.resource("calendar:///agenda{?start,days}", mime_type="application/json")
def agenda(start: str | None = None, days: int = 7) -> str:
    """The events that begin within some days, by default the next seven, in UTC."""
    first = moment(date.fromisoformat(start) if start else datetime.now(timezone.utc).date())
    last = first + timedelta(days=min(max(days, 0), 3660))
    return as_json([found for found in by_start() if first <= moment(found["start"]) < last])


@mcp.resource("calendar:///categories/{category}", mime_type="application/json")
def category(category: str) -> str:
    """The events of a category."""
    return as_json([found for found in by_start() if category in found["categories"]])


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=lambda of: of.isoformat())


def by_start() -> list[dict[str, Any]]:
    return sorted(parse().values(), key=lambda found: (moment(found["start"]), found["uid"]))


def parse() -> dict[str, dict[str, Any]]:
    """The events that have a UID and a start. Of a repeated one that is the first: rules are not expanded."""
    events: dict[str, dict[str, Any]] = {}
    within, found = [""], dict[str, Any]()  # The components that a line is within, such as an alarm in an event.
    for line in re.sub(r"\r?\n[ \t]", "", FILE.read_text(encoding="utf-8-sig", errors="replace")).splitlines():
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
    return re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] in "nN" else escaped[1], value)


def at(parameters: str, value: str) -> date | None:
    """A day, or a time in its zone; one of no zone that is known is taken for UTC. None if it is malformed."""
    zone = re.search(r';TZID="?([^";]+)', parameters)
    try:
        if "T" not in value:
            return date.fromisoformat(value)
        known = ZoneInfo(zone[1]) if zone and zone[1] in available_timezones() else timezone.utc
        return datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=known)
    except ValueError:
        return None


def moment(of: date) -> datetime:
    return of if isinstance(of, datetime) else datetime.combine(of, time(), timezone.utc)


for one in by_start():  # As they are at the start.
    uri = f"calendar:///events/{one['uid'].replace('/', '%2F')}"
    read = FunctionResource.from_function(lambda uid=one["uid"]: event(uid), uri=uri, name=one["uid"], mime_type="application/json")
    mcp.add_resource(read)

if __name__ == "__main__":
    mcp.run()
