"""One full pass over an MCP server with the official Python SDK's client.

    python walk.py [--stateless] [--as ACCOUNT] http URL
    python walk.py [--stateless] stdio COMMAND ARGUMENT…

It connects (by `initialize`; with --stateless by the revision 2026-07-28), pings where the revision has a ping, walks all pages
of the resources and of the templates, reads one text and one blob, completes an argument of a template, and reads an
unknown resource. On success it prints one line of JSON, the same as ../typescript/walk.mjs does (which describes its keys), and ends with
exit code 0. Any unexpected answer, such as a wrong error code, goes to stderr with exit code 1.
"""

import asyncio
import base64
import json
import re
import sys
import warnings
from importlib.metadata import version

from connect import STATELESS, connected
from mcp import Client, MCPError
from mcp_types import ResourceTemplateReference

# The maximum number of resources that are read to find a text and a blob.
MOST_READS = 40

# The SDK warns that ping was removed in 2026-07-28: here it is sent only in revisions that have it.
warnings.filterwarnings("ignore", message="ping is removed")


async def main(words: list[str]) -> None:
    async with connected("walk", words) as (transport, client):
        summary = {"client": "python", "sdk": version("mcp"), "transport": transport, **await walk(client)}
    print(json.dumps(summary, ensure_ascii=False))


async def walk(client: Client) -> dict:
    revision = client.protocol_version
    info = client.server_info
    pinged = revision < STATELESS
    if pinged:
        await client.send_ping()

    resources, pages = await all_pages(client.list_resources, "resources")
    templates, _ = await all_pages(client.list_resource_templates, "resource_templates")
    return {
        "revision": revision,
        "server": {"name": info and info.name, "version": info and info.version},
        "pinged": pinged,
        "pages": pages,
        "resources": [resource.uri for resource in resources],
        "templates": [template.uri_template for template in templates],
        **await read(client, resources),
        "completion": await complete(client, templates),
        "unknown": await unknown(client, resources, revision),
    }


async def all_pages(list_page, key: str) -> tuple[list, int]:
    items, pages, cursor = [], 0, None
    while True:
        page = await list_page(cursor=cursor)
        items += getattr(page, key)
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            return items, pages


async def read(client: Client, resources: list) -> dict:
    """Reads one text and one blob, the resources with likely MIME types first."""
    found = {"text": None, "blob": None}

    def of(kinds: str) -> list:
        return [resource for resource in resources if re.search(kinds, resource.mime_type or "")]

    binary = of(r"^(image|audio|video|font)/|^application/(octet-stream|pdf|zip|gzip|wasm)$")
    for resource in [*of("^text/")[:1], *binary, *resources][:MOST_READS]:
        if all(found.values()):
            break
        result = await client.read_resource(resource.uri)
        if not result.contents:
            raise AssertionError(f"{resource.uri} has no contents")
        for contents in result.contents:
            if (text := getattr(contents, "text", None)) is not None:
                kind, size = "text", len(text.encode())
            else:
                kind, size = "blob", len(base64.b64decode(contents.blob, validate=True))
            found[kind] = found[kind] or {"uri": contents.uri, "mimeType": contents.mime_type, "size": size}
    return found


async def complete(client: Client, templates: list) -> dict | None:
    for template in templates:
        reference = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        for name in variables(template.uri_template):
            result = await client.complete(reference, argument={"name": name, "value": ""})
            if result.completion.values:
                return {"template": template.uri_template, "argument": name, "values": result.completion.values}
    return None


def variables(template: str) -> list[str]:
    """Returns the variables of an RFC 6570 template."""
    expressions = re.findall(r"\{[+#./;?&]?([^}]*)\}", template)
    return [re.sub(r"(\*|:\d+)$", "", name) for names in expressions for name in names.split(",")]


async def unknown(client: Client, resources: list, revision: str) -> dict:
    """Reads an unknown resource: the error is -32002 in the session-based revisions and -32602 since."""
    uri = f"{resources[0].uri if resources else 'nothing:///'}.no-such-resource"
    expected = -32002 if revision < STATELESS else -32602
    try:
        await client.read_resource(uri)
    except MCPError as error:
        if error.code == expected:
            return {"uri": uri, "code": error.code}
        raise AssertionError(f"reading {uri} should fail with {expected}, found {error.code}: {error}") from error
    raise AssertionError(f"reading {uri} should fail with {expected}, and succeeded")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
