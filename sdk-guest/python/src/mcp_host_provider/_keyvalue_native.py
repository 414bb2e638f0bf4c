"""Buckets in memory, for unit tests, with the names of the bindings of `wasi:keyvalue`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace


class Err(Exception):
    """The exception of an operation on a bucket."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


@dataclass(frozen=True)
class Other:
    """An error that is not about access."""

    value: str


class NoSuchStore:
    """Never raised in tests: every bucket is granted."""


class CasFailed:
    """Never raised in tests: there are no concurrent writes."""


class Bucket:
    """The values by key."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = bytes(value)

    def delete(self, key: str) -> None:
        self.values.pop(key, None)

    def exists(self, key: str) -> bool:
        return key in self.values

    def list_keys(self, _: str | None) -> SimpleNamespace:
        return SimpleNamespace(keys=list(self.values), cursor=None)


@dataclass(frozen=True)
class Cas:
    """The key of a value that is to be swapped."""

    bucket: Bucket
    key: str

    @staticmethod
    def new(bucket: Bucket, key: str) -> Cas:
        return Cas(bucket, key)

    def current(self) -> bytes | None:
        return self.bucket.get(self.key)


_buckets: dict[str, Bucket] = {}


def _open(name: str) -> Bucket:
    return _buckets.setdefault(name, Bucket())


def reset() -> None:
    """Empties all buckets, also those that are open."""
    for bucket in _buckets.values():
        bucket.values.clear()


def _increment(bucket: Bucket, key: str, delta: int) -> int:
    try:
        number = int(bucket.values.get(key, b"0")) + delta
    except ValueError:
        raise Err(Other(f"the value of {key!r} is no number")) from None
    bucket.set(key, str(number).encode())
    return number


def _swap(handle: Cas, value: bytes) -> None:
    handle.bucket.set(handle.key, value)


def _get_many(bucket: Bucket, keys: Sequence[str]) -> list[tuple[str, bytes] | None]:
    return [(key, bucket.values[key]) if key in bucket.values else None for key in keys]


def _set_many(bucket: Bucket, pairs: Iterable[tuple[str, bytes]]) -> None:
    for key, value in pairs:
        bucket.set(key, value)


def _delete_many(bucket: Bucket, keys: Iterable[str]) -> None:
    for key in keys:
        bucket.delete(key)


store = SimpleNamespace(open=_open, Error_Other=Other, Error_NoSuchStore=NoSuchStore)
atomics = SimpleNamespace(Cas=Cas, increment=_increment, swap=_swap, CasError_CasFailed=CasFailed)
batch = SimpleNamespace(get_many=_get_many, set_many=_set_many, delete_many=_delete_many)
