// Connects the programs beside it, by their command lines.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

export const STATELESS = "2026-07-28";

// Connects for `[--stateless] http URL` or `[--stateless] stdio COMMAND ARGUMENT…`: by `initialize`, with --stateless by the
// revision 2026-07-28.
export async function connect(name) {
  const words = process.argv.slice(2);
  const stateless = words[0] === "--stateless" && words.shift() !== undefined;
  const [transport, target, ...rest] = words;
  if (!["http", "stdio"].includes(transport) || target === undefined) {
    throw new Error(`usage: ${name}.mjs [--stateless] http URL | stdio COMMAND ARGUMENT…`);
  }
  const mode = stateless ? { pin: STATELESS } : "legacy";
  const client = new Client({ name, version: "0.1.0" }, { versionNegotiation: { mode } });
  const connection =
    transport === "http"
      ? new StreamableHTTPClientTransport(new URL(target))
      : new StdioClientTransport({ command: target, args: rest, env: process.env });
  await client.connect(connection);
  return { client, connection, transport, stateless };
}

// Runs a program, and prints an error if it fails.
export function run(main) {
  main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
}
