"""What a client that knows only tools does, with the official Python SDK's client: it lists, searches, and reads what it finds.

    python tools.py [--stateless] http URL
    python tools.py [--stateless] stdio COMMAND ARGUMENT…

The environment has the words in WORDS. On success it prints one line of JSON, as ../typescript/tools.mjs does: the names of the
tools, the URIs that are listed, those that a search finds, the text of the first of them, and the passages of a selection, each
with its URI, its text, and what that URI reads as. A search that is partial is repeated. The SDK checks structured content
against the output schemas.
"""

import asyncio
import json
import os
import sys

from connect import connected


async def main(words: list[str]) -> None:
    async with connected("tools", words) as (_, client):
        tools = (await client.list_tools()).tools

        async def call(name: str, **arguments: str | int):
            result = await client.call_tool(name, arguments)
            if result.is_error:
                raise RuntimeError(f"{name}: {result.content}")
            return result

        async def read(uri: str) -> str:
            return (await call("read_resource", uri=uri)).structured_content["contents"][0]["text"]

        listed, more = [], {}
        while True:
            page = (await call("list_resources", **more)).structured_content
            listed += [resource["uri"] for resource in page["resources"]]
            if "nextCursor" not in page:
                break
            more = {"cursor": page["nextCursor"]}
        query = os.environ["WORDS"]
        while (searched := (await call("search_resources", query=query)).structured_content)["partial"]:
            await asyncio.sleep(0.05)
        found = [result["uri"] for result in searched["results"]]
        chosen = (await call("resource_context", query=query, budget=2000)).structured_content["passages"]
        uris = [passage.get("linesUri", passage["uri"]) for passage in chosen]
        passages = [
            {"uri": uri, "text": passage["text"], "read": await read(uri)} for uri, passage in zip(uris, chosen)
        ]
        summary = {
            "tools": [tool.name for tool in tools],
            "listed": listed,
            "found": found,
            "text": await read(found[0]),
            "passages": passages,
        }
    print(json.dumps(summary, ensure_ascii=False))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
