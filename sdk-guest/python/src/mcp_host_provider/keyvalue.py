"""Persistent state: buckets of the host, which the administrator grants by name (`grants.keyvalue = ["visits"]`).

A component whose modules import this one imports `wasi:keyvalue`. A bucket is private to the plugin; all its calls share it, concurrent ones, too.
Writes are durable. `increment` and `compare_and_swap` are atomic; a read that is followed by a write is not. A key is text of 1
to 1024 bytes.

    from mcp_host_provider.keyvalue import Bucket

    count = Bucket("visits").increment(page, 1)

A bucket that is not granted is `Internal`; a store that fails or is full is `Unavailable`.

In a unit test a bucket is in memory, initially empty, and shared by all that open it by its name. `reset` empties all buckets for the next test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ._failures import Internal, Unavailable
from ._world import IN_COMPONENT

if TYPE_CHECKING or IN_COMPONENT:
    try:
        from componentize_py_types import Err
        from wit_world.imports import wasi_keyvalue_atomics_0_2_0_draft2 as atomics
        from wit_world.imports import wasi_keyvalue_batch_0_2_0_draft2 as batch
        from wit_world.imports import wasi_keyvalue_store_0_2_0_draft2 as store
    except ImportError as error:
        raise ImportError(
            "this component has no buckets: they need one whose own modules import them, or `--world provider-keyvalue`"
        ) from error
else:
    from ._keyvalue_native import Err, atomics, batch, store

R = TypeVar("R")


def reset() -> None:
    """Empties all buckets in unit tests, such as in `setUp`, also those that are open. In a component it has no effect."""
    if not IN_COMPONENT:
        from . import _keyvalue_native

        _keyvalue_native.reset()


class Bucket:
    """A set of keys with values."""

    def __init__(self, name: str) -> None:
        self._bucket = _call(lambda: store.open(name), name)

    def get(self, key: str) -> bytes | None:
        """Returns the value of a key; none if it does not exist."""
        return _call(lambda: self._bucket.get(key))

    def set(self, key: str, value: bytes) -> None:
        """Sets the value of a key."""
        _call(lambda: self._bucket.set(key, value))

    def get_json(self, key: str) -> Any:
        """Returns the value of a key, which is JSON; none if it does not exist. `Internal` if it is no JSON."""
        value = self.get(key)
        try:
            return None if value is None else json.loads(value)
        except ValueError as error:
            raise Internal(f"the value of the key `{key}` is no JSON: {error}") from None

    def set_json(self, key: str, value: Any) -> None:
        """Sets the value of a key, as JSON."""
        self.set(key, json.dumps(value, ensure_ascii=False, allow_nan=False).encode())

    def delete(self, key: str) -> None:
        """Deletes a key, if it exists."""
        _call(lambda: self._bucket.delete(key))

    def __contains__(self, key: str) -> bool:
        return _call(lambda: self._bucket.exists(key))

    def __iter__(self) -> Iterator[str]:
        """Iterates over the keys."""
        cursor = None
        while True:
            page = _call(lambda: self._bucket.list_keys(cursor))
            yield from page.keys
            cursor = page.cursor
            if cursor is None:
                return

    def increment(self, key: str, delta: int) -> int:
        """Adds to the number that is the value of a key, atomically, and returns the sum. A missing key counts as 0."""
        return _call(lambda: atomics.increment(self._bucket, key, delta))

    def compare_and_swap(self, key: str, expected: bytes | None, new: bytes) -> bool:
        """Sets the value of a key if it is `expected` (none: if there is no such key), atomically; returns whether it did.

        It may also be false after a concurrent write: read the value again and retry.
        """
        handle = _call(lambda: atomics.Cas.new(self._bucket, key))
        if _call(handle.current) != expected:
            return False
        try:
            atomics.swap(handle, new)
        except Err as error:
            if isinstance(error.value, atomics.CasError_CasFailed):
                return False
            raise _failure(error.value.value) from None
        return True

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Returns the values of at most 1000 keys, in the same order; none for a missing one."""
        found = _call(lambda: batch.get_many(self._bucket, list(keys)))
        return [None if one is None else one[1] for one in found]

    def set_many(self, values: Mapping[str, bytes]) -> None:
        """Sets at most 1000 values: all of them, or none on failure."""
        _call(lambda: batch.set_many(self._bucket, list(values.items())))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Deletes at most 1000 keys: all of them, or none on failure."""
        _call(lambda: batch.delete_many(self._bucket, list(keys)))


def _call(operation: Callable[[], R], name: str | None = None) -> R:
    try:
        return operation()
    except Err as error:
        raise _failure(error.value, name) from None


def _failure(error: object, name: str | None = None) -> Internal | Unavailable:
    if isinstance(error, store.Error_Other):
        return Unavailable(error.value)
    if isinstance(error, store.Error_NoSuchStore):
        return Internal(f"the bucket `{name}` is not granted: add it to `grants.keyvalue`")
    return Internal("access to the bucket is denied")
