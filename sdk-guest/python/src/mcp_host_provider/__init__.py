"""An SDK for writing providers of MCP resources in Python.

A *provider* makes data readable: files, notes, rows of a database. It is a WebAssembly component; `mcp-host` runs it in
a sandbox and serves its resources to clients of the Model Context Protocol.

    from mcp_host_provider import Config, Contents, Entry, NotFound, Page, Provider, export

    @export(name="greetings", version="1.0.0", description="`hello` greets whom the config key `name` names.")
    class Greetings(Provider):
        def __init__(self, config: Config) -> None:
            self.name = config.text("name", "world")

        def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
            return Page([Entry("hello", "hello", mime_type="text/plain")])

        def read(self, path: str) -> Contents:
            if path != "hello":
                raise NotFound
            return Contents(Entry("hello", "hello", mime_type="text/plain"), f"Hello, {self.name}!")

`mcp-host-provider build greetings.py -o greetings.wasm` makes the component. Outside of one, a provider is a class like any
other, and is tested like one: `Greetings(Config({"name": "Ada"})).read("hello")`.

Failures are exceptions: `NotFound`, `InvalidRequest`, `Denied`, `Unavailable`. Any other exception is a fault of the
provider: its traceback goes to the host's log, and the client gets an error without any text.
"""

from ._changes import Changes
from ._config import Config, ConfigError
from ._failures import Denied, Failure, Internal, InvalidRequest, NotFound, Unavailable
from ._functions import FunctionProvider
from ._memo import memo
from ._needs import Needs
from ._paging import paginate
from ._paths import decode_segment, encode_query, encode_segment, split_query
from ._prepare import BeingPrepared, Progress
from ._provider import Provider, ReadResult, export, template
from ._resource import Item, Listed, ResourceFunction
from ._templates import PathTemplate
from ._types import Completion, Contents, Entry, Icon, Info, Page, Role, Template, Theme

__all__ = [
    "BeingPrepared",
    "Changes",
    "Completion",
    "Config",
    "ConfigError",
    "Contents",
    "Denied",
    "Entry",
    "Failure",
    "FunctionProvider",
    "Icon",
    "Info",
    "Internal",
    "InvalidRequest",
    "Item",
    "Listed",
    "Needs",
    "NotFound",
    "Page",
    "PathTemplate",
    "Progress",
    "Provider",
    "ReadResult",
    "ResourceFunction",
    "Role",
    "Template",
    "Theme",
    "Unavailable",
    "decode_segment",
    "encode_query",
    "encode_segment",
    "export",
    "memo",
    "paginate",
    "split_query",
    "template",
]
