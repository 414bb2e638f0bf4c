"""SQL databases, which the host connects to, and the administrator grants by name (`grants.sql = [{ name = "shop", … }]`).

A component whose modules import this one imports `mcp-host:sql`. The host has the address and the password, and enforces that a provider
only reads.

    from mcp_host_provider.sql import Database

    rows = Database("shop").query("SELECT name FROM items WHERE price < $1 ORDER BY price", [10], max_rows=100)
    names = [name for (name,) in rows]

A statement is one query, in the dialect of the kind of database; `$1` stands for the first parameter in both. Each query sees one state
of the database, and two queries may see two.

A database that is not granted is `Internal`, and a statement that it refuses is `Rejected`, which is `Internal`: the text goes to the log.
A result that is too large is `InvalidRequest`; a database that cannot be reached, or takes too long, is `Unavailable`.

In a unit test a database answers by a function: see `fake`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union
from uuid import UUID

from ._failures import Failure, Internal, InvalidRequest, Unavailable
from ._world import IN_COMPONENT

if TYPE_CHECKING or IN_COMPONENT:
    try:
        from componentize_py_types import Err
        from wit_world.imports import mcp_host_sql_databases_0_1_0 as wit
    except ImportError as error:
        raise ImportError(
            "this component has no databases: they need one whose own modules import them, or `--world provider-sql`"
        ) from error

R = TypeVar("R")


class Rejected(Internal):
    """The database refused the statement. `sqlstate` is such as `42P01`, and `position` that in the statement, in characters from 1."""

    def __init__(self, sqlstate: str, message: str, position: int | None) -> None:
        super().__init__(f"the database refused the statement ({sqlstate}): {message}")
        self.sqlstate = sqlstate
        self.position = position


@dataclass(frozen=True)
class Rows:
    """The result of a query. It is iterated over by row, each a tuple with a value for each column.

    `columns` are the names, which need not be unique, and `types` the names of their types, such as `int4`. `has_more`
    says whether the query has more rows than it returned.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    has_more: bool

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def dicts(self) -> list[dict[str, Any]]:
        """Returns the rows as dicts by the names of the columns; of two with one name the last counts."""
        return [dict(zip(self.columns, row)) for row in self.rows]


@dataclass(frozen=True)
class DatabaseInfo:
    """What a database is, and what a query may return."""

    kind: Literal["postgresql", "sqlite"]
    version: str
    schemas: tuple[str, ...]
    max_rows: int
    max_bytes: int


Answer = Callable[[str, Sequence[object]], Union[Rows, Sequence[Mapping[str, object]]]]
"""Answers a query, the statement with its parameters, in unit tests: rows, or dicts by the names of the columns."""

_fakes: dict[str, tuple[Answer, DatabaseInfo]] = {}


def fake(name: str, answer: Answer, info: DatabaseInfo = DatabaseInfo("sqlite", "0", ("main",), 1000, 4 << 20)) -> None:
    """Makes a function answer the queries of a database, in unit tests. A result with more than `max_rows` is cut, as by the host.

        fake("shop", lambda statement, parameters: [{"name": "fig", "price": 2.5}])

    In a component it has no effect.
    """
    _fakes[name] = answer, info


def _fake(name: str) -> tuple[Answer, DatabaseInfo]:
    if name not in _fakes:
        raise Internal(_not_granted(name))
    return _fakes[name]


def _answered(name: str, sql: str, parameters: Sequence[object], max_rows: int | None) -> Rows:
    answer, info = _fake(name)
    found = answer(sql, parameters)
    if not isinstance(found, Rows):
        columns = tuple(found[0]) if found else ()
        found = Rows(columns, ("",) * len(columns), tuple(tuple(row[one] for one in columns) for row in found), False)
    most = min(info.max_rows, info.max_rows if max_rows is None else max_rows)
    if len(found.rows) <= most:
        return found
    return Rows(found.columns, found.types, found.rows[:most], True)


def _not_granted(name: str) -> str:
    return f"the database `{name}` is not granted: add it to `grants.sql`"


class Database:
    """A granted database. Making one sends nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def granted() -> list[str]:
        """The names of the granted databases, sorted."""
        return wit.granted() if IN_COMPONENT else sorted(_fakes)

    def describe(self) -> DatabaseInfo:
        """Returns what the database is."""
        if not IN_COMPONENT:
            return _fake(self.name)[1]
        info = self._call(lambda: wit.describe(self.name))
        kind: Literal["postgresql", "sqlite"] = "sqlite" if info.kind == wit.DatabaseKind.SQLITE else "postgresql"
        return DatabaseInfo(kind, info.version, tuple(info.schemas), info.max_rows, info.max_bytes)

    def query(self, sql: str, parameters: Sequence[object] = (), *, max_rows: int | None = None) -> Rows:
        """Runs one query and returns its first rows: at most `max_rows`, and at most as many as the grant allows.

        Values are Python's: None, bool, int, float, Decimal, str, bytes, date, time, datetime, UUID, decoded JSON, and
        lists of these. A parameter may be any of them, and a dict, which is JSON.
        """
        if not IN_COMPONENT:
            return _answered(self.name, sql, parameters, max_rows)
        lowered = [_lower(one) for one in parameters]
        found = self._call(lambda: wit.query(self.name, sql, lowered, max_rows))
        rows = tuple(tuple(map(_lift, row.values)) for row in found.rows)
        columns = found.columns
        return Rows(tuple(one.name for one in columns), tuple(one.type_name for one in columns), rows, found.has_more)

    def _call(self, operation: Callable[[], R]) -> R:
        try:
            return operation()
        except Err as error:
            raise self._failure(error.value) from None

    def _failure(self, failure: object) -> Failure:
        match failure:
            case wit.QueryFailure_NotGranted():
                return Internal(_not_granted(self.name))
            case wit.QueryFailure_Rejected(value=why):
                return Rejected(why.sqlstate, why.message, why.position)
            case wit.QueryFailure_TooLarge(value=text):
                return InvalidRequest(text)
            case wit.QueryFailure_Unavailable(value=text):
                return Unavailable(text)
            case _:
                return Unavailable("the query took too long")


def _lift(value: wit.Value) -> Any:
    if isinstance(value, wit.Value_Scalar):
        return _lift_scalar(value.value)
    array = value.value
    elements: list[Any] = [_lift_scalar(one) for one in array.elements]
    for length in reversed(array.dimensions[1:]):
        elements = [elements[at : at + length] for at in range(0, len(elements), max(length, 1))]
    return elements


def _lift_scalar(value: wit.Scalar) -> Any:
    match value:
        case wit.Scalar_Null():
            return None
        case wit.Scalar_Decimal(value=text):
            return Decimal(text)
        case wit.Scalar_Date(value=text):
            return date.fromisoformat(text)
        case wit.Scalar_Time(value=text):
            return time.fromisoformat(text)
        case wit.Scalar_Timestamp(value=text):
            return datetime.fromisoformat(text)
        case wit.Scalar_Instant(value=text):
            return datetime.fromisoformat(text.replace("Z", "+00:00"))
        case wit.Scalar_Uuid(value=text):
            return UUID(text)
        case wit.Scalar_Json(value=text):
            return json.loads(text)
        case plain:
            return plain.value


def _lower(value: object) -> wit.Value:
    if isinstance(value, (list, tuple)):
        dimensions, elements = _flat(value)
        return wit.Value_SqlArray(wit.SqlArray(dimensions, [_lower_scalar(one) for one in elements]))
    return wit.Value_Scalar(_lower_scalar(value))


def _flat(value: Sequence[object]) -> tuple[list[int], list[object]]:
    """The lengths of the dimensions of nested lists, and their elements in row-major order."""
    if not value:
        return [], []
    if not any(isinstance(one, (list, tuple)) for one in value):
        return [len(value)], list(value)
    inner = [_flat(one) if isinstance(one, (list, tuple)) else ([], []) for one in value]
    if any(dimensions != inner[0][0] or not dimensions for dimensions, _ in inner):
        raise TypeError(f"an array has lists of one length in each dimension, found {value!r}")
    return [len(value), *inner[0][0]], [one for _, elements in inner for one in elements]


def _lower_scalar(value: object) -> wit.Scalar:
    match value:
        case None:
            return wit.Scalar_Null()
        case bool():
            return wit.Scalar_Boolean(value)
        case int():
            return wit.Scalar_Integer(value) if -(2**63) <= value < 2**63 else wit.Scalar_Decimal(str(value))
        case float():
            return wit.Scalar_Float(value)
        case Decimal():
            return wit.Scalar_Decimal(str(value))
        case str():
            return wit.Scalar_Text(value)
        case bytes() | bytearray() | memoryview():
            return wit.Scalar_Bytes(bytes(value))
        case datetime():
            if value.tzinfo is None:
                return wit.Scalar_Timestamp(value.isoformat())
            return wit.Scalar_Instant(value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z"))
        case date():
            return wit.Scalar_Date(value.isoformat())
        case time():
            return wit.Scalar_Time(value.isoformat())
        case UUID():
            return wit.Scalar_Uuid(str(value))
        case dict():
            return wit.Scalar_Json(json.dumps(value, ensure_ascii=False, allow_nan=False))
        case _:
            raise TypeError(f"{type(value).__name__} is no type of a parameter")
