"""A provider that uses each grant, for the end-to-end tests: `http` sends a request to the URL of the config, `keyvalue` performs every
operation on the bucket `visits`, `sql` queries the database `shop`, and `env` returns the variable `WHO`. `bucket/SIZE` reads a value of that size five times, and
`body/SIZE` the body of the response to a request of that path below the URL; both return the number of bytes."""

import json
import os

from mcp_host_provider import Config, Contents, Entry, NotFound, Provider, export
from mcp_host_provider.http import request
from mcp_host_provider.keyvalue import Bucket
from mcp_host_provider.sql import Database, Rejected


@export(name="granted", version="1.0.0")
class Granted(Provider):
    def __init__(self, config: Config) -> None:
        self.url = config.text("url", "")

    def read(self, path: str) -> Contents:
        match path:
            case "http":
                response = request(self.url, method="POST", headers={"x-test": "é"}, body=b"sent", timeout=10)
                return Contents(Entry(path, path), response.read(1024).decode())
            case "keyvalue":
                return Contents(Entry(path, path), " ".join(map(str, self.operations(Bucket("visits")))))
            case "sql":
                return Contents(Entry(path, path), self.queried(Database("shop")))
            case "env":
                return Contents(Entry(path, path), os.environ.get("WHO", ""))
            case _:
                return Contents(Entry(path, path), str(self.received(*path.split("/"))))

    def queried(self, shop: Database) -> str:
        try:
            shop.query("SELECT 1 FROM missing")
        except Rejected as rejected:
            rows = shop.query("SELECT name, price, photo FROM items WHERE price < $1 ORDER BY price", [3], max_rows=2)
            found = [rejected.sqlstate, shop.describe().kind, rows.columns, rows.rows, rows.has_more]
            return json.dumps(found, default=list, separators=(",", ":"))
        return "a table that is missing was queried"

    def received(self, kind: str, size: str = "") -> int:
        match kind:
            case "bucket":
                bucket = Bucket("visits")
                bucket.set("list", bytes(int(size)))
                return sum(len(bucket.get("list") or b"") for _ in range(5))
            case "body":
                return len(request(f"{self.url}/{size}", timeout=60).read(1 << 30))
            case _:
                raise NotFound

    def operations(self, bucket: Bucket) -> list[object]:
        bucket.set_json("a", {"é": [1]})
        assert bucket.get_json("a") == {"é": [1]} and bucket.get_json("none") is None
        bucket.set("a", b"1")
        bucket.set_many({"b": b"2", "c": b"3"})
        swapped = [bucket.compare_and_swap("a", b"0", b"9"), bucket.compare_and_swap("a", b"1", b"9")]
        bucket.delete("b")
        bucket.delete_many(["c"])
        values = [value and value.decode() for value in bucket.get_many(["a", "b"])]
        return [bucket.increment("n", 2), bucket.increment("n", 3), *map(int, swapped), *values, "b" in bucket, sorted(bucket)]
