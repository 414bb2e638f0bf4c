"""A provider that uses the standard library, for the end-to-end tests and for `standard_library.py`.

`imported/NAME` evaluates an expression that imports something when it runs. `test/MODULE` runs a module of CPython's own tests, which
are in the directory `/cpython/test`, or one class of it; `classes/MODULE` returns the names of its classes. Both return JSON."""

import contextlib
import io
import json
import os
import random
import sys
import unittest
from collections.abc import Iterator

from mcp_host_provider import Config, Contents, Entry, NotFound, Provider, export

EXPRESSIONS = {
    "zoneinfo": "str(__import__('datetime').datetime(2026, 7, 1, 12, tzinfo=__import__('zoneinfo').ZoneInfo('Europe/Berlin')))",
    "strptime": "str(__import__('datetime').datetime.strptime('2026-01-02 11:21 +0100', '%Y-%m-%d %H:%M %z'))",
    "fromisoformat": "str(__import__('datetime').datetime.fromisoformat('2026-01-02T11:21+01:00'))",
    "cp1252": r"b'\x80'.decode('cp1252')",
    "utf-8-sig": r"b'\xef\xbb\xbfa'.decode('utf-8-sig')",
    "idna": "'bücher.example'.encode('idna').decode()",
    "shift-jis": "'日本'.encode('shift_jis').decode('shift_jis')",
    "email": r"str(__import__('email.policy').message_from_string('Subject: =?cp1252?q?=80?=', policy=__import__('email.policy').policy.default)['subject'])",
    "sqlite3": "__import__('sqlite3').connect(':memory:').execute('SELECT 1 + 1').fetchone()[0]",
    "tomllib": "str(__import__('tomllib').loads('a = 2026-01-02T11:21:00+01:00')['a'])",
    "argparse": "__import__('argparse').ArgumentParser().prog",
    "random": "random.random()",
}


@export(name="standard", version="1.0.0")
class Standard(Provider):
    def __init__(self, config: Config) -> None:
        pass

    def read(self, path: str) -> Contents:
        kind, _, name = path.partition("/")
        if kind == "imported" and name in EXPRESSIONS:
            text = str(eval(EXPRESSIONS[name], {"random": random}))
        elif kind == "classes":
            text = json.dumps(sorted({f"{type(test).__module__}.{type(test).__qualname__}" for test in flat(loaded(name))}))
        elif kind == "test":
            text = json.dumps(tested(name))
        else:
            raise NotFound
        return Contents(Entry(path, path), text)


def loaded(name: str) -> unittest.TestSuite:
    sys.path[:] = ["/cpython"]
    with contextlib.suppress(OSError):
        os.chdir("/tmp")
    return unittest.defaultTestLoader.loadTestsFromName(name if name.startswith("test.") else f"test.{name}")


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def tested(name: str) -> dict[str, object]:
    output = io.StringIO()
    try:
        result = unittest.TextTestRunner(stream=output).run(loaded(name))
    except unittest.SkipTest as reason:
        return {"run": 0, "skipped": 1, "broken": [], "log": str(reason)}
    broken = [str(test).splitlines()[0] for test, _ in (*result.failures, *result.errors)]
    return {"run": result.testsRun, "skipped": len(result.skipped), "broken": broken, "log": output.getvalue()[-50_000:]}
