// What a client that knows only tools does, with the official TypeScript SDK's client: it lists, searches, and reads what it
// finds.
//
//   node tools.mjs [--stateless] http URL
//   node tools.mjs [--stateless] stdio COMMAND ARGUMENT…
//
// The environment has the words in WORDS. On success it prints one line of JSON, as ../python/tools.py does: the names of the
// tools, the URIs that are listed, those that a search finds, the text of the first of them, and the passages of a selection,
// each with its URI, its text, and what that URI reads as. A search that is partial is repeated. The SDK checks structured
// content against the output schemas.

import { setTimeout } from "node:timers/promises";

import { connect, run } from "./connect.mjs";

run(async () => {
  const { client } = await connect("tools");
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    if (result.isError) throw new Error(`${name}: ${JSON.stringify(result.content)}`);
    return result.structuredContent;
  };
  const read = async (uri) => (await call("read_resource", { uri })).contents[0].text;
  try {
    const { tools } = await client.listTools();
    const listed = [];
    for (let page = {}; page; ) {
      const { resources, nextCursor } = await call("list_resources", page);
      listed.push(...resources.map((resource) => resource.uri));
      page = nextCursor && { cursor: nextCursor };
    }
    const query = process.env.WORDS;
    let searched;
    while ((searched = await call("search_resources", { query })).partial) await setTimeout(50);
    const found = searched.results.map((result) => result.uri);
    const passages = [];
    for (const passage of (await call("resource_context", { query, budget: 2000 })).passages) {
      const uri = passage.linesUri ?? passage.uri;
      passages.push({ uri, text: passage.text, read: await read(uri) });
    }
    const names = tools.map((tool) => tool.name);
    console.log(JSON.stringify({ tools: names, listed, found, text: await read(found[0]), passages }));
  } finally {
    await client.close();
  }
});
