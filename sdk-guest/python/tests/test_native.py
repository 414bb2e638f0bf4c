"""What a unit test has in place of the host: buckets in memory, databases and servers that are functions, and requests to loopback.

It runs without the bindings, as the tests of a provider do.
"""

from __future__ import annotations

import subprocess
import sys
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

SOURCE = Path(__file__).parent.parent / "src"


class NativeTest(unittest.TestCase):
    """Other tests of this folder have the bindings in their path, and make this process a component: so another one."""

    def run_natively(self, program: str, *arguments: str) -> None:
        command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{program}", *arguments]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(finished.returncode, 0, finished.stderr)

    def test_a_bucket_is_in_memory(self) -> None:
        self.run_natively(
            """
from mcp_host_provider import Unavailable
from mcp_host_provider.keyvalue import Bucket

bucket = Bucket("visits")
bucket.set_json("a", {"é": [1]})
assert bucket.get_json("a") == {"é": [1]} and bucket.get_json("none") is None
bucket.set_many({"a": b"1", "b": b"2", "c": b"3"})
assert [bucket.compare_and_swap("a", b"0", b"9"), bucket.compare_and_swap("a", b"1", b"9")] == [False, True]
bucket.delete("b")
bucket.delete_many(["c", "missing"])
assert bucket.get_many(["a", "b"]) == [b"9", None] and bucket.get("b") is None and "b" not in bucket
assert (bucket.increment("n", 2), bucket.increment("n", 3), sorted(Bucket("visits"))) == (2, 5, ["a", "n"])
assert list(Bucket("other")) == []
bucket.set("text", b"text")
try:
    bucket.increment("text", 1)
except Unavailable:
    pass
else:
    raise AssertionError("a text was incremented")
"""
        )

    def test_a_reset_empties_all_buckets_also_open_ones(self) -> None:
        self.run_natively(
            """
from mcp_host_provider.keyvalue import Bucket, reset

bucket = Bucket("visits")
bucket.set("a", b"1")
reset()
assert bucket.get("a") is None and list(Bucket("visits")) == []
bucket.set("a", b"2")
assert Bucket("visits").get("a") == b"2"
"""
        )

    def test_a_request_is_answered_by_a_function(self) -> None:
        self.run_natively(
            """
from mcp_host_provider import Denied, Internal, Unavailable
from mcp_host_provider.http import Reply, Request, fake, request

asked = []

def answer(request):
    asked.append(request)
    if request.url.endswith("/down"):
        raise Unavailable("the server is down")
    return {"/text": "täxt", "/bytes": b"bytes", "/none": None}.get(
        request.url.removeprefix("https://docs.example"), Reply("missing", 404, {"X-Sent": request.method}))

fake(answer)
assert request("https://docs.example/text").read(5) == "täxt".encode()
response = request("https://docs.example/bytes", method="POST", headers={"X-Test": "1"}, body=b"sent", timeout=4)
assert (response.status, response.headers, response.read(5), response.read(5)) == (200, {}, b"bytes", b"bytes")
assert asked[-1] == Request("https://docs.example/bytes", "POST", {"x-test": "1"}, b"sent", 4)
response = request("https://docs.example/other")
assert (response.status, response.headers, response.read(7)) == (404, {"x-sent": "GET"}, b"missing")
for failing, failure in ((lambda: response.read(6), Internal), (lambda: request("https://docs.example/none"), Denied),
                         (lambda: request("https://docs.example/down"), Unavailable), (lambda: request("file:///etc/passwd"), Internal)):
    try:
        failing()
    except failure:
        continue
    raise AssertionError(failure)
count = len(asked)
fake(None)
try:
    request("http://127.0.0.1:1/")
except Unavailable:
    assert len(asked) == count
else:
    raise AssertionError("it was answered")
"""
        )

    def test_a_database_is_a_function(self) -> None:
        self.run_natively(
            """
from mcp_host_provider import Internal
from mcp_host_provider.sql import Database, fake

def answer(statement, parameters):
    assert (statement, list(parameters)) == ("SELECT name FROM items WHERE price < $1", [3])
    return [{"name": "pear"}, {"name": "fig"}]

fake("shop", answer)
shop = Database("shop")
rows = shop.query("SELECT name FROM items WHERE price < $1", [3], max_rows=1)
assert (rows.columns, rows.rows, rows.has_more) == (("name",), (("pear",),), True)
assert not shop.query("SELECT name FROM items WHERE price < $1", [3]).has_more
assert (Database.granted(), shop.describe().kind) == (["shop"], "sqlite")
try:
    Database("none").query("SELECT 1")
except Internal as failure:
    assert "grants.sql" in str(failure)
else:
    raise AssertionError("a database that is not there was queried")
"""
        )

    def test_requests_go_to_loopback_and_are_not_redirected(self) -> None:
        class Echo(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(302 if self.path == "/moved" else 200)
                self.send_header("location", "/elsewhere")
                self.send_header("x-sent", self.headers["x-test"])
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Echo)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.run_natively(
            """
from mcp_host_provider import Internal, Unavailable
from mcp_host_provider.http import request

url = sys.argv[1]
response = request(url, method="POST", headers={"x-test": "1"}, body=b"sent", timeout=10)
assert (response.status, response.headers["x-sent"], response.read(4)) == (200, "1", b"sent")
assert request(f"{url}/moved", method="POST", headers={"x-test": "1"}, body=b"sent").status == 302
for failing, failure in ((lambda: request(url, method="POST", headers={"x-test": "1"}, body=b"sent").read(3), Internal),
                         (lambda: request("http://127.0.0.1:1/"), Unavailable), (lambda: request("file:///etc/passwd"), Internal)):
    try:
        failing()
    except failure:
        continue
    raise AssertionError(failure)
""",
            f"http://127.0.0.1:{server.server_port}",
        )


if __name__ == "__main__":
    unittest.main()
