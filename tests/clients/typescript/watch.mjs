// Executes commands to subscribe and read with the official TypeScript SDK's client, and prints the notifications.
//
//   node watch.mjs [--stateless] [--as ACCOUNT] http URL
//   node watch.mjs [--stateless] stdio COMMAND ARGUMENT…
//
// Each line of standard input is a command. The output is a JSON object per line, as that of ../python/watch.py:
//
//   subscribe URI    { "subscribed": URI } when acknowledged; with --stateless, each has a stream of its own
//   unsubscribe URI  { "unsubscribed": URI } when answered
//   read URI         { "read": URI, "text": … }
//   list             { "listed": [URI, …] } of the first page
//
//   { "updated": URI }         the resource changed
//   { "listChanged": true }    the listing changed
//   { "ended": URI }           the server ended the stream of that resource (with --stateless)
//
// At the end of its input it disconnects and exits with code 0. Any failure goes to stderr with exit code 1.

import { createInterface } from "node:readline";
import { connect, run } from "./connect.mjs";

run(async () => {
  const { client, stateless, authorized } = await connect("watch");
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => say({ updated: params.uri }));
  client.setNotificationHandler("notifications/resources/list_changed", () => say({ listChanged: true }));
  const commands = { list, read, ...(stateless ? streams() : session) };
  try {
    for await (const line of createInterface({ input: process.stdin })) {
      const [command, uri] = line.split(" ");
      say(await authorized(() => commands[command](client, uri)));
    }
  } finally {
    await client.close();
  }
});

const session = {
  async subscribe(client, uri) {
    await client.subscribeResource({ uri });
    return { subscribed: uri };
  },
  async unsubscribe(client, uri) {
    await client.unsubscribeResource({ uri });
    return { unsubscribed: uri };
  },
};

// A stream for each resource.
function streams() {
  const open = new Map();
  return {
    async subscribe(client, uri) {
      const stream = await client.listen({ resourceSubscriptions: [uri], resourcesListChanged: true });
      open.set(uri, stream);
      stream.closed.then((by) => by === "local" || say({ ended: uri }));
      return { subscribed: uri };
    },
    async unsubscribe(_, uri) {
      await open.get(uri).close();
      return { unsubscribed: uri };
    },
  };
}

async function list(client) {
  const { resources } = await client.request({ method: "resources/list", params: {} });
  return { listed: resources.map((resource) => resource.uri) };
}

async function read(client, uri) {
  const { contents } = await client.readResource({ uri });
  return { read: uri, text: contents[0].text };
}

function say(what) {
  console.log(JSON.stringify(what));
}
