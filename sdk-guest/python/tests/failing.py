"""A provider that fails in every way, for the end-to-end tests."""

import logging

from mcp_host_provider import Config, Contents, Denied, Entry, Internal, Page, Provider, ReadResult, Unavailable, export


@export(name="failing", version="1.0.0")
class Failing(Provider):
    def __init__(self, config: Config) -> None:
        self.depth = config.integer("depth", 1)

    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
        return Page([Entry("good", "good", size=2)])

    def read(self, path: str) -> ReadResult:
        match path:
            case "good":
                logging.getLogger("failing").warning("read, with %s", {"depth": self.depth})
                return Contents(Entry(path, path, mime_type="application/octet-stream"), b"\xff\x00")
            case "bug":
                return Contents(Entry(path, path), {}["missing"])
            case "import":
                import ssl  # noqa: PLC0415

                return Contents(Entry(path, path), ssl.OPENSSL_VERSION)
            case "exit":
                raise SystemExit(3)
            case "deep":
                return self.read(path)
            case "loop":
                while True:
                    self.depth += 1
            case "wrong":
                return Contents(Entry(path, path, size="2"), "")  # type: ignore[arg-type]
            case "denied":
                raise Denied("not for you")
            case "busy":
                raise Unavailable("locked", retry_after=2)
            case "internal":
                raise Internal("corrupt")
        return super().read(path)
