"""A provider that prepares an index of a file in a bucket, a part per call, for a test of the host."""

from __future__ import annotations

from pathlib import Path

from mcp_host_provider import BeingPrepared, FunctionProvider, Progress, Unavailable
from mcp_host_provider.keyvalue import Bucket

PARTS = 3

provider = FunctionProvider(name="preparing", version="1.0.0")


@provider.resource("index")
def index() -> str:
    text = Bucket("index").get("source")
    if text is None:
        raise BeingPrepared
    return text.decode()


@provider.prepare
def prepare_index(token: str | None) -> Progress:
    folder = Path(provider.config.text("dir", "/data"))
    bucket = Bucket("index")
    text = (folder / "source").read_bytes()
    if token is None and bucket.get("source") == text:
        return Progress(percent=100)
    part = int(token or 0)
    if part == 1 and (folder / "fault").exists():
        raise Unavailable("the source is locked", retry_after=0.001)
    if part == 2 and (folder / "bug").exists():
        raise ValueError("a bug")
    if part + 1 == PARTS:
        bucket.set("source", text)
    return Progress.of(part + 1, PARTS, "parts", part + 1)
