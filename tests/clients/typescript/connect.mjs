// Connects the programs beside it, by their command lines.

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { HeadlessAuthorization } from "./oauth.mjs";

export const STATELESS = "2026-07-28";

// Connects for `[--stateless] [--as ACCOUNT] http URL` or `[--stateless] stdio COMMAND ARGUMENT…`: by `initialize`, with --stateless
// by the revision 2026-07-28; with --as it is authorized by OAuth as that account. `authorized` executes a request, with a new
// authorization if the server asks for one.
export async function connect(name) {
  const words = process.argv.slice(2);
  const stateless = words[0] === "--stateless" && words.shift() !== undefined;
  const account = words[0] === "--as" ? words.splice(0, 2)[1] : undefined;
  const [transport, target, ...rest] = words;
  if (!["http", "stdio"].includes(transport) || target === undefined) {
    throw new Error(`usage: ${name}.mjs [--stateless] [--as ACCOUNT] http URL | [--stateless] stdio COMMAND ARGUMENT…`);
  }
  const authProvider = account && new HeadlessAuthorization(account);
  const open = async () => {
    const mode = stateless ? { pin: STATELESS } : "legacy";
    const client = new Client({ name, version: "0.1.0" }, { versionNegotiation: { mode } });
    const connection =
      transport === "http"
        ? new StreamableHTTPClientTransport(new URL(target), { authProvider })
        : new StdioClientTransport({ command: target, args: rest, env: process.env });
    const authorized = (request) => authorize(request, connection, authProvider);
    try {
      await client.connect(connection);
    } catch (error) {
      if (!UnauthorizedError.isInstance(error)) throw error;
      await connection.finishAuth(authProvider.response);
      return open();
    }
    return { client, connection, transport, stateless, authorized };
  };
  return open();
}

async function authorize(request, connection, provider) {
  try {
    return await request();
  } catch (error) {
    if (!UnauthorizedError.isInstance(error)) throw error;
    await connection.finishAuth(provider.response);
    return request();
  }
}

// Runs a program, and prints an error if it fails.
export function run(main) {
  main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
}
