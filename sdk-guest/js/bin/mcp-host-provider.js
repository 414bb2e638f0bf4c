#!/usr/bin/env node
// The command `mcp-host-provider build src/app.ts -o app.wasm`.

import { basename } from "node:path";
import { parseArgs } from "node:util";

import { build, BuildError, version } from "../src/build.js";

const USAGE = `Builds providers for mcp-host.

usage: mcp-host-provider build APP.js|APP.ts [-o APP.wasm]

The module's default export is a class that extends Provider.`;

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      output: { type: "string", short: "o" },
      help: { type: "boolean", short: "h" },
      version: { type: "boolean", short: "V" },
    },
  });
  if (values.version) return console.log(await version());
  if (values.help) return console.log(USAGE);
  const [command, source, ...more] = positionals;
  if (command !== "build" || source === undefined || more.length > 0) throw new BuildError(USAGE);
  const output = values.output ?? basename(source).replace(/\.\w+$/, ".wasm");
  const size = await build(source, output);
  console.error(`built ${output} (${(size / 1e6).toFixed(1)} MB)`);
}

main().catch((error) => {
  const isExpected = error instanceof BuildError || error.code?.startsWith("ERR_PARSE_ARGS");
  console.error(isExpected ? `error: ${error.message}` : error);
  process.exitCode = 1;
});
