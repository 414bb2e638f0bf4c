"""A provider that prepares an index of a file in a bucket, a part per call, for a test of the host."""

from __future__ import annotations

from pathlib import Path

from mcp_host_provider import BeingPrepared, Config, Contents, Entry, Page, Progress, Provider, Unavailable, export
from mcp_host_provider.keyvalue import Bucket

PARTS = 3


@export(name="preparing", version="1.0.0")
class Preparing(Provider):
    def __init__(self, config: Config) -> None:
        self.source = Path("/data/source")
        self.fault = Path("/data/fault")

    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
        return Page([Entry("index", "index")])

    def prepare(self, token: str | None) -> Progress:
        bucket = Bucket("index")
        text = self.source.read_bytes()
        if token is None and bucket.get("source") == text:
            return Progress(percent=100)
        part = int(token or 0)
        if part == 1 and self.fault.exists():
            raise Unavailable("the source is locked", retry_after=0.001)
        if part == 2 and self.fault.with_name("bug").exists():
            raise ValueError("a bug")
        if part + 1 == PARTS:
            bucket.set("source", text)
        return Progress.of(part + 1, PARTS, "parts", part + 1)

    def read(self, path: str) -> Contents:
        text = Bucket("index").get("source")
        if text is None:
            raise BeingPrepared
        return Contents(Entry("index", "index"), text.decode())
