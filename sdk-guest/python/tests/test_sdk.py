"""The SDK outside of a component. With `bindings` in the path, the exports can be called, too: the host is a stub."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent.parent / "bindings"))

from componentize_py_types import Err
from mcp_host_provider import (
    BeingPrepared,
    Changes,
    Config,
    ConfigError,
    Contents,
    Entry,
    InvalidRequest,
    NotFound,
    Page,
    PathTemplate,
    Progress,
    Provider,
    Role,
    Unavailable,
    decode_segment,
    encode_query,
    encode_segment,
    export,
    paginate,
    template,
)
from wit_world.exports import mcp_host_provider_prepare_0_1_1 as prepare_wit
from wit_world.exports import mcp_host_provider_resource_provider_0_1_1 as wit


@export(name="sample", version="1.0.0", watches=True)
class Sample(Provider):
    opened = 0

    def __init__(self, config: Config) -> None:
        Sample.opened += 1
        self.depth = config.integer("depth", 1)

    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
        if parent == "wrong":
            return Page([Entry("a", "a"), Entry("b", "b", size="79")])  # type: ignore[arg-type]
        return paginate(["b", "a", "c"], cursor, limit, lambda name: Entry(name, name))

    def read(self, path: str) -> Contents | list[Contents]:
        match path:
            case "text":
                return Contents(Entry(path, path, ttl=0.0001, audience=[Role.USER]), "é")
            case "bytes":
                return [Contents(Entry(path, path), b"\xff")]
            case "busy":
                raise Unavailable("locked", retry_after=1.5)
            case "bug":
                raise ValueError("a bug")
            case "wrong":
                return Contents(Entry(path, path, title=3), "")  # type: ignore[arg-type]
            case "nothing":
                return []
            case "none":
                return None  # type: ignore[return-value]
        result = super().read(path)
        assert isinstance(result, Contents)
        return result

    @template("item/{id}{?lang}", name="item")
    def item(self, path: str, variables: Mapping[str, str]) -> Contents:
        return Contents(Entry(path, variables["id"]), variables.get("lang", ""))

    @item.completes("id")
    def complete_id(self, value: str, known: Mapping[str, str]) -> Iterable[str]:
        return ["one", "only", "two"]


class Preparation(unittest.TestCase):
    def setUp(self) -> None:
        from mcp_host_provider import _component

        mock.patch.object(_component.config_store, "get_all", lambda: []).start()
        mock.patch("mcp_host_provider._logging.log").start()
        self.addCleanup(mock.patch.stopall)

    def prepared(self, prepare: object) -> object:
        """What the component returns, or fails with, for a provider with that method."""
        from mcp_host_provider._prepare_component import Prepare

        with mock.patch.object(Sample, "prepare", prepare):
            try:
                return Prepare().prepare("t")
            except Err as error:
                return error.value

    def test_progress_and_failures_are_those_of_the_contract(self) -> None:
        progress = self.prepared(lambda _, token: Progress(token + "1", 50, "half", 0.0001))
        self.assertEqual(progress, prepare_wit.Progress("t1", 50, "half", 1))

        def fails(_: object, token: str | None) -> Progress:
            raise Unavailable("locked", retry_after=1.5)

        self.assertEqual(self.prepared(fails), prepare_wit.Failure("locked", 1500))

        def bug(_: object, token: str | None) -> Progress:
            raise ValueError("a bug")

        self.assertEqual(self.prepared(bug), prepare_wit.Failure("ValueError: a bug", None))
        wrong = "`prepare` returned a value of a wrong type: percent: expected 0 to 100, found 101"
        self.assertEqual(self.prepared(lambda _, token: Progress(percent=101)), prepare_wit.Failure(wrong, None))

    def test_a_class_without_the_method_is_an_error_of_the_build(self) -> None:
        with self.assertRaisesRegex(TypeError, "Sample has no method `prepare"):
            self.prepared(Provider.prepare)

    def test_a_method_that_is_never_called_is_an_error_of_the_build(self) -> None:
        from mcp_host_provider import _component

        with (
            mock.patch.object(Sample, "prepare", lambda _, token: Progress()),
            mock.patch.object(_component, "_PREPARE_COMPONENT", "absent"),
            self.assertRaisesRegex(TypeError, "import Progress"),
        ):
            _component.ResourceProvider()

    def test_what_is_being_prepared_says_how_far_it_is(self) -> None:
        from wit_world.imports import wasi_config_store_0_2_0_rc_1 as config_store

        def raised(keys: Mapping[str, str]) -> Unavailable:
            with mock.patch.object(config_store, "get", keys.get):
                return BeingPrepared()

        of_host = {"mcp-host/limits.prepare.cpu-ms": "60000", "mcp-host/prepare.percent": "40"}
        self.assertEqual((raised(of_host).reason, raised(of_host).retry_after), ("it is being prepared, 40 %", 1.0))
        self.assertIn("does not allow", raised({}).reason)


class Component(unittest.TestCase):
    def setUp(self) -> None:
        from mcp_host_provider import _component

        store = mock.patch.object(_component.config_store, "get_all", lambda: [("depth", "3")])
        log = mock.patch("mcp_host_provider._logging.log")
        store.start()
        self.log = log.start()
        self.addCleanup(mock.patch.stopall)
        self.component = _component.ResourceProvider()

    def failure(self, path: str) -> object:
        with self.assertRaises(Err) as raised:
            self.component.read(path)
        return raised.exception.value

    def test_text_and_bytes_are_told_apart_and_have_their_size(self) -> None:
        text = self.component.read("text")[0]
        self.assertEqual((text.body, text.entry.size), (wit.Body_TextBytes("é".encode()), 2))
        self.assertEqual((text.entry.ttl_ms, text.entry.annotations.audience), (1, [wit.Role.USER]))
        self.assertEqual(self.component.read("bytes")[0].body, wit.Body_Blob(b"\xff"))
        self.assertEqual(self.component.stat("text").size, 2)

    def test_failures_are_those_of_the_contract(self) -> None:
        self.assertEqual(self.failure("missing"), wit.Failure_NotFound())
        self.assertEqual(self.failure("busy"), wit.Failure_Unavailable(wit.Retry("locked", 1500)))

    def test_another_exception_is_internal_and_its_traceback_is_logged(self) -> None:
        self.assertEqual(self.failure("bug"), wit.Failure_Internal("ValueError: a bug"))
        lines = [call.args[2] for call in self.log.call_args_list]
        self.assertIn("read failed", lines)
        self.assertTrue(any('raise ValueError("a bug")' in line for line in lines), lines)

    def test_a_value_of_a_wrong_type_is_internal_and_names_its_field(self) -> None:
        wrong = "`read` returned a value of a wrong type: contents.entry.title: expected str, found 3 (the path is 'wrong')"
        self.assertEqual(self.failure("wrong"), wit.Failure_Internal(wrong))
        self.assertIn("contents: expected a list, found None", str(self.failure("none")))
        self.assertIn("no content", str(self.failure("nothing")))
        with self.assertRaises(Err) as raised:
            self.component.list_entries("wrong", None, 10)
        self.assertIn("entries[1].size: expected int, found '79' (the path is 'b')", str(raised.exception.value))
        self.log.assert_not_called()

    def test_templates_are_read_and_completed_by_their_methods(self) -> None:
        self.assertEqual(self.component.read("item/a%2Fb?lang=en")[0].entry.name, "a/b")
        self.assertEqual(self.component.list_templates(None).templates[0].path_template, "item/{id}{?lang}")
        found = self.component.complete("item/{id}{?lang}", wit.Argument("id", "o"), [])
        self.assertEqual(found, wit.Completion(["one", "only"], 2, False))
        self.assertEqual(self.component.complete("item/{id}{?lang}", wit.Argument("lang", ""), []).values, [])
        for unknown in [("other", "id"), ("item/{id}{?lang}", "other")]:
            with self.assertRaises(Err) as raised:
                self.component.complete(unknown[0], wit.Argument(unknown[1], ""), [])
            self.assertIsInstance(raised.exception.value, wit.Failure_InvalidRequest)

    def test_the_provider_is_opened_once_with_the_config(self) -> None:
        Sample.opened = 0
        self.component.describe()
        self.assertEqual(Sample.opened, 0)
        self.component.read("text")
        self.component.read("text")
        self.assertEqual(Sample.opened, 1)

    def test_log_records_go_to_the_host(self) -> None:
        self.component.read("text")
        logging.getLogger("sample").warning("%d left", 2)
        level, context, message = self.log.call_args.args
        self.assertEqual((level.name, context, message), ("WARN", "sample", "2 left"))


class Helpers(unittest.TestCase):
    def test_pages_go_on_after_the_last_key(self) -> None:
        def page(cursor: str | None) -> tuple[list[str], str | None]:
            found = paginate(["c", "a", "b", "\U0001f600", "\ufb00"], cursor, 2, lambda name: Entry(name, name))
            return [entry.name for entry in found.entries], found.next_cursor

        self.assertEqual(page(None), (["a", "b"], ":b"))
        self.assertEqual(page(":b"), (["c", "\ufb00"], ":\ufb00"))
        self.assertEqual(page(":\ufb00"), (["\U0001f600"], None))
        with self.assertRaises(InvalidRequest):
            page("x")

    def test_changes_are_found_by_comparing_with_the_token(self) -> None:
        files = {"a": 1, "b": 1}

        def changes(since: str | None) -> Changes:
            return Changes.compare(["a", "b", "c"], since, state=files.get, listing=sorted(files))

        start = changes(None)
        self.assertEqual(changes(start.token), start)
        files.update(a=2, c=1)
        later = changes(start.token)
        self.assertEqual((later.changed, later.listing_changed), (("a", "c"), True))
        unknown = changes("of another version")
        self.assertEqual((len(unknown.changed), unknown.listing_changed), (3, True))

    def test_a_config_is_typed_and_errors_name_the_key(self) -> None:
        config = Config({"rev": "main", "depth": 3, "deep": True, "dirs": ["a"]})
        self.assertEqual((config.text("rev", ""), config.integer("depth"), config.boolean("deep")), ("main", 3, True))
        self.assertEqual((config.json("dirs"), config.number("none", 0.5)), (["a"], 0.5))
        with self.assertRaisesRegex(ConfigError, "config key `rev`: expected an integer, found 'main'"):
            config.integer("rev")

    def test_templates_match_and_expand(self) -> None:
        blob = PathTemplate("blob/{rev}/{+path}{?from,to}")
        self.assertEqual(blob.variables, ["rev", "path", "from", "to"])
        self.assertEqual(blob.match("blob/a%20b/x/y?to=2"), {"rev": "a b", "path": "x/y", "to": "2"})
        for other in ["blob//x", "blob/a/x%2Fy", "blob/a/x?sort=1", "blob/a/x?to=1&to=2", "blob/%FF/x", "blob/%2/x"]:
            self.assertIsNone(blob.match(other), other)
        self.assertEqual(blob.expand({"rev": "a/b", "path": "x?/y", "to": "1 2"}), "blob/a%2Fb/x%3F/y?to=1%202")
        for malformed in ["{", "{a,b}", "{#a}", "{a}{a}", "{?a}/b", "x?y={a}"]:
            with self.assertRaises(ValueError, msg=malformed):
                PathTemplate(malformed)

    def test_names_are_encoded_as_the_contract_says(self) -> None:
        for name in ["a b/c%.md", "日本", "it's (1), ok!"]:
            self.assertEqual(decode_segment(encode_segment(name)), name)
        self.assertEqual(encode_segment("a b,c"), "a%20b,c")
        self.assertEqual(encode_query("a&b=c+d,e;f/g?h @:"), "a%26b%3Dc%2Bd%2Ce%3Bf%2Fg%3Fh%20@:")

    def test_an_expansion_is_in_the_normal_form_of_the_host(self) -> None:
        delimiters = "@:!$&'()*+,;="
        template = PathTemplate("{name}{?q}")
        path = template.expand(name=delimiters, q=delimiters)
        self.assertEqual(path, f"{delimiters}?q=@:!$%26'()*%2B%2C%3B%3D")
        self.assertEqual(template.match(path), {"name": delimiters, "q": delimiters})

    def test_progress_counts_to_a_hundred_and_ends_there(self) -> None:
        self.assertEqual(Progress.of(1, 3, "files", 7), Progress("7", 33, "1 of 3 files"))
        for prepared, all_ in [(3, 3), (0, 0), (4, 3)]:
            done = Progress.of(prepared, all_, "files", 7)
            self.assertEqual((done.next_token, done.percent), (None, 100))

    def test_prepare_is_exported_by_a_module_that_imports_progress(self) -> None:
        from mcp_host_provider.build import _PREPARES, used_names

        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "plain.py").write_text("from mcp_host_provider import Provider\n")
            (folder / "app.py").write_text("from mcp_host_provider import Progress, Provider\n")
            self.assertNotIn(_PREPARES, used_names(folder / "plain.py", (folder,)))
            self.assertIn(_PREPARES, used_names(folder / "app.py", (folder,)))

    def test_a_component_has_the_world_of_what_its_modules_import(self) -> None:
        from mcp_host_provider.build import needed_worlds, used_names

        def worlds(module: Path) -> list[str]:
            return needed_worlds(used_names(module, (module.parent,)))

        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "app.py").write_text("import parts.web\n\ndef later():\n    from other import pages\n")
            (folder / "parts").mkdir()
            (folder / "parts/__init__.py").write_text("")
            (folder / "parts/web.py").write_text("from mcp_host_provider.http import request\nfrom . import mutual\n")
            (folder / "parts/mutual.py").write_text("from .web import request\n")
            self.assertEqual(worlds(folder / "app.py"), ["provider-http"])
            (folder / "other.py").write_text("from mcp_host_provider import keyvalue as pages\n")
            self.assertEqual(worlds(folder / "app.py"), ["provider-http", "provider-keyvalue"])
            (folder / "plain.py").write_text("import json, http.client\n")
            self.assertEqual(worlds(folder / "plain.py"), ["provider"])
        with self.assertRaises(InvalidRequest):
            decode_segment("a/b")

    def test_times_are_rfc_3339(self) -> None:
        from mcp_host_provider._types import rfc3339

        self.assertEqual(rfc3339(0), "1970-01-01T00:00:00Z")
        self.assertEqual(rfc3339(datetime(2025, 1, 12, 15, 0, 58, tzinfo=timezone.utc)), "2025-01-12T15:00:58Z")

    def test_a_provider_is_tested_like_any_class(self) -> None:
        with self.assertRaises(NotFound):
            Sample(Config()).read("missing")

    def test_what_a_provider_asks_for_is_read_from_its_module_without_running_it(self) -> None:
        from mcp_host_provider.build import BuildError, declared_needs, needs_section

        def declared(text: str) -> bytes | None:
            with tempfile.TemporaryDirectory() as folder:
                source = Path(folder, "app.py")
                source.write_text(text)
                return declared_needs(source)

        self.assertEqual(declared('NEEDS: Needs = {"env": [{"name": "LANG"}]}'), b'{"env": [{"name": "LANG"}]}')
        self.assertEqual(declared('x = 1\nNEEDS = {}\nraise SystemExit'), b"{}")
        self.assertIsNone(declared("needs = {}"))
        for wrong in ["NEEDS = needs()", "NEEDS = {1, 2}", "NEEDS = {'config': " + repr("x" * 70_000) + "}"]:
            with self.assertRaises(BuildError):
                declared(wrong)
        self.assertEqual(needs_section(b"{}"), b"\0\x14\x11mcp-host:needs/v1{}")
        long = needs_section(b"x" * 200)
        self.assertEqual((long[1:3], len(long)), (b"\xda\x01", 3 + 218))

    def test_other_packages_are_those_of_the_virtual_environment_that_builds(self) -> None:
        from mcp_host_provider.build import BuildError, build

        def given(prefix: str) -> str | None:
            """The `VIRTUAL_ENV` of componentize-py, where another environment is active."""
            failed = subprocess.CompletedProcess([], 1, "", "")
            with tempfile.TemporaryDirectory() as folder, mock.patch("subprocess.run", return_value=failed) as run:
                source = Path(folder, "app.py")
                source.touch()
                prefixes = mock.patch.multiple(sys, prefix=prefix, base_prefix="/usr")
                with prefixes, mock.patch.dict(os.environ, VIRTUAL_ENV="/active"), self.assertRaises(BuildError):
                    build(source, Path(folder, "app.wasm"))
            environment: dict[str, str] = run.call_args.kwargs["env"]
            return environment.get("VIRTUAL_ENV")

        self.assertEqual(given("/project/.venv"), "/project/.venv")
        self.assertEqual(given("/usr"), "/active")


class Sql(unittest.TestCase):
    def test_values_are_those_of_python_in_both_directions(self) -> None:
        from datetime import date, datetime, time, timedelta, timezone
        from decimal import Decimal
        from uuid import UUID

        from mcp_host_provider import sql

        values: list[object] = [
            None, True, -7, 2.5, Decimal("12.50"), "é", b"\xff", date(2026, 11, 28), time(9, 30), datetime(2026, 11, 28, 9, 30, 0, 5),
            datetime(2026, 11, 28, 9, 30, tzinfo=timezone.utc), UUID(int=7), {"a": [1]}, [], [1, 2, None], [["a", "b"], ["c", "d"]],
        ]  # fmt: skip
        with mock.patch.object(sql.wit, "query") as query:
            query.side_effect = lambda name, text, parameters, most: sql.wit.Rows(
                [sql.wit.Column("a", "int4"), sql.wit.Column("a", "")] , [sql.wit.Row(parameters)], True
            )
            rows = sql.Database("shop").query("SELECT 1", values, max_rows=1)
        self.assertEqual([*rows], [tuple(values)])
        self.assertEqual((rows.columns, rows.types, rows.has_more, len(rows)), (("a", "a"), ("int4", ""), True, 1))
        abroad = datetime(2026, 11, 28, 10, 30, tzinfo=timezone(timedelta(hours=1)))
        self.assertEqual(sql._lower(abroad), sql.wit.Value_Scalar(sql.wit.Scalar_Instant("2026-11-28T09:30:00Z")))
        self.assertEqual(sql._lower(2**63), sql.wit.Value_Scalar(sql.wit.Scalar_Decimal(str(2**63))))
        for wrong in (object(), [[1], 2], [[1], [2, 3]]):
            with self.assertRaises(TypeError):
                sql._lower(wrong)

    def test_failures_of_queries_are_those_of_the_contract(self) -> None:
        from mcp_host_provider import Internal, sql

        for why, kind, text in [
            (sql.wit.QueryFailure_NotGranted(), Internal, "add it to `grants.sql`"),
            (sql.wit.QueryFailure_Rejected(sql.wit.Rejection("42P01", "no table", 7)), sql.Rejected, "42P01"),
            (sql.wit.QueryFailure_TooLarge("rows"), InvalidRequest, "rows"),
            (sql.wit.QueryFailure_Timeout(), Unavailable, "too long"),
            (sql.wit.QueryFailure_Unavailable("down"), Unavailable, "down"),
        ]:
            with mock.patch.object(sql.wit, "query", side_effect=Err(why)), self.assertRaisesRegex(kind, text):
                sql.Database("shop").query("SELECT 1")


if __name__ == "__main__":
    unittest.main()
