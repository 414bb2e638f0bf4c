// Subscribes as it is told to, with the official TypeScript SDK's client, and says what it is told.
//
//   node watch.mjs [--stateless] http URL
//   node watch.mjs [--stateless] stdio COMMAND ARGUMENT…
//
// Each line of standard input is a command. What it says is a JSON object a line, the same as ../python/watch.py says:
//
//   subscribe URI    { "subscribed": URI } once that was granted; with --stateless, each has a stream of its own
//   unsubscribe URI  { "unsubscribed": URI } once that was answered
//   read URI         { "read": URI, "text": … }
//
//   { "updated": URI }         the resource changed
//   { "listChanged": true }    what is listed changed
//
// At the end of its input it goes away in order, with exit code 0. Anything that fails goes to stderr with exit code 1.

import { createInterface } from "node:readline";
import { connect, run } from "./connect.mjs";

run(async () => {
  const { client, stateless } = await connect("watch");
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => say({ updated: params.uri }));
  client.setNotificationHandler("notifications/resources/list_changed", () => say({ listChanged: true }));
  const commands = { read, ...(stateless ? streams() : session) };
  try {
    for await (const line of createInterface({ input: process.stdin })) {
      const [command, uri] = line.split(" ");
      say(await commands[command](client, uri));
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
      open.set(uri, await client.listen({ resourceSubscriptions: [uri], resourcesListChanged: true }));
      return { subscribed: uri };
    },
    async unsubscribe(_, uri) {
      await open.get(uri).close();
      return { unsubscribed: uri };
    },
  };
}

async function read(client, uri) {
  const { contents } = await client.readResource({ uri });
  return { read: uri, text: contents[0].text };
}

function say(what) {
  console.log(JSON.stringify(what));
}
