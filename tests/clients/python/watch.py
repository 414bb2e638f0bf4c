"""Executes commands to subscribe and read with the official Python SDK's client, and prints the notifications.

    python watch.py [--stateless] [--as ACCOUNT] http URL
    python watch.py [--stateless] stdio COMMAND ARGUMENT…

Its commands and its output are those of ../typescript/watch.mjs, which describes them. At the end of its input it disconnects
and exits with code 0. Anything that fails goes to stderr with exit code 1.
"""

import asyncio
import json
import sys
import warnings
from contextlib import AsyncExitStack

from connect import connected
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated, Subscription, SubscriptionLost
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification

# The SDK warns that these were removed in 2026-07-28: here they are sent only in revisions that have them.
warnings.filterwarnings("ignore", message="resources/(un)?subscribe is removed")


def say(**what: object) -> None:
    print(json.dumps(what, ensure_ascii=False), flush=True)


class Session:
    """Subscribes in the session, which is notified outside of any response."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def subscribe(self, uri: str) -> None:
        await self.client.subscribe_resource(uri)

    async def unsubscribe(self, uri: str) -> None:
        await self.client.unsubscribe_resource(uri)


class Streams:
    """Opens a stream for each resource."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.open: dict[str, tuple[AsyncExitStack, asyncio.Task]] = {}

    async def subscribe(self, uri: str) -> None:
        if uri in self.open:
            # It has ended.
            await self.unsubscribe(uri)
        stack = AsyncExitStack()
        listening = self.client.listen(resource_subscriptions=[uri], resources_list_changed=True)
        stream = await stack.enter_async_context(listening)
        self.open[uri] = stack, asyncio.create_task(self.follow(uri, stream))

    async def unsubscribe(self, uri: str) -> None:
        stack, following = self.open.pop(uri)
        await stack.aclose()
        await following

    async def follow(self, uri: str, stream: Subscription) -> None:
        try:
            async for event in stream:
                if isinstance(event, ResourceUpdated):
                    say(updated=event.uri)
                else:
                    say(listChanged=True)
        except SubscriptionLost:
            # It was cut off, without its result.
            pass
        if uri in self.open:
            say(ended=uri)


async def tell(message: object) -> None:
    match message:
        case Exception():
            raise message
        case ResourceUpdatedNotification():
            say(updated=message.params.uri)
        case ResourceListChangedNotification():
            say(listChanged=True)


async def main(words: list[str]) -> None:
    stateless = words[:1] == ["--stateless"]
    # A stream prints its notifications itself.
    options = {} if stateless else {"message_handler": tell}
    async with connected("watch", words, **options) as (_, client):
        watching = Streams(client) if stateless else Session(client)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            match line.split(" "):
                case ["subscribe", uri]:
                    await watching.subscribe(uri)
                    say(subscribed=uri)
                case ["unsubscribe", uri]:
                    await watching.unsubscribe(uri)
                    say(unsubscribed=uri)
                case ["list"]:
                    result = await client.list_resources()
                    say(listed=[resource.uri for resource in result.resources])
                case ["read", uri]:
                    result = await client.read_resource(uri)
                    say(read=uri, text=result.contents[0].text)
                case _:
                    raise SystemExit(f"no command: {line}")
        for uri in list(getattr(watching, "open", ())):
            await watching.unsubscribe(uri)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
