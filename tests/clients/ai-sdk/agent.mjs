// What an agent of the AI SDK sends to a model of a tool's result: as ../frameworks/framework.py, with the same arguments but FRAMEWORK.
//
//     node agent.mjs TOOL ARGUMENTS COMMAND ARGUMENT…

import { createServer } from "node:http";
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs } from "ai";

const [tool, args, command, ...rest] = process.argv.slice(2);
let sent;

const model = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  const results = JSON.parse(body).messages.filter((message) => message.role === "tool");
  if (results.length) sent = results[0].content;
  const call = { id: "call-1", type: "function", function: { name: tool, arguments: args } };
  const message = results.length
    ? { role: "assistant", content: "done" }
    : { role: "assistant", content: null, tool_calls: [call] };
  const finish_reason = results.length ? "stop" : "tool_calls";
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const choices = [{ index: 0, message, finish_reason }];
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: "m", choices, usage }));
});
await new Promise((listening) => model.listen(0, "127.0.0.1", listening));

let outcome;
try {
  const client = await createMCPClient({ transport: new Experimental_StdioMCPTransport({ command, args: rest }) });
  const openai = createOpenAI({ baseURL: `http://127.0.0.1:${model.address().port}/v1`, apiKey: "none" });
  const tools = await client.tools();
  await generateText({
    model: openai.chat("m"), tools, stopWhen: stepCountIs(3), prompt: "What is there?", maxRetries: 0,
  });
  await client.close();
  outcome = { sent };
} catch (error) {
  outcome = { error: `${error.name}: ${error.message}` };
}
console.log(JSON.stringify(outcome));
process.exit(0);
