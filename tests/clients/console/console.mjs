// Drives the console in a browser: `node console.mjs PART ADDRESS TOKEN FOLDER`. Fails by an exit code with the reason on standard error.
//
// FOLDER is where pictures are written. A part is a function of `PARTS`. Every page is checked by axe, and whatever it is fed: no dialog
// opens, no script of a text runs, and nothing is loaded from elsewhere.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { PAYLOADS } from "./payloads.mjs";

const [part, address, token, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Other tests use the processors as well. */
const TIMEOUT = 120_000;

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

/** The answers to the steps that the test does. */
let answers = null;

/** Has the test do something to the server. */
async function step(name) {
  answers ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log(`step ${name}`);
  const { done } = await answers.next();
  assert.ok(!done, `the test does not know ${name}`);
}

/** What went wrong in the browser. */
const faults = [];

async function open({ language = "en-GB", scheme = "light", width = 1280, height = 900 } = {}) {
  const context = await browser.newContext({ locale: language, colorScheme: scheme, viewport: { width, height } });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT);
  page.on("dialog", (dialog) => {
    faults.push(`a dialog opened: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("pageerror", (error) => faults.push(`a script failed: ${error.stack}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) {
      faults.push(`the browser reports: ${message.text()}`);
    }
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "blob:" && url.origin !== new URL(address).origin) {
      faults.push(`something is loaded from ${url}`);
    }
  });
  return page;
}

async function login(page, hash = "") {
  await page.goto(`${address}/`);
  await page.getByLabel("Token", { exact: true }).fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation").waitFor();
  if (hash) {
    await page.evaluate((hash) => (location.hash = hash), hash);
  }
}

/** Checks the accessibility of what is shown: WCAG 2.2 AA. */
async function accessible(page, where) {
  // The policy of the page allows no script of ours but by the driver.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }),
  );
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(found, [], where);
}

async function picture(page, name) {
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** Fails if the page was loaded again since this was called first. */
async function marked(page) {
  const isMarked = await page.evaluate(() => {
    const was = globalThis.isMarked === true;
    globalThis.isMarked = true;
    return was;
  });
  return isMarked;
}

/** Moves the focus by the keyboard until it is on what a selector matches. */
async function tabTo(page, selector, key = "Tab") {
  for (let pressed = 0; pressed < 60; pressed += 1) {
    await page.keyboard.press(key);
    if (await page.evaluate((selector) => document.activeElement?.matches(selector) ?? false, selector)) {
      // Whoever uses the keyboard sees where the focus is.
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.notEqual(outline, "none", `the focus on ${selector} is seen`);
      return;
    }
  }
  assert.fail(`the key ${key} does not lead to ${selector}`);
}

/** Checks that nothing of a text became an element that loads, runs or leads elsewhere. */
async function unharmed(page, where) {
  const found = await page.evaluate(() =>
    [...document.querySelectorAll("*")]
      .filter((element) => {
        const names = element.getAttributeNames();
        const address = element.getAttribute("href") ?? element.getAttribute("src") ?? "";
        return (
          names.some((name) => name.startsWith("on") || name === "style" && element.tagName === "X") ||
          /^\s*(javascript|data|vbscript):/i.test(address) ||
          ["IFRAME", "OBJECT", "EMBED", "BASE", "VIDEO", "AUDIO", "SVG", "MATH", "STYLE"].includes(element.tagName.toUpperCase()) ||
          (["SCRIPT", "LINK"].includes(element.tagName) && !["/console.js", "/console.css", "/icon.svg"].includes(address)) ||
          (element.tagName === "IMG" && !address.startsWith("blob:"))
        );
      })
      .map((element) => element.outerHTML.slice(0, 200)),
  );
  assert.deepEqual(found, [], where);
  assert.deepEqual(faults, [], where);
}

const PARTS = {
  /** ADDRESS has the code. */
  async code() {
    const page = await open();
    await page.goto(address);
    await page.getByRole("navigation").waitFor();
    assert.equal(new URL(page.url()).hash.includes("code"), false, "the code is not in the history");
    // The session lasts beyond a reload of the page; the code does not.
    await page.reload();
    await page.getByRole("navigation").waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await page.goto("about:blank");
    await page.goto(address);
    await page.getByText("the code has expired, or was used already").waitFor();
  },

  async login() {
    const page = await open();
    await page.goto(`${address}/`);
    await accessible(page, "the login");
    await page.getByLabel("Token", { exact: true }).fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("this is not the token of the server").waitFor();
    await login(page);
    const cookies = await page.context().cookies();
    assert.deepEqual(
      cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })),
      [{ httpOnly: true, sameSite: "Strict" }],
    );
    assert.equal(await page.evaluate(() => document.cookie), "");
  },

  async plugins() {
    const page = await open();
    await login(page, "#/plugins");
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: "sample", exact: true }) });
    await row.getByText("ready").waitFor();
    const broken = page.getByRole("row").filter({ has: page.getByRole("link", { name: "broken", exact: true }) });
    await broken.getByText("failed").waitFor();
    await accessible(page, "plugins");
    await broken.getByRole("link").click();
    await page.getByRole("heading", { name: "broken" }).waitFor();
    await page.locator("pre.problem").waitFor();
    await page.locator("dl").getByText("failed (not-a-component)").waitFor();
    await row.getByRole("link").press("Enter");
    await page.getByRole("heading", { name: "sample" }).waitFor();
    await page.locator(".sparkline canvas").first().waitFor();
    await accessible(page, "a plugin");
    await picture(page, "plugins-light");
    await page.getByRole("button", { name: "Disable" }).press("Enter");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Disable" }).press("Enter");
    await page.getByRole("button", { name: "Disable sample for all clients" }).press("Enter");
    await row.getByText("disabled").waitFor();
    await page.getByText("Disabled by admin/token").waitFor();
    await page.getByRole("button", { name: "Enable" }).click();
    await row.getByText("ready").waitFor();
    await page.getByRole("button", { name: "Reset" }).click();
    await page.getByText("Reset.").waitFor();
    await page.getByRole("searchbox").fill("no such plugin");
    await page.getByText("No plugin matches.").waitFor();
  },

  async live() {
    const page = await open();
    await login(page, "#/live");
    await page.getByText("Following the audit log").waitFor();
    const actor = await open();
    await login(actor, "#/plugins/sample");
    await actor.getByRole("button", { name: "Reset" }).click();
    await page.getByRole("cell", { name: "admin-reset" }).first().waitFor();
    await accessible(page, "live");
    await picture(page, "live-light");
    await page.getByLabel("Operation").selectOption("admin-disable");
    await page.getByText("Following the audit log").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByText("No line yet.").waitFor();
    await actor.getByRole("button", { name: "Reset" }).click();
    await actor.getByText("Reset.").waitFor();
    await actor.getByRole("button", { name: "Disable" }).click();
    await actor.getByRole("button", { name: /^Disable .* for all clients$/ }).press("Enter");
    await page.getByRole("cell", { name: "admin-disable" }).waitFor();
    assert.equal(await page.getByRole("cell", { name: "admin-reset" }).count(), 0);
    await actor.getByRole("button", { name: "Enable" }).click();
    await actor.getByText("Enabled.").waitFor();
  },

  async config() {
    const page = await open();
    await login(page, "#/config");
    await page.getByRole("heading", { name: "Access rules" }).waitFor();
    await page.getByRole("region", { name: "Warnings" }).getByText("nothing.md").waitFor();
    await accessible(page, "config");
    await picture(page, "config-light");
    await page.getByRole("button", { name: "Reload", exact: true }).click();
    await page.getByText("Nothing has changed.").waitFor();
    await page.getByLabel("Another filter").fill("debug");
    await page.getByRole("button", { name: "Set" }).click();
    await page.getByRole("button", { name: "Restore" }).click();
    await page.getByRole("button", { name: "Restore" }).waitFor({ state: "detached" });
  },

  /** ADDRESS serves `plan.md`, `table.csv`, `data.json`, `dot.gif`, `main.rs`, and `secret.txt`, which `anonymous` may not read. */
  async resources() {
    const page = await open();
    await login(page, "#/resources");
    const tree = page.getByRole("tree");
    await tree.getByText("plan.md").first().waitFor();
    await accessible(page, "resources");
    // By keyboard alone.
    await tree.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Home");
    // The first row is the mount, which closes and opens.
    const mount = tree.getByRole("treeitem", { name: "files://" }).first();
    await page.keyboard.press("Enter");
    await tree.getByText("plan.md").first().waitFor({ state: "detached" });
    assert.equal(await mount.getAttribute("aria-expanded"), "false");
    await page.keyboard.press("ArrowRight");
    await tree.getByText("plan.md").first().waitFor();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /^files:.*data\.json$/ }).waitFor();
    await tree.getByRole("treeitem", { name: "plan.md" }).click();
    const preview = page.getByRole("region", { name: "Preview" });
    await preview.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    assert.equal(await preview.locator(".markdown strong").textContent(), "breaker");
    assert.equal(await preview.locator("img").count(), 0, "images of Markdown are not loaded");
    await accessible(page, "Markdown");
    await picture(page, "resources-light");
    await preview.getByRole("button", { name: "Source" }).click();
    await preview.getByText("**breaker**").waitFor();
    await preview.getByRole("button", { name: "Copy the URI" }).click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^files:.*\/plan\.md$/);
    for (const [name, shown] of [
      ["table.csv", "table th:has-text('city')"],
      ["data.json", ".hljs-attr"],
      ["load.csv", ".time-chart canvas"],
      ["rows.json", "table th:has-text('people')"],
      ["query.json", "table th:has-text('town')"],
      ["dot.gif", "img.picture"],
      ["main.rs", ".hljs-keyword"],
    ]) {
      await page.getByLabel("Filter by name").fill(name);
      await tree.getByRole("treeitem", { name }).first().click();
      await preview.locator(shown).first().waitFor();
      await accessible(page, name);
    }
    // The text of a PDF file, and the file itself.
    await page.getByLabel("Filter by name").fill("hello.pdf");
    await tree.getByRole("treeitem", { name: "hello.pdf" }).first().click();
    await preview.getByText("Hello world").waitFor();
    await preview.getByRole("link", { name: "Save" }).waitFor();
    await preview.getByText(/^Binary: application\/pdf, /).waitFor();
    await preview.getByRole("button", { name: "Who may read this?" }).click();
    await preview.getByRole("region", { name: "Table of who may" }).getByRole("row", { name: "local" }).waitFor();
    await accessible(page, "who may read it");
    // The filter looks at what the resources of a plugin do not have in common.
    await page.getByLabel("Filter by name").fill("files");
    await page.getByText(/, 0 match$/).waitFor();
    await page.getByRole("button", { name: "Search", exact: true }).first().click();
    await page.getByLabel("Words").fill("breaker");
    await page.getByLabel("Words").press("Enter");
    await page.locator("mark").first().waitFor();
    await accessible(page, "search");
    await page.getByRole("button", { name: "Templates", exact: true }).click();
    await page.locator("form.template").first().waitFor();
    await accessible(page, "templates");
  },

  /** On a narrow screen what is chosen comes into view, and the list is one button away. */
  async narrow() {
    const page = await open({ width: 360, height: 740 });
    await login(page, "#/resources");
    await page.getByRole("treeitem", { name: "plan.md" }).click();
    await page.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    const preview = page.getByRole("region", { name: "Preview" });
    const top = () => preview.evaluate((section) => section.getBoundingClientRect().top);
    assert.ok((await top()) < 200, `the preview begins at ${await top()} px`);
    await accessible(page, "a narrow screen");
    await page.getByRole("button", { name: "Back to the list" }).click();
    assert.ok((await top()) > 300, "the list is in view again");
  },

  /** TOKEN is that of a client, who may read `plan.md` and not `secret.txt`. */
  async user() {
    const page = await open();
    await login(page);
    await page.getByText("alice").waitFor();
    const tree = page.getByRole("tree");
    await tree.getByRole("treeitem", { name: "plan.md" }).click();
    await page.locator(".markdown").getByText("The plan").waitFor();
    assert.equal(await tree.getByText("secret.txt").count(), 0);
    assert.deepEqual(await page.getByRole("navigation").getByRole("link").allTextContents(), ["Resources", "Context"]);
    await accessible(page, "a client's view");
    await page.reload();
    await tree.getByRole("treeitem", { name: "plan.md" }).waitFor();
  },

  async context() {
    const page = await open();
    await login(page, "#/context");
    await page.getByLabel("Question").fill("breaker");
    await page.getByRole("button", { name: "Choose passages" }).click();
    await page.locator(".hits li").first().waitFor();
    await accessible(page, "context");
    await picture(page, "context-light");
  },

  async view_as() {
    const page = await open();
    await login(page, "#/view-as");
    const [one, other] = [page.getByRole("region", { name: "One principal" }), page.getByRole("region", { name: "Another principal" })];
    await one.getByText("secret.txt").waitFor();
    await other.getByText("plan.md").waitFor();
    assert.equal(await other.getByText("secret.txt").count(), 0);
    const secret = one.getByRole("treeitem", { name: "secret.txt" });
    const uri = await secret.getAttribute("title");
    await secret.click();
    await one.getByText("hidden words").first().waitFor();
    await other.getByText(`there is no resource ${uri}`).waitFor();
    await page.getByRole("button", { name: "Explain", exact: true }).click();
    await page.getByText(`read of ${uri} by anonymous`).waitFor();
    await page.getByText("deny **/secret*").waitFor();
    await accessible(page, "view as");
    await picture(page, "view-as-light");
  },

  /** A catalog of 100,000 resources: few rows are elements, and a filter finds what is on a page that was not loaded. */
  async many() {
    const page = await open();
    const total = 100_000;
    await page.route("**/api/v1/browse/list", async (route) => {
      const { cursor, limit } = route.request().postDataJSON();
      const from = Number(cursor ?? 0);
      const items = Array.from({ length: Math.min(limit, total - from) }, (_, at) => ({
        uri: `files:///${from + at}.txt`, name: `${from + at}.txt`, title: null, description: null, mime_type: "text/plain", size: at, audience: [],
        priority: null, modified: null, listable: false, subscribable: false, notices: [],
      }));
      const end = from + items.length;
      await route.fulfill({ json: { items, next: end < total ? String(end) : null, missing: [] } });
    });
    await login(page);
    await page.getByRole("treeitem").first().waitFor();
    const began = Date.now();
    await page.reload();
    const rows = page.getByRole("treeitem");
    await rows.first().waitFor();
    console.log(`many: the first rows are there after ${Date.now() - began} ms`);
    await page.getByRole("tree").focus();
    for (let times = 0; times < 4; times += 1) {
      await page.keyboard.press("End");
      await page.keyboard.press("PageUp");
      const shown = await rows.count();
      assert.ok(shown > 0 && shown <= 60, `${shown} rows`);
    }
    await page.getByLabel("Filter by name").fill("99999.txt");
    await rows.filter({ hasText: "99999.txt" }).waitFor();
    await page.getByText("100,000 loaded, all, 1 match").waitFor();
    await page.getByLabel("Filter by name").fill("");
    await rows.nth(10).waitFor();
    assert.ok((await rows.count()) <= 60, "rows of the whole catalog");
  },

  /** Every text of every answer is hostile. */
  async hostile() {
    const page = await open();
    await login(page);
    const each = (make) => PAYLOADS.map(make);
    const resource = (text, at) => ({
      uri: `notes:///${at}/${text}`, name: text, title: text, title_prefix: text, description: text, mime_type: text, size: at, audience: [text],
      priority: 0.5, modified: text, listable: at % 2 === 0, subscribable: true, notices: [text],
    });
    const list = (items) => ({ items, total: items.length, next: null });
    const cache = { hits: 1, misses: 1, responses: 1, bytes: 1, capacity: 2 };
    const plugin = (text, at) => ({
      name: at === 0 ? "first" : `${at}${text}`, mount: text, configured: true, digest: text, memory: { used: 1, limit: 2 },
      state: [{ name: "failed", reason: text }, { name: "disabled", since: text, by: text }, { name: "suspended", retry_in_ms: 5000 }, { name: "failing", cause: at % 8 === 3 ? "calls" : "grant", since: text, failed: 5, calls: 6, reason: text }][at % 4],
      faults: { [text]: 3 }, cache, recent: { window_ms: 1000, calls: 3, p50_us: 3, p99_us: 9 }, watched: 1,
    });
    const limits = {
      memory: 1, cpu_ms: 1, deadline_ms: 1, concurrency: 1, queue: 1, queue_timeout_ms: 1, rate: PAYLOADS[5], response_size: 1, response_items: 1, listing_items: 1, log: PAYLOADS[4],
      handles: 1, files: 1, random_bytes: 1, http: { concurrency: 1, rate: PAYLOADS[5], headers: 1, body: 1, timeout_ms: 1 },
    };
    const grants = {
      dirs: each((text) => ({ host: text, guest: text, writable: true })), env: PAYLOADS, http: PAYLOADS, keyvalue: PAYLOADS, sql: PAYLOADS,
    };
    const config = (text, at) => ({
      name: `${at}${text}`, title: text, component: text, mount: text, required: true, response_cache: true, watch_interval_ms: 1,
      config_keys: PAYLOADS, grants, limits,
    });
    const log = { filter: PAYLOADS[5], until: PAYLOADS[6], by: PAYLOADS[7] };
    const contents = (type) => ({
      contents: each((text, at) => ({ resource: { ...resource(text, at), mime_type: type }, text, blob: null, bytes: text.length, cut: at % 2 === 0 })),
    });
    let type = "text/markdown";
    const answers = {
      session: { principal: PAYLOADS[5], administrator: true },
      status: {
        version: PAYLOADS[0], pid: 1, started: PAYLOADS[1], uptime_seconds: 1, generation: 1, config_file: PAYLOADS[2], ready: false,
        not_ready: PAYLOADS, reload_failure: { time: PAYLOADS[3], reason: PAYLOADS.join("\n") }, plugins: list(each(plugin)), sessions: 1,
        watched: { subscribers: 1, resources: 1, plugins: 1, updates: 1, listing_updates: 1 }, log,
        audit: { file: PAYLOADS[4], failure: { since: PAYLOADS[5], reason: PAYLOADS.join("\n") }, refuses: true, dropped_lines: 1, refused_requests: 1 },
      },
      "plugins/first": {
        status: plugin(PAYLOADS[5], 0), config: config(PAYLOADS[5], 0),
        loads: { succeeded: 1, failed: Object.fromEntries(PAYLOADS.map((text) => [text, 1])) },
        search: { documents: 1, bytes: 1, embedded: 1, complete: false, gaps: PAYLOADS },
        usage: { running: 1, concurrency: 2, waiting: 3, queue: 4, buckets: each((name) => ({ name, bytes: 1, max_bytes: 2, keys: 3, max_keys: 4 })) },
        programs: {
          programs: each((text) => ({
            process: 1, state: "running", started: text, restarts: 1, memory: 1, memory_limit: 2, cpu_ms: 3, cpu_limit_ms: null, processes: 4, processes_limit: 5,
          })),
          starts: 1, ends: Object.fromEntries(PAYLOADS.map((text) => [text, 1])), last_end: { time: PAYLOADS[1], reason: PAYLOADS[2], text: PAYLOADS[3] },
        },
        requirements: each((text) => ({ capability: text, status: text, granted: [text] })),
        unmet: PAYLOADS,
        log: each((text) => ({ time: text, level: text, text, times: 2 })),
      },
      config: {
        generation: 1, file: PAYLOADS[0], admin: PAYLOADS[1], audit: PAYLOADS[2], audit_values: { operations: PAYLOADS, decisions: PAYLOADS, outcomes: PAYLOADS },
        server: { name: PAYLOADS[5], http: PAYLOADS[6], tls: true, page_size: 1, response_cache: 1, confine: true, drain_delay_ms: 1 },
        plugins: list(each(config)), principals: list(PAYLOADS), issuers: list(each((text) => ({ name: text, issuer: text }))),
        groups: list(each((text) => ({ name: text, principals: [text], groups: [text] }))),
        rules: list(each((text) => ({ line: 1, principals: [text], groups: [text], operations: [text], allow: [text], deny: [text] }))),
      },
      subscriptions: {
        watched: { subscribers: 1, resources: 1, plugins: 1, updates: 1, listing_updates: 1 },
        resources: list(each((text, at) => ({ uri: resource(text, at).uri, subscribers: 1, unheard: 1, views: 0, principals: [text] }))),
      },
      plugins: list(each(plugin)),
      "browse/list": { items: each(resource), next: null, missing: each((text) => ({ plugin: text, reason: text })) },
      "browse/templates": {
        items: each((text) => ({ template: "notes:///{x}", name: text, title: text, description: text, mime_type: text, variables: [text] })),
        next: null, missing: [],
      },
      "browse/complete": { values: PAYLOADS, has_more: false },
      "browse/search": {
        hits: each((text, at) => ({ resource: resource(text, at), snippet: [{ text, matches: true }, { text, matches: false }], lines: [1, 2] })),
        total: 60, partial: true, incomplete: PAYLOADS,
      },
      "browse/context": {
        passages: each((text, at) => ({ resource: resource(text, at), text, lines: [1, 2], tokens: 3, reason: text })),
        tokens: 3, over_budget: 61, near_copies: 1, partial: true, incomplete: PAYLOADS,
        left_out: each((text, at) => ({ resource: resource(text, at), text, lines: [1, 2], tokens: 3, reason: text })),
      },
      "config/changes": {
        generation: 1, changed: true, plugins_added: PAYLOADS, plugins_changed: PAYLOADS, plugins_removed: PAYLOADS, requires_restart: PAYLOADS,
        settings_changed: PAYLOADS, changed_keys: Object.fromEntries(PAYLOADS.map((text) => [text, PAYLOADS])), elapsed_ms: 1,
        plugins_failing: Object.fromEntries(PAYLOADS.map((text) => [text, text])), would_fail: true,
      },
      "config/warnings": list(PAYLOADS),
      "explain/who": {
        uri: PAYLOADS[5], plugin: PAYLOADS[6], operation: PAYLOADS[1], served: "here", served_at: null, cut: true,
        ...Object.fromEntries(["allowed", "denied"].map((name) => [name, list(each((text, at) => ({
          kind: at % 2 === 0 ? "principal" : "group", name: text, decided: text, rule: { number: 1, line: 2, key: text, glob: text },
        })))])),
      },
      explain: {
        allowed: false, principal: PAYLOADS[0], groups: PAYLOADS, operation: PAYLOADS[1], decided: PAYLOADS[2], scopes: PAYLOADS, uri: PAYLOADS[5],
        plugin: PAYLOADS[6], path: PAYLOADS[7], rule: { number: 1, line: 2, key: PAYLOADS[8], glob: PAYLOADS[9] },
      },
    };
    await page.route("**/api/v1/**", async (route) => {
      const name = new URL(route.request().url()).pathname.slice("/api/v1/".length);
      if (name === "audit") {
        const lines = each((text) => JSON.stringify({ time: text, principal: text, operation: text, uri: text, plugin: text, decision: text, rule: text, glob: text, outcome: text, bytes: 1, duration_ms: 1 }));
        await route.fulfill({ contentType: "text/event-stream", body: lines.map((line) => `event: audit\ndata: ${line}\n\n`).join("") });
      } else if (name === "updates") {
        const updates = each((text, at) => JSON.stringify({ time: text, principal: text, uri: at % 2 === 0 ? text : null }));
        await route.fulfill({ contentType: "text/event-stream", body: updates.map((update) => `event: update\ndata: ${update}\n\n`).join("") });
      } else if (name === "browse/read") {
        await route.fulfill({ json: contents(type) });
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
    await go("#/plugins/first", ".details");
    await page.getByRole("button", { name: "Reset" }).click();
    await page.locator(".details .problem p").waitFor();
    await go("#/live", "td.uri");
    await page.getByRole("region", { name: "Table of updates" }).getByRole("row").nth(60).waitFor();
    await unharmed(page, "updates");
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
    await page.getByRole("button", { name: "Templates", exact: true }).click();
    await page.locator("form.template").nth(59).waitFor();
    await page.locator("form.template input").first().fill("x");
    await unharmed(page, "templates");
    await page.getByRole("button", { name: "Search", exact: true }).first().click();
    await page.getByLabel("Words").fill("x");
    await page.getByLabel("Words").press("Enter");
    await page.locator(".hits li").nth(59).waitFor();
    await unharmed(page, "search");
  },

  /** What is not reached is said, and is there again by itself. */
  async cut() {
    const page = await open();
    await login(page, "#/plugins");
    await page.getByRole("link", { name: "sample", exact: true }).waitFor();
    await page.context().setOffline(true);
    await page.getByText("The server does not answer; trying again.").waitFor();
    await page.getByRole("link", { name: "sample", exact: true }).waitFor();
    await accessible(page, "without the server");
    await page.context().setOffline(false);
    await page.getByText("The server does not answer; trying again.").waitFor({ state: "detached" });
  },

  /** The test edits the files that are served. The page is not loaded again, and asks for nothing twice. */
  async follow() {
    const page = await open();
    await login(page, "#/resources");
    await marked(page);
    const tree = page.getByRole("tree");
    const plan = tree.getByRole("treeitem", { name: "plan.md" });
    const preview = page.getByRole("region", { name: "Preview" });
    await plan.click();
    await preview.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    await preview.getByText("Changes appear by themselves.").waitFor();
    await step("edit");
    const began = Date.now();
    await preview.getByRole("heading", { name: "Another plan", exact: true }).waitFor();
    console.log(`follow: an edit is shown after ${Date.now() - began} ms`);
    await preview.getByText(/^Changed at /).waitFor();
    await step("add");
    await tree.getByRole("treeitem", { name: "new.md" }).waitFor();
    await step("remove");
    await tree.getByRole("treeitem", { name: "old.md" }).waitFor({ state: "detached" });

    // The number beside a resource is that of its subscribers: the page is none.
    const count = async () => {
      const answer = page.waitForResponse((response) => response.url().includes("/api/v1/subscriptions"));
      return (await (await answer).json()).resources.items.find(({ uri }) => uri.endsWith("/plan.md"));
    };
    const watched = await count();
    assert.deepEqual([watched.subscribers, watched.principals], [0, []]);
    assert.ok(watched.views >= 1, "the page watches it");
    assert.equal(await plan.locator(".badge").count(), 0);
    await step("subscribe");
    await plan.locator(".badge").filter({ hasText: /^1$/ }).waitFor();
    const followed = page.waitForResponse((response) => response.url().includes("/api/v1/updates"));
    await page.evaluate(() => (location.hash = "#/live"));
    const subscriptions = page.getByRole("region", { name: "Table of subscriptions" });
    await subscriptions.getByRole("cell", { name: "anonymous" }).waitFor();
    // The updates of its subscriber, and not of this page, as they are sent.
    await followed;
    await page.getByText("None was sent since this page was opened.").waitFor();
    await step("edit");
    const updates = page.getByRole("region", { name: "Table of updates" });
    await updates.getByRole("row").filter({ hasText: "anonymous" }).filter({ hasText: "plan.md" }).first().waitFor();
    assert.equal(await updates.getByRole("row").filter({ hasText: "local" }).count(), 0);
    await page.evaluate(() => (location.hash = "#/plugins/files"));
    await subscriptions.getByRole("cell", { name: "anonymous" }).waitFor();

    // What one principal may not see is not pushed to its view.
    await page.evaluate(() => (location.hash = "#/view-as"));
    const [one, other] = [page.getByRole("region", { name: "One principal" }), page.getByRole("region", { name: "Another principal" })];
    await one.getByRole("treeitem", { name: "secret.txt" }).click();
    await one.getByText("hidden words").waitFor();
    await other.getByText("there is no resource").waitFor();
    await step("edit the secret");
    await one.getByText("other words").waitFor();
    assert.equal(await other.getByText("secret.txt", { exact: true }).count(), 0);

    await page.evaluate(() => (location.hash = "#/resources"));
    await plan.waitFor();
    await step("replace the token");
    await page.getByText("The session has ended").waitFor();
    assert.equal(await page.getByText("plan.md").count(), 0, "the data are gone");
    await accessible(page, "a session that has ended");
    assert.ok(await marked(page), "the page was not loaded again");
  },

  /** A catalog of folders that are opened one by one: a filter says what it did not look into, and does on demand. */
  async folders() {
    const page = await open();
    const resource = (uri, listable) => ({
      uri, name: uri.split("/").at(-1), title: null, title_prefix: null, description: null, mime_type: null, size: null, audience: [], priority: null,
      modified: null, listable, subscribable: false, notices: [],
    });
    const below = {
      "": [resource("files:///a", true), resource("files:///b", true), resource("files:///top.txt", false)],
      "files:///a": [resource("files:///a/deep", true), resource("files:///a/one.txt", false)],
      "files:///a/deep": [resource("files:///a/deep/wanted.txt", false)],
      "files:///b": [resource("files:///b/two.txt", false)],
    };
    const asked = [];
    await page.route("**/api/v1/browse/list", async (route) => {
      const { parent } = route.request().postDataJSON();
      asked.push(parent ?? "");
      await route.fulfill({ json: { items: below[parent ?? ""], next: null, missing: [] } });
    });
    await login(page);
    await page.getByText("3 loaded; more in 2 closed folders").waitFor();
    await page.getByLabel("Filter by name").fill("wanted");
    await page.getByText("0 match; 2 folders that are not open were not searched").waitFor();
    assert.deepEqual(asked, [""], "nothing is loaded before it is asked for");
    await accessible(page, "folders that were not searched");
    await page.getByRole("button", { name: "Look into closed folders" }).click();
    await page.getByText("7 loaded, all, 1 match").waitFor();
    const found = page.getByRole("treeitem", { name: "wanted.txt" });
    await found.getByText("files:///a/deep/wanted.txt").waitFor();
    assert.equal(await page.getByRole("button", { name: "Look into closed folders" }).count(), 0);
    // The words are those of the search of texts, too.
    await page.getByRole("button", { name: "Search texts for this" }).click();
    assert.equal(await page.getByLabel("Words").inputValue(), "wanted");
  },

  /** Formats of one resource are shown one at a time; what the server says is said in the language of the reader. */
  async formats() {
    const page = await open({ language: "ja-JP" });
    const resource = (mime_type) => ({
      uri: "sqlite:///shop/rows", name: "rows", title: null, title_prefix: null, description: null, mime_type, size: null, audience: [], priority: null,
      modified: null, listable: false, subscribable: false, notices: [],
    });
    const content = (type, text) => ({ resource: resource(type), text, blob: null, bytes: text.length, cut: false });
    const contents = [
      content("text/markdown", "| id |\n|---|\n| one |"), content("application/json", '[{"id": "one"}]'), content("text/csv", "id\none\n"),
    ];
    await page.route("**/api/v1/browse/read", (route) => route.fulfill({ json: { contents, left_out: 0 } }));
    const reason = "it could not be loaded; the server's log says why";
    await page.route("**/api/v1/browse/list", (route) => route.fulfill({ json: { items: [], next: null, missing: [{ plugin: "p", reason }] } }));
    await page.goto(`${address}/`);
    await page.getByLabel("トークン", { exact: true }).fill(token);
    await page.keyboard.press("Enter");
    await page.getByText("読み込めませんでした（理由はサーバーのログにあります）").waitFor();
    await page.evaluate(() => (location.hash = "#/resources/sqlite%3A%2F%2F%2Fshop%2Frows"));
    await page.getByRole("cell", { name: "one" }).waitFor();
    assert.equal(await page.getByRole("cell", { name: "one" }).count(), 1, "a row is shown once");
    await page.getByRole("button", { name: "text/csv" }).click();
    await page.getByRole("columnheader", { name: "id" }).waitFor();
    assert.equal(await page.getByRole("cell", { name: "one" }).count(), 1);
    await accessible(page, "formats");
  },

  /** The config on disk becomes another one than is served, and the same again. */
  async changes() {
    const page = await open();
    await login(page, "#/config");
    const state = page.getByRole("region", { name: "State" });
    await state.getByText("yes", { exact: true }).waitFor();
    await step("break");
    await state.getByText("A reload of the file, or a restart, would change:").waitFor();
    await state.getByText("added: broken").waitFor();
    await state.getByText("after a restart: http.keep-alive").waitFor();
    await state.getByText("no: the last reload failed").waitFor();
    await state.getByText("A reload would fail:").waitFor();
    await accessible(page, "a config that is not served");
    // An administrator is told wherever that is looked at.
    for (const place of ["resources", "context", "view-as", "plugins", "live"]) {
      await page.evaluate((hash) => (location.hash = hash), `#/${place}`);
      await page.getByRole("alert").filter({ hasText: "failed, so the config file is not served as it is." }).waitFor();
    }
    await accessible(page, "a page beside a failed reload");
    await page.getByRole("link", { name: "Why, and what is served" }).click();
    await step("repair");
    await state.getByText("yes", { exact: true }).waitFor();
    await state.getByText("A reload of the file").waitFor({ state: "detached" });
    await step("write nonsense");
    await state.locator("pre.problem").filter({ hasText: "nonsense" }).waitFor();
  },

  async restart() {
    const page = await open();
    await login(page, "#/resources");
    await marked(page);
    const plan = page.getByRole("treeitem", { name: "plan.md" });
    await plan.waitFor();
    await page.evaluate(() => (location.hash = "#/plugins"));
    await page.getByRole("link", { name: "files", exact: true }).waitFor();
    await step("end");
    await page.getByText("The server does not answer; trying again.").waitFor();
    // What was seen last stays.
    await page.getByRole("link", { name: "files", exact: true }).waitFor();
    await step("start");
    await page.getByText("The session has ended: the server was restarted").waitFor();
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "files", exact: true }).waitFor();
    await page.evaluate(() => (location.hash = "#/resources"));
    await plan.click();
    await page.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    assert.ok(await marked(page), "the page was not loaded again");
  },

  /** A call of the plugin `slow` takes until its deadline. */
  async slow() {
    const page = await open();
    await login(page, `#/resources/${encodeURIComponent("misbehaving://slow/slow?ms=600000")}`);
    const preview = page.getByRole("region", { name: "Preview" });
    await preview.getByText("Loading…").waitFor();
    const asked = Date.now();
    // Meanwhile all else is there.
    await page.getByLabel("Filter by name").fill("plan");
    await page.getByRole("treeitem", { name: "plan.md" }).click();
    await preview.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    await page.getByRole("link", { name: "Plugins" }).click();
    await page.getByRole("link", { name: "slow", exact: true }).click();
    await page.getByRole("heading", { name: "slow" }).waitFor();
    console.log(`slow: other pages were there after ${Date.now() - asked} ms`);
    await page.evaluate(() => (location.hash = `#/resources/${encodeURIComponent("misbehaving://slow/slow?ms=600000")}`));
    await preview.getByRole("alert").waitFor();
    await accessible(page, "a slow plugin");
  },

  /** From the login to each page, without a pointer. */
  async keyboard() {
    const page = await open();
    await page.goto(`${address}/`);
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await tabTo(page, "input[type=password]");
    await page.keyboard.type(token);
    await page.keyboard.press("Enter");
    await page.getByRole("navigation").waitFor();
    await tabTo(page, "input[type=search]");
    await page.keyboard.type("files://files/");
    await page.getByText(/ all, 2 match$/).waitFor();
    await tabTo(page, "[role=tree]");
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    await page.keyboard.press("Home");
    await page.keyboard.press("Space");
    await page.getByRole("heading", { name: "Other", exact: true }).waitFor();
    for (const [place, heading] of [["context", "Context"], ["view-as", "View as"], ["plugins", "Plugins"], ["live", "Live"], ["config", "Config"]]) {
      await tabTo(page, `nav a[href="#/${place}"]`);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
    }
    // Back: the list of all plugins is behind the navigation.
    await tabTo(page, 'nav a[href="#/plugins"]', "Shift+Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "broken", exact: true }).waitFor();
    await tabTo(page, 'a[href="#/plugins/files"]');
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Disable" }).waitFor();
    await tabTo(page, ".details button");
    await page.keyboard.press("Enter");
    // It is asked before all clients lose it.
    await page.getByRole("button", { name: "Disable files for all clients" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("Disabled.", { exact: true }).waitFor();
    // The button in its place has the focus once the state is known.
    await page.locator("button:focus").getByText("Enable", { exact: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("Enabled.").waitFor();
  },

  /** 200 plugins, of which `broken` cannot be loaded. */
  async plugins200() {
    const page = await open();
    await login(page, "#/plugins");
    const rows = page.getByRole("region", { name: "Table of plugins" }).getByRole("row");
    await page.getByText("200 of 200 plugins").waitFor();
    const shown = await rows.count();
    assert.ok(shown > 10 && shown <= 60, `${shown} of 201 rows are elements`);
    await page.getByRole("region", { name: "Table of plugins" }).evaluate((table) => table.scrollTo(0, table.scrollHeight));
    await page.getByRole("link", { name: "p99", exact: true }).waitFor();
    assert.ok((await rows.count()) <= 60, "rows at the end of the table");
    await accessible(page, "200 plugins");
    await page.getByLabel("State").selectOption("failed");
    await page.getByText("1 of 200 plugins").waitFor();
    await page.getByRole("link", { name: "broken", exact: true }).waitFor();
    await page.getByLabel("State").selectOption("attention");
    await page.getByText("1 of 200 plugins").waitFor();
    await page.getByLabel("State").selectOption("");
    await page.getByRole("searchbox").fill("p19");
    await page.getByText("9 of 200 plugins").waitFor();
    await page.evaluate(() => (location.hash = "#/resources"));
    await page.getByRole("treeitem", { name: "plan.md" }).waitFor();
    await page.getByText("More filters").click();
    await page.getByLabel("Plugin").selectOption("files");
    await page.getByText(/ all, 2 match$/).waitFor();
    assert.equal(await page.getByRole("treeitem").count(), 2);
    await accessible(page, "filters");
  },

  /** The same pages in Japanese, in the dark, and on a narrow and on a wide screen. */
  async appearance() {
    const dark = await open({ scheme: "dark" });
    await login(dark);
    for (const [name, ready] of [
      ["resources", "[role=treeitem]"],
      ["context", "form"],
      ["view-as", "[role=treeitem]"],
      ["plugins/sample", ".sparkline canvas"],
      ["live", "table"],
      ["config", "table"],
    ]) {
      await dark.evaluate((hash) => (location.hash = hash), `#/${name}`);
      await dark.locator(ready).first().waitFor();
      await accessible(dark, `${name} in the dark`);
      await picture(dark, `${name.split("/")[0]}-dark`);
      for (const width of [360, 2560]) {
        await dark.setViewportSize({ width, height: 900 });
        const overflow = await dark.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(overflow, 0, `${name} at ${width} px`);
      }
      await dark.setViewportSize({ width: 1280, height: 900 });
    }
    const japanese = await open({ language: "ja-JP" });
    await japanese.goto(`${address}/`);
    await japanese.getByLabel("トークン", { exact: true }).fill(token);
    await japanese.getByRole("button", { name: "ログイン" }).click();
    await japanese.getByRole("heading", { name: "リソース", level: 1 }).waitFor();
    await japanese.getByRole("link", { name: "プラグイン" }).click();
    await japanese.getByRole("heading", { name: "プラグイン", level: 1 }).waitFor();
    assert.equal(await japanese.evaluate(() => document.documentElement.lang), "ja");
    await accessible(japanese, "plugins in Japanese");
    await japanese.getByLabel("言語").selectOption("en");
    await japanese.getByRole("heading", { name: "Plugins", level: 1 }).waitFor();
  },
};

try {
  for (const name of part.split(",")) {
    const began = Date.now();
    await PARTS[name]();
    assert.deepEqual(faults, [], name);
    console.log(`${name}: ${Date.now() - began} ms`);
  }
} catch (error) {
  // They may be the cause.
  faults.forEach((fault) => console.error(fault));
  throw error;
} finally {
  await browser.close();
  process.stdin.destroy();
}
