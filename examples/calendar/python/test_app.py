"""The provider outside of a component, with the calendar of `data/`."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from app import provider
from mcp_host_provider import Config, Contents, InvalidRequest, NotFound

DATA = Path(__file__).parent.parent / "data" / "team.ics"


class CalendarTest(unittest.TestCase):
    def setUp(self) -> None:
        self.calendar = provider.open(Config({"file": str(DATA)}))

    def json(self, path: str) -> Any:
        [contents] = self.calendar.read(path)  # type: ignore[misc]
        assert isinstance(contents, Contents) and isinstance(contents.body, str)
        return json.loads(contents.body)

    def test_an_event_is_read_by_the_path_that_is_listed(self) -> None:
        paths = [entry.path for entry in self.calendar.list_entries(None, None, 10).entries]
        events = ["events/planning@example.com", "events/review%2F2026-12", "events/retro@example.com"]
        self.assertEqual(paths, [*events, "agenda", "categories/PLANNING", "categories/REVIEW", "categories/TEAM"])
        review = self.json("events/review%2F2026-12")
        self.assertEqual(review["description"], "What is ready, what is not.\nBring the list of issues that are open.")
        with self.assertRaises(NotFound):
            self.calendar.read("events/another")

    def test_the_agenda_has_the_events_of_some_days(self) -> None:
        self.assertEqual([one["summary"] for one in self.json("agenda?start=2026-11-30&days=1")], ["Planning, all teams"])
        self.assertEqual(len(self.json("agenda?start=2026-11-30&days=30")), 3)
        with self.assertRaisesRegex(InvalidRequest, '`days` must be an integer, such as 7, found "x"'):
            self.calendar.read("agenda?days=x")

    def test_categories_are_completed_from_the_listing(self) -> None:
        completion = self.calendar.complete("categories/{category}", "category", "T", {})
        self.assertEqual((completion.values, completion.total), (["TEAM"], 1))
        self.assertEqual(len(self.json("categories/TEAM")), 2)


if __name__ == "__main__":
    unittest.main()
