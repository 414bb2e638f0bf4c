// Texts of the API that are attacks.
//
// The answers are made from the schema of the API, so that a field that is new has them, too. A text that is in a list of its own has all
// payloads, one in each item; any other text has all of them, one behind the other.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { files, login, open, unharmed } from "./browser.mjs";
import { PAYLOADS } from "./payloads.mjs";

const ALL = PAYLOADS.join("\n");

/** A value of a schema. `at` is the place in the list that it is in; null outside of lists. */
function value(root, schema, at) {
  if (schema.$ref) {
    return value(root, root.$defs[schema.$ref.split("/").at(-1)], at);
  }
  const choices = (schema.anyOf ?? schema.oneOf)?.filter(({ type }) => type !== "null");
  if (choices) {
    return value(root, choices[(at ?? 0) % choices.length], at);
  }
  if (schema.const !== undefined) {
    return schema.const;
  }
  if (schema.enum) {
    return schema.enum[(at ?? 0) % schema.enum.length];
  }
  const types = [schema.type].flat().filter((type) => type !== "null");
  const text = at === null ? ALL : PAYLOADS[at];
  switch (types[0]) {
    case "string":
      return text;
    case "boolean":
      return true;
    case "integer":
      return 1;
    case "number":
      return 0.5;
    case "array":
      if (schema.prefixItems) {
        return schema.prefixItems.map((item) => value(root, item, at));
      }
      return at === null ? PAYLOADS.map((_, at) => value(root, schema.items, at)) : [value(root, schema.items, at)];
    case "object": {
      const members = Object.entries(schema.properties ?? {}).map(([name, member]) => [name, value(root, member, at)]);
      const names = schema.additionalProperties ? (at === null ? PAYLOADS : [text]) : [];
      const others = names.map((name, index) => [name, value(root, schema.additionalProperties, at ?? index)]);
      return Object.fromEntries([...members, ...others]);
    }
    default:
      throw new Error(`there is no value of ${JSON.stringify(schema)}`);
  }
}

/** The answer to a request: `GET status`. Each list is whole. */
function answer(root, request) {
  const [method, path] = request.split(" ");
  let schema = root.properties[`${method} /api/v1/${path}`];
  assert.ok(schema, `the API has ${request}`);
  const ref = (schema.anyOf ?? [schema])[0].$ref;
  if (method === "POST") {
    schema = root.$defs[ref.split("/").at(-1)].properties.answer;
  }
  const made = value(root, schema, null);
  return "next" in made ? { ...made, next: null } : made;
}

/** The contents of a resource, as texts of a MIME type. */
function contents({ contents, ...rest }, type) {
  return { ...rest, contents: contents.map((one) => ({ ...one, blob: null, resource: { ...one.resource, mime_type: type } })) };
}

/** A line of the audit log, or an update. */
function event(text) {
  const names = ["time", "principal", "operation", "uri", "plugin", "decision", "rule", "glob", "outcome", "administrator"];
  return { ...Object.fromEntries(names.map((name) => [name, text])), bytes: 1, duration_ms: 1 };
}

/** Looks at all rows of a table, of which only those in view are elements. */
async function scrollThrough(page, table, where) {
  const rows = table.locator("tbody tr[aria-rowindex]");
  await rows.first().waitFor();
  let last = 0;
  for (let isEnd = false; !isEnd; ) {
    isEnd = await table.evaluate(async (table) => {
      const wasAt = table.scrollTop;
      table.scrollBy(0, table.clientHeight);
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return table.scrollTop === wasAt;
    });
    await unharmed(page, where);
    last = Math.max(...(await rows.evaluateAll((rows) => rows.map((row) => Number(row.ariaRowIndex)))));
  }
  // The head is the first. A stream that has ended is opened again, and has all once more.
  assert.ok(last > PAYLOADS.length, `${where}: ${last} rows`);
}

/** Every text of every answer is hostile. FILES is a file with the schema of the API. */
export async function hostile() {
  const schema = JSON.parse(readFileSync(files, "utf8"));
  const page = await open();
  await login(page);
  const get = ["status", "config", "subscriptions", "plugins", "config/changes", "config/warnings"];
  const post = ["browse/list", "browse/templates", "browse/complete", "browse/search", "browse/context", "explain/who", "explain"];
  const answers = {
    session: { principal: ALL, administrator: true },
    "plugins/first": answer(schema, "GET plugins/NAME"),
    ...Object.fromEntries(get.map((path) => [path, answer(schema, `GET ${path}`)])),
    ...Object.fromEntries(post.map((path) => [path, answer(schema, `POST ${path}`)])),
  };
  // They say which part of a page is shown.
  answers.explain.allowed = false;
  answers.status.plugins.next = null;
  let [type, unusual] = ["text/markdown", null];
  await page.route("**/api/v1/**", async (route) => {
    const name = new URL(route.request().url()).pathname.slice("/api/v1/".length);
    if (name === "audit" || name === "updates") {
      const events = PAYLOADS.map((text) => `event: ${name === "audit" ? "audit" : "update"}\ndata: ${JSON.stringify(event(text))}\n\n`);
      await route.fulfill({ contentType: "text/event-stream", body: events.join("") });
    } else if (name === "browse/read") {
      const json = contents(answer(schema, "POST browse/read"), type);
      await route.fulfill({ json: unusual === null ? json : { ...json, contents: [{ ...json.contents[0], text: unusual, cut: false }] } });
    } else if (name in answers) {
      await route.fulfill({ json: answers[name] });
    } else {
      await route.fulfill({ status: 400, json: { error: PAYLOADS.join(" "), help: PAYLOADS.join(" ") } });
    }
  });
  const go = async (hash, shown) => {
    await page.evaluate((hash) => (location.hash = hash), hash);
    await page.locator(shown).first().waitFor();
    await unharmed(page, hash);
  };
  // A plugin in each state, with a preparation in each of its own.
  const { status } = answers["plugins/first"];
  const states = schema.$defs.PluginState.oneOf.map((_, at) => ({ ...value(schema, schema.$defs.PluginState, at) }));
  for (const [at, state] of ["off", "waiting", "running", "done", "failing", "stopped", ALL].entries()) {
    answers["plugins/first"].status = { ...status, state: states[at % states.length], preparation: { ...status.preparation, state } };
    await go("#/plugins", ".plugins");
    await go("#/plugins/first", ".details .sparkline canvas");
  }
  await page.getByRole("button", { name: "Reset" }).click();
  await page.locator(".details .problem p").waitFor();
  await go("#/live", "td.uri");
  for (const name of ["Lines of the audit log", "Table of updates", "Table of subscriptions"]) {
    await scrollThrough(page, page.getByRole("region", { name }), name);
  }
  await go("#/config", "h2");
  await go("#/context", "form");
  await page.getByRole("button", { name: "Choose passages" }).click();
  await page.locator(".hits li").nth(59).waitFor();
  await unharmed(page, "context");
  await go("#/view-as", "[role=treeitem]");
  await page.getByLabel("URI", { exact: true }).fill("notes:///x");
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await page.getByText("denied").waitFor();
  await unharmed(page, "explain");
  await page.getByRole("button", { name: "Who may?" }).click();
  await page.getByRole("region", { name: "Table of who may" }).getByRole("row").nth(60).waitFor();
  await unharmed(page, "who may");
  for (type of ["text/markdown", "text/html", "image/svg+xml", "application/json", "text/csv", "text/plain", "text/x-rust", "text/javascript"]) {
    await go(`#/resources/${encodeURIComponent(`notes:///${type}`)}`, ".content");
    await page.locator(".content").nth(59).locator(".markdown, .code, table").waitFor();
    // What is shown can be clicked.
    for (const link of await page.locator(".markdown button.link:enabled").all()) {
      assert.doesNotMatch(await link.getAttribute("title"), /^\s*(javascript|data|vbscript):/i);
    }
    await unharmed(page, type);
  }
  // What is nested too deeply, or has too many columns or elements, is shown as text, and soon.
  const names = Array.from({ length: 20_000 }, (_, at) => `k${at}`);
  const texts = [
    ["text/markdown", "> ".repeat(20_000), "> > > >"],
    ["application/json", `[${names.map((name) => `{"${name}":1}`)}]`, "k19999"],
    ["text/csv", `${names}\n1`, "k19999"],
    ["text/x-yaml", "- ".repeat(90_000), "- - - -"],
  ];
  let shown;
  for ([type, unusual, shown] of texts) {
    await go(`#/resources/${encodeURIComponent(`notes:///unusual/${type}`)}`, ".content .source, .content .markdown");
    await page.locator(".content").getByText(shown).first().waitFor();
    await unharmed(page, type);
  }
  unusual = null;
  await page.getByRole("button", { name: "Templates", exact: true }).click();
  await page.locator("form.template").nth(59).waitFor();
  await page.locator("form.template input").first().fill("x");
  await unharmed(page, "templates");
  await page.getByRole("button", { name: "Search", exact: true }).first().click();
  await page.getByLabel("Words").fill("x");
  await page.getByLabel("Words").press("Enter");
  await page.locator(".hits li").nth(59).waitFor();
  await unharmed(page, "search");
}
