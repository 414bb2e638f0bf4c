"""A provider that sends a request to the URL of its config, for the end-to-end tests."""

from mcp_host_provider import Config, Contents, Entry, Provider, export
from mcp_host_provider.http import request


@export(name="fetching", version="1.0.0")
class Fetching(Provider):
    def __init__(self, config: Config) -> None:
        self.url = config.text("url", "")

    def read(self, path: str) -> Contents:
        response = request(self.url, method="POST", headers={"x-test": "é"}, body=b"sent", timeout=10)
        return Contents.detect(Entry(path, path, meta={"example.com/status": response.status}), response.read(1024))
