// What a client that knows only tools does, with the official TypeScript SDK's client: it searches, and reads what it finds.
//
//   node tools.mjs [--stateless] http URL
//   node tools.mjs [--stateless] stdio COMMAND ARGUMENT…
//
// The environment has the words in WORDS. On success it prints one line of JSON, as ../python/tools.py does: the names of the
// tools, the URIs of the results, and the text of the first one. The SDK checks structured content against the output schemas.

import { connect, run } from "./connect.mjs";

run(async () => {
  const { client } = await connect("tools");
  try {
    const { tools } = await client.listTools();
    const query = { name: "search_resources", arguments: { query: process.env.WORDS } };
    const { results } = (await client.callTool(query)).structuredContent;
    const read = await client.callTool({ name: "read_resource", arguments: { uri: results[0].uri } });
    const summary = {
      tools: tools.map((tool) => tool.name),
      found: results.map((result) => result.uri),
      text: read.content[0].text,
    };
    console.log(JSON.stringify(summary));
  } finally {
    await client.close();
  }
});
