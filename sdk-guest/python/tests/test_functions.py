"""Providers of functions, outside of a component."""

from __future__ import annotations

import enum
import json
import tempfile
import unittest
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from mcp_host_provider import (
    Completion,
    Config,
    Contents,
    Entry,
    FunctionProvider,
    Internal,
    InvalidRequest,
    Item,
    NotFound,
    PathTemplate,
    Progress,
    Provider,
    memo,
)


def functions() -> FunctionProvider:
    """A provider that is not this process's component."""
    with mock.patch("mcp_host_provider._provider._exported", []):
        return FunctionProvider(name="sample", version="1.0.0")


def body(provider: Provider, path: str) -> Any:
    [contents] = provider.read(path)  # type: ignore[misc]
    assert isinstance(contents, Contents) and contents.entry.path == path
    return contents.body


def paths(provider: Provider, limit: int = 3) -> list[str]:
    """The paths of all pages."""
    found: list[str] = []
    cursor = None
    while True:
        page = provider.list_entries(None, cursor, limit)
        found += [entry.path for entry in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            return found


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class ArgumentsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.functions = functions()

        @self.functions.resource("typed/{number}{?ratio,day,time,level,kind,flag,text}")
        def typed(
            number: int,
            ratio: float = 0.5,
            day: date | None = None,
            time: datetime | None = None,
            level: Level = Level.LOW,
            kind: Literal["a", "b"] = "a",
            flag: bool = False,
            text: str = "none",
        ) -> str:
            return repr((number, ratio, day, time, level.value, kind, flag, text))

        @self.functions.resource("wanted{?q}")
        def wanted(q: str) -> str:
            return q

        self.provider = self.functions.open(Config())

    def test_values_are_converted_and_missing_or_empty_ones_of_the_query_are_the_default(self) -> None:
        default = repr((7, 0.5, None, None, "low", "a", False, "none"))
        self.assertEqual(body(self.provider, "typed/7"), default)
        self.assertEqual(body(self.provider, "typed/7?ratio=&text=&day="), default)
        given = "typed/-7?ratio=2&day=2026-11-28&time=2026-11-28T09:00:00Z&level=high&kind=b&flag=true&text=a%26b"
        time = datetime(2026, 11, 28, 9, tzinfo=timezone.utc)
        self.assertEqual(body(self.provider, given), repr((-7, 2.0, date(2026, 11, 28), time, "high", "b", True, "a&b")))

    def test_a_value_of_another_type_is_an_invalid_request_that_says_what_is_expected(self) -> None:
        for path, said in {
            "typed/x": '`number` must be an integer, such as 7, found "x"',
            "typed/07": "`number` must be an integer",
            "typed/7%0A": "`number` must be an integer",
            "typed/1_0": "`number` must be an integer",
            "typed/" + "9" * 5000: "`number` must be an integer",
            "typed/%D9%A7": "`number` must be an integer",
            "typed/7?ratio=nan": "`ratio` must be a number",
            "typed/7?ratio=1e400": "`ratio` must be a number",
            "typed/7?day=20261128": "`day` must be a date",
            "typed/7?day=2026-02-30": "`day` must be a date",
            "typed/7?time=2026-11-28": "`time` must be a time",
            "typed/7?level=LOW": '`level` must be low or high, found "LOW"',
            "typed/7?kind=c": "`kind` must be a or b",
            "typed/7?flag=1": "`flag` must be true or false",
            "wanted": "expected a value of `q`",
            "wanted?q=": "expected a value of `q`",
        }.items():
            with self.subTest(path), self.assertRaisesRegex(InvalidRequest, said):
                self.provider.read(path)
        for path in ("typed", "typed/7/8", "typed/7?other=1", "typed/7?flag=true&flag=true", "other", "typed/%FF"):
            with self.subTest(path), self.assertRaises(NotFound):
                self.provider.read(path)

    def test_types_with_few_values_are_completed(self) -> None:
        template = "typed/{number}{?ratio,day,time,level,kind,flag,text}"
        self.assertEqual(self.provider.complete(template, "level", "h", {}).values, ["high"])
        self.assertEqual(self.provider.complete(template, "flag", "", {}).values, ["true", "false"])
        self.assertEqual(self.provider.complete(template, "number", "", {}).values, ())

    def test_wrong_use_is_an_error_at_import_that_says_what_to_write(self) -> None:
        def takes_unknown(uid: str, days: int = 7) -> str: ...  # type: ignore[empty-body]
        def takes_nothing() -> str: ...  # type: ignore[empty-body]
        def takes_bytes(uid: bytes) -> str: ...  # type: ignore[empty-body]
        def takes_any(uid: str, **more: str) -> str: ...  # type: ignore[empty-body]
        def takes_uid(uid: str) -> str: ...  # type: ignore[empty-body]

        wrong: list[tuple[str, Callable[..., str], str]] = [
            ("events/{uid}", takes_unknown, r"no variable 'days'; write 'events/\{uid\}\{\?days\}'"),
            ("events/{uid}{?start}", takes_unknown, r"no variable 'days'; write 'events/\{uid\}\{\?start,days\}'"),
            ("events/{uid}", takes_nothing, r"write `def takes_nothing\(uid: str\)`"),
            ("events/{uid}", takes_bytes, "'uid' has the type bytes; supported are str, int"),
            ("events/{uid}", takes_any, r"one parameter for each variable"),
            ("typed/{uid}", takes_uid, r"the paths of 'typed/\{uid\}' are those of 'typed/\{number\}"),
            ("/events/{uid}", takes_uid, "begins with a slash"),
            ("my events/{uid}", takes_uid, "paths have 'my%20events': write that"),
            ("%65vents/{uid}", takes_uid, "paths have 'events': write that"),
            ("../{uid}", takes_uid, "which no path has"),
        ]
        for path_template, function, said in wrong:
            with self.subTest(path_template), self.assertRaisesRegex(TypeError, said):
                self.functions.resource(path_template)(function)
        with self.assertRaisesRegex(ValueError, "supported are"):
            self.functions.resource("events/{uid*}")(takes_uid)
        good = self.functions.resource("events/{uid}")(takes_uid)
        with self.assertRaisesRegex(TypeError, "no variable 'day'; its variables: uid"):
            good.completes("day")
        good.listing(lambda: [])
        with self.assertRaisesRegex(TypeError, "has a listing already"):
            good.listing(lambda: [])
        with self.assertRaisesRegex(RuntimeError, "no config before the first call"):
            functions().config  # noqa: B018


class ListingTest(unittest.TestCase):
    def setUp(self) -> None:
        self.values: list[Any] = []
        self.made = 0
        self.functions = functions()

        @self.functions.resource("about")
        def about() -> str:
            """About it."""
            return "about"

        @self.functions.resource("{+key}")
        def value(key: str) -> str | None:
            return key if key in self.values else None

        @value.listing
        def values() -> Iterator[Any]:
            for one in self.values:
                self.made += 1
                yield one

    def open(self) -> Provider:
        """Another instance, as each call of a component may have."""
        return self.functions.open(Config())

    def test_pages_have_the_order_of_the_iterator_and_no_more_of_it_is_iterated(self) -> None:
        self.values = [f"{number * 7919 % 1000}/x y" for number in range(100)]
        listed = ["about", *(one.replace(" ", "%20") for one in self.values)]
        self.assertEqual(paths(self.open(), 1), listed)
        self.assertEqual(paths(self.open(), 1000), listed)
        self.made = 0
        self.open().list_entries(None, None, 10)
        self.assertEqual(self.made, 10)

    def test_as_many_values_are_completed_as_the_host_chooses_from(self) -> None:
        for count in (1000, 2500):
            self.values = [f"v{number}" for number in range(count)]
            completed = self.open().complete("{+key}", "key", "v", {})
            self.assertEqual((len(completed.values), completed.total, completed.has_more), (1000, count, count > 1000))
            self.assertEqual(Completion.matching(self.values, "v"), completed)
        self.assertEqual(Completion.matching(["b", "ab", "a", "ab"], "a"), Completion(["ab", "a"], 2, False))

    def test_a_cursor_continues_in_another_instance_whatever_was_added_or_removed(self) -> None:
        start = [f"v{number}" for number in range(40)]
        edits: dict[str, Callable[[], list[str]]] = {
            "nothing": lambda: start,
            "one is added before": lambda: ["new", *start],
            "the last of the page is removed": lambda: [one for one in start if one != "v28"],
            "several before are removed": lambda: [one for one in start if one not in ("v0", "v1", "v27", "v28")],
            "the next is removed": lambda: [one for one in start if one != "v29"],
        }
        for name, edit in edits.items():
            with self.subTest(name):
                self.values = start
                first = self.open().list_entries(None, None, 30)
                self.values = edit()
                second = self.open().list_entries(None, first.next_cursor, 30)
                expected = [one for one in self.values if one not in {entry.path for entry in first.entries} and one != "new"]
                self.assertEqual([entry.path for entry in second.entries], expected)
                assert first.next_cursor is not None
                self.assertLess(len(first.next_cursor), 300)

    def test_if_all_that_is_known_of_a_page_is_removed_nothing_is_skipped(self) -> None:
        self.values = [f"v{number}" for number in range(60)]
        first = self.open().list_entries(None, None, 41)
        self.values = [one for one in self.values if one in ("v1", "v2") or int(one[1:]) >= 40]
        rest = [entry.path for entry in self.open().list_entries(None, first.next_cursor, 100).entries]
        self.assertTrue(set(rest) <= set(self.values), rest)

    def test_a_cursor_of_another_form_is_an_invalid_request(self) -> None:
        for cursor in ("", "x", "0:1", "9:0:", "0:1:zz", "0:-1:", "0:1:" + "a" * 12 * 17, "0:1:\n", "٠:1:"):
            with self.subTest(cursor), self.assertRaises(InvalidRequest):
                self.open().list_entries(None, cursor, 10)

    def test_a_parent_is_invalid_or_not_found(self) -> None:
        with self.assertRaises(InvalidRequest):
            self.open().list_entries("about", None, 10)
        with self.assertRaises(NotFound):
            self.open().list_entries("missing", None, 10)

    def test_each_path_that_is_listed_is_that_of_its_template_and_can_be_read(self) -> None:
        names = ["a b", "feature/x", "ü/é%2F", "a?b#c", "&=+,;!$'()*:@", "日本", "~.-_", "%", '"<>\\^`{|}']
        self.values = [*names, "a\0b", "\udcff", "..", "a/./b", "/a"]
        with self.assertLogs("mcp_host_provider", "WARNING"):
            listed = paths(self.open())
        self.assertEqual(listed, ["about", *(PathTemplate("{+key}").expand(key=name) for name in names)])
        for path, name in zip(listed[1:], names):
            self.assertEqual(body(self.open(), path), name)

    def test_values_of_several_variables_are_tuples_or_dicts_and_items_have_metadata(self) -> None:
        several = functions()

        @several.resource("{year}/{name}", mime_type="text/csv", ttl=5)
        def table(year: int, name: str) -> str:
            return f"{year} {name}"

        @table.listing
        def tables() -> Iterable[Any]:
            return [(2025, "a/b"), {"name": "c", "year": 2026}, Item((2026, "d"), title="D", priority=0.5)]

        entries = several.open(Config()).list_entries(None, None, 10).entries
        self.assertEqual([entry.path for entry in entries], ["2025/a%2Fb", "2026/c", "2026/d"])
        self.assertEqual(entries[2], Entry("2026/d", "2026/d", title="D", mime_type="text/csv", priority=0.5, subscribable=True, ttl=5))
        completed = several.open(Config()).complete("{year}/{name}", "name", "", {"year": "2026"})
        self.assertEqual(completed.values, ["c", "d"])
        table.lists = lambda: ["one"]
        with self.assertRaisesRegex(Internal, "expected values of year, name"):
            several.open(Config()).list_entries(None, None, 10)


class ResultsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name, "granted")
        self.folder.mkdir()
        Path(folder.name, "secret").write_text("secret")
        (self.folder / "a b.md").write_text("é")
        (self.folder / "b.png").write_bytes(b"\x89PNG\xff")
        (self.folder / ".hidden").write_text("")
        (self.folder / "folder").mkdir()
        self.functions = functions()
        results: dict[str, Any] = {
            "text": "é", "bytes": b"\xff", "dict": {"day": date(2026, 11, 28)}, "list": [1, "é"], "empty": [], "none": None,
            "contents": Contents(Entry("data/contents", "x", title="T"), "x"), "wrong": 3, "not-json": {"x": object()},
        }

        @self.functions.resource("data/{name}")
        def data(name: str) -> Any:
            return results[name]

        @self.functions.resource("{name}")
        def file(name: Path) -> Path:
            return self.folder / name

        @file.listing
        def files() -> Iterable[Path]:
            return sorted(self.folder.iterdir())

        @self.functions.resource("by-text/{name}")
        def by_text(name: str) -> Path:
            return self.folder / name

        self.results = results
        self.provider = self.functions.open(Config())

    def test_text_json_bytes_and_files_are_returned_as_they_are(self) -> None:
        for path, expected in {
            "data/text": ("text/plain", "é", 2),
            "data/bytes": ("application/octet-stream", b"\xff", 1),
            "data/empty": ("application/json", "[]", 2),
            "data/contents": (None, "x", 1),
            "a%20b.md": ("text/markdown", "é", 2),
            "b.png": ("image/png", b"\x89PNG\xff", 5),
        }.items():
            [contents] = self.provider.read(path)  # type: ignore[misc]
            assert isinstance(contents, Contents)
            entry = self.provider.stat(path)
            self.assertEqual((entry.mime_type, contents.body, entry.size), expected)
            self.assertEqual(entry.path, path)
        self.assertEqual(json.loads(body(self.provider, "data/dict")), {"day": "2026-11-28"})
        self.assertEqual(json.loads(body(self.provider, "data/list")), [1, "é"])
        with self.assertRaises(NotFound):
            self.provider.read("data/none")
        for path, said in {"data/wrong": r"data\(\) returned int; expected str", "data/not-json": "object has no form in JSON"}.items():
            with self.assertRaisesRegex(Internal, said):
                self.provider.read(path)

    def test_no_name_leads_out_of_the_folder(self) -> None:
        outside = str(self.folder.parent / "secret").replace("/", "%2F")
        for path in ("missing", "folder", ".hidden", "..%2Fsecret", outside, "folder%2F..%2F..%2Fsecret"):
            with self.subTest(path), self.assertRaises(NotFound):
                self.provider.read(path)
        for path in ("by-text/..%2Fsecret", f"by-text/{outside}", "by-text/missing"):
            with self.subTest(path), self.assertRaises(NotFound):
                self.provider.read(path)
        self.assertEqual(body(self.provider, "by-text/a%20b.md"), "é")

    def test_a_missing_file_is_not_found_only_if_an_argument_names_it(self) -> None:
        @self.functions.resource("opened/{name}")
        def opened(name: Path) -> str:
            return (self.folder / name).read_text()

        @self.functions.resource("needed/{name}")
        def needed(name: Path) -> str:
            return (self.folder / "index").read_text()

        for path in ("opened/missing", "opened/folder"):
            with self.assertRaises(NotFound):
                self.provider.read(path)
        with self.assertRaises(FileNotFoundError):
            self.provider.read("needed/a%20b.md")

    def test_files_are_listed_with_what_is_known_of_them(self) -> None:
        entries = self.provider.list_entries(None, None, 10).entries
        self.assertEqual([(entry.path, entry.mime_type, entry.size) for entry in entries],
                         [("a%20b.md", "text/markdown", 2), ("b.png", "image/png", 5)])
        self.assertEqual(self.provider.complete("{name}", "name", "a", {}).values, ["a b.md"])
        self.assertEqual(self.provider.complete("by-text/{name}", "name", "b", {}).values, ["b.png"])

    def test_a_folder_that_is_not_granted_is_a_fault_of_the_config(self) -> None:
        self.folder = Path("/not-granted/data")
        for call in (lambda: self.provider.read("a"), lambda: self.provider.list_entries(None, None, 10)):
            with self.assertRaisesRegex(Internal, "grants.dirs"):
                call()

    def test_changes_are_found_by_fingerprints_or_by_a_function(self) -> None:
        watched = ["a%20b.md", "data/text", "missing.md", "data/none"]
        start = self.provider.changes(watched, None)
        self.assertEqual(self.functions.open(Config()).changes(watched, start.token), start)
        (self.folder / "a b.md").write_text("changed")
        (self.folder / "missing.md").write_text("appeared")
        self.results["text"] = "other"
        later = self.functions.open(Config()).changes(watched, start.token)
        self.assertEqual((later.changed, later.listing_changed), (("a%20b.md", "data/text", "missing.md"), True))
        version = ["1"]
        [data] = [one for one in self.functions.resources if one.template.path_template == "data/{name}"]
        data.fingerprint(lambda name: version[0])
        start = self.provider.changes(["data/text"], None)
        self.results["text"] = "not looked at"
        self.assertEqual(self.provider.changes(["data/text"], start.token).changed, ())
        version[0] = "2"
        self.assertEqual(self.provider.changes(["data/text"], start.token).changed, ("data/text",))

    def test_a_function_prepares_with_the_config_of_its_provider(self) -> None:
        made = functions()

        @made.prepare
        def index(token: str | None) -> Progress:
            return Progress(message=f"{made.config.text('a', 'none')} {token}")

        first, other = (made.open(Config({"a": text})) for text in ["1", "2"])
        self.assertEqual([one.prepare("t").message for one in (first, other, first)], ["1 t", "2 t", "1 t"])
        self.assertEqual(index(None).message, "1 None")
        with self.assertRaisesRegex(TypeError, "prepares already"):
            made.prepare(index)
        with self.assertRaisesRegex(TypeError, "expected one parameter"):
            functions().prepare(lambda: Progress())  # type: ignore[arg-type, misc]

    def test_what_was_made_of_a_file_is_kept_until_it_changes(self) -> None:
        file, calls = self.folder / "memo", list[Path]()

        @memo
        def size(of: Path) -> int:
            calls.append(of)
            return len(of.read_text())

        file.write_text("1")
        self.assertEqual([size(file), size(file), len(calls)], [1, 1, 1])
        file.write_text("22")
        self.assertEqual([size(file), len(calls)], [2, 2])
        with self.assertRaises(NotFound):
            size(self.folder / "missing")

    def test_completion_by_a_function_gets_what_it_has_parameters_for(self) -> None:
        [data] = [one for one in self.functions.resources if one.template.path_template == "data/{name}"]
        for completer in (lambda: ["text", "other"], lambda typed: [f"{typed}ext"], lambda typed, known: [*known, "text"]):
            data.completers.clear()
            data.completes("name")(completer)
            self.assertEqual(self.provider.complete("data/{name}", "name", "t", {}).values, ["text"])
        with self.assertRaisesRegex(InvalidRequest, "expected a variable of"):
            self.provider.complete("data/{name}", "other", "", {})
        with self.assertRaisesRegex(InvalidRequest, "expected a template"):
            self.provider.complete("other/{name}", "name", "", {})


if __name__ == "__main__":
    unittest.main()
