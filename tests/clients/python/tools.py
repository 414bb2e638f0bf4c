"""What a client that knows only tools does, with the official Python SDK's client: it searches, and reads what it finds.

    python tools.py [--stateless] http URL
    python tools.py [--stateless] stdio COMMAND ARGUMENT…

The environment has the words in WORDS. On success it prints one line of JSON, as ../typescript/tools.mjs does: the names of the
tools, the URIs of the results, and the text of the first one. The SDK checks structured content against the output schemas.
"""

import asyncio
import json
import os
import sys

from connect import connected


async def main(words: list[str]) -> None:
    async with connected("tools", words) as (_, client):
        tools = (await client.list_tools()).tools
        searched = await client.call_tool("search_resources", {"query": os.environ["WORDS"]})
        found = [result["uri"] for result in searched.structured_content["results"]]
        read = await client.call_tool("read_resource", {"uri": found[0]})
        summary = {"tools": [tool.name for tool in tools], "found": found, "text": read.content[0].text}
    print(json.dumps(summary, ensure_ascii=False))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
