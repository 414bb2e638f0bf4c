// One full pass over an MCP server with the official TypeScript SDK's client.
//
//   node walk.mjs [--stateless] [--as ACCOUNT] http URL
//   node walk.mjs [--stateless] stdio COMMAND ARGUMENT…
//
// It connects (by `initialize`; with --stateless by the revision 2026-07-28), pings where the revision has a ping, walks all pages
// of the resources and of the templates, reads one text and one blob, completes an argument of a template, and reads an
// unknown resource. On success it prints one line of JSON, as ../python/walk.py does, and exits with code 0:
//
//   client, sdk          "typescript" and the version of the SDK
//   transport, revision  "http" or "stdio", and the protocol revision agreed on
//   server               { name, version }
//   pinged               whether the revision has a ping (which was answered)
//   pages, resources     the number of pages of the listing, and all URIs in order
//   templates            the URI templates of all pages in order
//   text, blob           { uri, mimeType, size } of the resource, the size in bytes after decoding; null if there is none
//   completion           { template, argument, values } of the first variable that gives any values for ""; null if none does
//   unknown              { uri, code } of the read of an unknown resource
//
// Any unexpected answer, such as a wrong error code, goes to stderr with exit code 1.

import { readFile } from "node:fs/promises";
import { ResourceNotFoundError } from "@modelcontextprotocol/client";
import { STATELESS, connect, run } from "./connect.mjs";

// The maximum number of resources that are read to find a text and a blob.
const MOST_READS = 40;

run(async () => {
  const { client, connection, transport } = await connect("walk");
  try {
    const codes = errorCodes(connection);
    const summary = { client: "typescript", sdk: await sdkVersion(), transport, ...(await walk(client, codes)) };
    console.log(JSON.stringify(summary));
  } finally {
    await client.close();
  }
});

// Records the codes of all errors on the wire: the SDK maps all codes for unknown resources to one.
function errorCodes(connection) {
  const codes = [];
  const hear = connection.onmessage;
  connection.onmessage = (message, ...rest) => {
    if (message.error) codes.push(message.error.code);
    return hear.call(connection, message, ...rest);
  };
  return codes;
}

async function walk(client, codes) {
  const revision = client.getNegotiatedProtocolVersion();
  const { name, version } = client.getServerVersion() ?? {};
  const pinged = revision < STATELESS;
  if (pinged) await client.ping();

  const listing = await pages(client, "resources/list", "resources");
  const templates = await pages(client, "resources/templates/list", "resourceTemplates");
  return {
    revision,
    server: { name, version },
    pinged,
    pages: listing.pages,
    resources: listing.items.map((resource) => resource.uri),
    templates: templates.items.map((template) => template.uriTemplate),
    ...(await read(client, listing.items)),
    completion: await complete(client, templates.items),
    unknown: await unknown(client, codes, listing.items, revision),
  };
}

// Returns all pages of a listing. The SDK's own methods merge them without their number.
async function pages(client, method, key) {
  const items = [];
  let count = 0;
  let cursor;
  do {
    const page = await client.request({ method, params: cursor === undefined ? {} : { cursor } });
    items.push(...page[key]);
    count += 1;
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return { items, pages: count };
}

// Reads one text and one blob, the resources with likely MIME types first.
async function read(client, resources) {
  const found = { text: null, blob: null };
  const of = (kinds) => resources.filter(({ mimeType }) => kinds.test(mimeType ?? ""));
  const binary = of(/^(image|audio|video|font)\/|^application\/(octet-stream|pdf|zip|gzip|wasm)$/);
  const likely = [...of(/^text\//).slice(0, 1), ...binary, ...resources];
  for (const resource of likely.slice(0, MOST_READS)) {
    if (found.text && found.blob) break;
    const { contents } = await client.readResource({ uri: resource.uri });
    if (contents.length === 0) throw new Error(`${resource.uri} has no contents`);
    for (const { uri, mimeType, text, blob } of contents) {
      if (text !== undefined) found.text ??= { uri, mimeType, size: Buffer.byteLength(text) };
      if (blob !== undefined) found.blob ??= { uri, mimeType, size: Buffer.from(blob, "base64").length };
    }
  }
  return found;
}

async function complete(client, templates) {
  for (const { uriTemplate } of templates) {
    for (const name of variables(uriTemplate)) {
      const { completion } = await client.complete({
        ref: { type: "ref/resource", uri: uriTemplate },
        argument: { name, value: "" },
      });
      if (completion.values.length > 0) {
        return { template: uriTemplate, argument: name, values: completion.values };
      }
    }
  }
  return null;
}

// Returns the variables of an RFC 6570 template.
function variables(template) {
  const expressions = [...template.matchAll(/\{[+#./;?&]?([^}]*)\}/g)];
  return expressions.flatMap(([, names]) => names.split(",").map((name) => name.replace(/(\*|:\d+)$/, "")));
}

// Reads an unknown resource: the error is -32002 in the session-based revisions and -32602 since.
async function unknown(client, codes, resources, revision) {
  const uri = `${resources[0]?.uri ?? "nothing:///"}.no-such-resource`;
  const expected = revision < STATELESS ? -32002 : -32602;
  try {
    await client.readResource({ uri });
  } catch (error) {
    const code = codes.at(-1);
    if (ResourceNotFoundError.isInstance(error) && code === expected) return { uri, code };
    throw new Error(`reading ${uri} should fail with ${expected}, found ${code}: ${error.message}`);
  }
  throw new Error(`reading ${uri} should fail with ${expected}, and succeeded`);
}

async function sdkVersion() {
  const manifest = new URL("node_modules/@modelcontextprotocol/client/package.json", import.meta.url);
  return JSON.parse(await readFile(manifest, "utf8")).version;
}
