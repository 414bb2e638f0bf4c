// Drives the console in a browser: `node console.mjs PART ADDRESS TOKEN FOLDER [FILES]`. Fails by an exit code with the reason on standard
// error.
//
// FOLDER is where pictures are written, FILES the directory that is served, for parts that change it. A part is a function of `PARTS`. Every
// page is checked by axe, and whatever it is fed: no dialog opens, no script of a text runs, and nothing is loaded from elsewhere.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accessible, address, browser, faults, login, marked, open, part, picture, step, tabTo, token } from "./browser.mjs";
import { figures } from "./figures.mjs";
import { hostile } from "./hostile.mjs";
import { large } from "./large.mjs";

/** Runs a line of a shell, where `admin.token` has the token. Returns what it prints. */
function runInShell(line) {
  const directory = mkdtempSync(join(tmpdir(), "console-"));
  try {
    writeFileSync(join(directory, "admin.token"), token, { mode: 0o600 });
    return execFileSync("sh", ["-c", line], { cwd: directory, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Waits until the charts of a plugin have lines, from their second sample on; at least one, as a plugin without calls has no latency. */
async function charted(page) {
  await page.waitForFunction(() => {
    const charts = [...document.querySelectorAll(".sparkline canvas")];
    const pixels = (chart) => chart.getContext("2d").getImageData(0, 0, chart.width, chart.height).data;
    return charts.length === 2 && charts.some((chart) => pixels(chart).some((value) => value > 0));
  });
}

const PARTS = {
  figures,
  hostile,
  large,

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
    await page.getByText("Users, if [admin] users = true: the token of your MCP client.").waitFor();
    await page.locator("code").getByText("mcp-host admin open").waitFor();
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
    // What no config declares is not counted with the plugins, and says what it is.
    const builtIn = page.getByRole("row").filter({ has: page.getByRole("link", { name: "mcp-host.search", exact: true }) });
    await builtIn.getByText("built in").waitFor();
    await page.locator("dl > div").filter({ hasText: "Plugins" }).getByText(/^3, 2 built in/).waitFor();
    await accessible(page, "plugins");
    // The number of those that are not served leads to them.
    await page.getByRole("link", { name: "1 not served" }).click();
    await page.getByRole("heading", { name: "broken", level: 2 }).waitFor();
    await builtIn.getByRole("link", { name: "mcp-host.search", exact: true }).click();
    await page.getByText("the host has it for search and context").waitFor();
    await broken.getByRole("link", { name: "broken", exact: true }).click();
    await page.getByRole("heading", { name: "broken" }).waitFor();
    await page.locator("pre.problem").waitFor();
    await page.locator("dl").getByText("failed (not-a-component)").waitFor();
    await row.getByRole("link", { name: "sample", exact: true }).press("Enter");
    await page.getByRole("heading", { name: "sample" }).waitFor();
    await page.locator(".sparkline canvas").first().waitFor();
    const details = page.getByRole("region", { name: "sample", exact: true });
    for (const limit of ["Memory", "Running calls", "Waiting calls", "Cache"]) {
      await details.getByRole("meter", { name: limit }).waitFor();
    }
    for (const heading of ["Limits", "Grants", "Imports and grants", "Component", "Log"]) {
      await details.getByRole("heading", { name: heading, exact: true }).waitFor();
    }
    const headings = await details.getByRole("heading", { level: 3 }).allTextContents();
    assert.ok(headings.indexOf("Log") < headings.indexOf("Limits"), "what has happened is before the limits");
    await accessible(page, "a plugin");
    await charted(page);
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
    await page.getByRole("button", { name: "Reload the config" }).click();
    await page.getByText("Reloaded.").waitFor();
    await page.getByRole("searchbox").fill("no such plugin");
    await page.getByText("No plugin matches.").waitFor();
    await page.getByRole("searchbox").fill("");
    // A number of warnings, and that nothing was called yet.
    await page.route("**/api/v1/status", async (route) => {
      // The browser adds this one.
      const headers = { ...(await route.request().allHeaders()), "sec-fetch-site": "same-origin" };
      const status = await (await route.fetch({ headers })).json();
      for (const plugin of status.plugins.items) {
        Object.assign(plugin, { warnings: plugin.name === "sample" ? 2 : 0, answered: plugin.name !== "files" });
      }
      await route.fulfill({ json: status });
    });
    const files = page.getByRole("row").filter({ has: page.getByRole("link", { name: "files", exact: true }) });
    await files.getByText("untried").waitFor();
    await row.getByText("untried").waitFor({ state: "detached" });
    await accessible(page, "plugins with warnings");
    await files.getByRole("link").click();
    await page.getByRole("heading", { name: "files" }).waitFor();
    await row.getByRole("link", { name: "sample: 2 warnings" }).click();
    await page.getByRole("heading", { name: "sample" }).waitFor();
    // All columns are in view on a narrow screen.
    await page.setViewportSize({ width: 360, height: 740 });
    const table = page.getByRole("region", { name: "Table of plugins" });
    const hidden = await table.evaluate((table) => table.scrollWidth - table.clientWidth);
    assert.ok(hidden <= 0, `${hidden} px of the table are out of view`);
    const cut = await table.locator("th > a").evaluateAll((names) => names.filter((name) => name.scrollHeight > name.clientHeight + 1).map((name) => name.textContent));
    assert.deepEqual(cut, [], "names are whole");
    await accessible(page, "plugins on a narrow screen");
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
    await page.getByText("No line yet. Lines appear from now on.").waitFor();
    // What is counted is said: this page, too.
    await page.getByText("Sessions, streams and console pages").waitFor();
    await actor.getByRole("button", { name: "Reset" }).click();
    await actor.getByText("Reset.").waitFor();
    await actor.getByRole("button", { name: "Disable" }).click();
    await actor.getByRole("button", { name: /^Disable .* for all clients$/ }).press("Enter");
    await page.getByRole("cell", { name: "admin-disable" }).waitFor();
    assert.equal(await page.getByRole("cell", { name: "admin-reset" }).count(), 0);
    await actor.getByRole("button", { name: "Enable" }).click();
    await actor.getByText("Enabled.").waitFor();
    // By principal, plugin and outcome: requests as they happen, of a view that an administrator takes.
    await page.getByLabel("Operation").selectOption("");
    await page.getByLabel("Principal").fill("anonymous");
    await page.getByLabel("Plugin").fill("sample");
    await page.getByLabel("Outcome").selectOption("not found");
    await page.getByText("Following the audit log").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByText("No line yet.").waitFor();
    for (const [principal, path] of [["local", "nothing"], ["anonymous", "all"], ["anonymous", "nothing"]]) {
      await actor.evaluate(
        ([body, key]) => fetch("/api/v1/browse/read", { method: "POST", body, headers: { "content-type": "application/json", "mcp-host-console": key } }),
        [JSON.stringify({ uri: `sample://sample/${path}`, as: { principal } }), await actor.evaluate(() => localStorage.getItem("mcp-host-console-key"))],
      );
    }
    const lines = page.getByRole("region", { name: "Lines of the audit log" }).getByRole("row");
    await lines.filter({ hasText: "sample://sample/nothing" }).waitFor();
    assert.equal(await lines.count(), 2, "the head, and one line");
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
    // The words of a table stay whole, and the table scrolls.
    const wide = preview.locator(".markdown").getByRole("region", { name: "Table" });
    const heights = await wide.locator("th").evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().height));
    assert.ok(Math.max(...heights) < 45, `heads of one word have one line: ${heights}`);
    assert.ok(await wide.evaluate((table) => table.scrollWidth > table.clientWidth), "the table is wider than its box");
    assert.equal(await wide.getAttribute("tabindex"), "0", "and does so by the keyboard");
    await accessible(page, "Markdown");
    await picture(page, "resources-light");
    await preview.getByRole("button", { name: "Source" }).click();
    await preview.getByText("**breaker**").waitFor();
    await preview.getByRole("button", { name: "Copy the URI" }).click();
    const copied = () => page.evaluate(() => navigator.clipboard.readText());
    const uri = await copied();
    assert.match(uri, /^files:.*\/plan\.md$/);
    await preview.getByRole("button", { name: "Copy for a client" }).click();
    assert.equal(await copied(), `await client.readResource({ uri: "${uri}" });`);
    await preview.getByRole("button", { name: "Copy explain" }).click();
    assert.match(await copied(), /^mcp-host explain (--config '\/[^']+\.toml' )?--as 'local' '[^']+'$/);
    assert.ok((await copied()).endsWith(` '${uri}'`));
    const curl = preview.getByRole("button", { name: "Copy for curl" });
    assert.match(await curl.getAttribute("title"), /admin\.token/);
    await curl.click();
    assert.match(runInShell(await copied()), /"text":"# The plan/);
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
    // A long table, of which few rows are elements.
    await page.getByLabel("Filter by name").fill("long.csv");
    await tree.getByRole("treeitem", { name: "long.csv" }).first().click();
    const table = preview.getByRole("region", { name: "Table" });
    await table.getByRole("cell", { name: "17", exact: true }).waitFor();
    assert.ok((await table.getByRole("row").count()) <= 60, "rows of a long table");
    await page.waitForFunction(() => {
      const table = document.querySelector(".preview .scroll");
      table.scrollTo(0, table.scrollHeight);
      return table.textContent.includes("the 19999th");
    });
    assert.ok((await table.getByRole("row").count()) <= 60, "rows at the end of a long table");
    await accessible(page, "a long table");
    // The text of a PDF file, and the file itself.
    await page.getByLabel("Filter by name").fill("hello.pdf");
    await tree.getByRole("treeitem", { name: "hello.pdf" }).first().click();
    await preview.getByText("Hello world").waitFor();
    await preview.getByRole("link", { name: "Save" }).waitFor();
    await preview.getByText(/^Binary: application\/pdf, /).waitFor();
    await preview.getByRole("button", { name: "Who may read this?" }).click();
    await preview.getByRole("region", { name: "Table of who may" }).getByRole("row", { name: "local" }).waitFor();
    await accessible(page, "who may read it");
    // By what is known of a resource, one filter at a time; `all` of the plugin `sample` has everything.
    await page.getByLabel("Filter by name").fill("");
    await page.getByText("More filters").click();
    const listed = (names) => tree.getByRole("treeitem").filter({ hasText: new RegExp(names) });
    const filters = page.locator("details .filters");
    for (const [label, chosen, found, kept] of [
      ["Type", "image/", 1, "dot.gif"],
      ["Audience", "assistant", null, "All there is"],
      ["Priority at least", "0.75", 1, "All there is"],
      ["Language", "ja", 1, "japanese.txt"],
      ["Language", "de", 1, "german.txt"],
      ["Changed since", "2026-01-01", null, "plan.md"],
      ["Plugin", "sample", 3, "All there is"],
    ]) {
      const field = filters.getByLabel(label);
      const isChoice = await field.evaluate((element) => element.tagName === "SELECT");
      const empty = await field.inputValue();
      await (isChoice ? field.selectOption(label === "Plugin" ? { label: chosen } : chosen) : field.fill(chosen));
      await page.getByText(found === null ? / all, [0-9]+ match$/ : new RegExp(` all, ${found} match$`)).waitFor();
      await listed(kept).first().waitFor();
      await accessible(page, `the filter ${label}`);
      await (isChoice ? field.selectOption(empty) : field.fill(empty));
    }
    // What is for users only is not for assistants; this was changed in 2025.
    await filters.getByLabel("Changed since").fill("2026-01-01");
    await page.getByText(/ all, [0-9]+ match$/).waitFor();
    assert.equal(await listed("All there is").count(), 0);
    await filters.getByLabel("Changed since").fill("");
    // The filter looks at what the resources of a plugin do not have in common.
    await page.getByLabel("Filter by name").fill("files");
    await page.getByText(/, 0 match$/).waitFor();
    await page.getByRole("button", { name: "Search", exact: true }).first().click();
    await page.getByLabel("Words").fill("breaker");
    await page.getByLabel("Words").press("Enter");
    await page.locator("mark").first().waitFor();
    const places = await page.locator(".hits .uri").allTextContents();
    assert.ok(places.every((place) => !/\((\d+)–\1\)$/.test(place)), `one line is no range: ${places}`);
    await accessible(page, "search");
    await page.getByRole("button", { name: "Templates", exact: true }).click();
    // The fields are completed as they are written, by what is in the others.
    const items = page.locator("form.template").filter({ hasText: "sample://sample/item/{group}/{number}" });
    const values = (label) => items.getByLabel(label).evaluate((field) => [...field.list.options].map(({ value }) => value));
    await items.getByLabel("group").fill("e");
    await items.locator("option[value=every]").waitFor({ state: "attached" });
    assert.deepEqual(await values("group"), ["even", "every"]);
    await items.getByLabel("group").fill("odd");
    await items.getByLabel("number").fill("24");
    await items.locator('option[value="249"]').waitFor({ state: "attached" });
    assert.deepEqual(await values("number"), ["241", "243", "245", "247", "249"]);
    await items.getByLabel("number").fill("249");
    await items.getByRole("button", { name: "Read" }).click();
    await page.getByRole("heading", { name: "sample://sample/item/odd/249" }).waitFor();
    await preview.getByText("249", { exact: true }).waitFor();
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
    // The address of a page for administrators, as one may have sent it.
    await page.goto(`${address}/#/plugins/files`);
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.keyboard.press("Enter");
    await page.getByText("alice").waitFor();
    await page.waitForURL(`${address}/#/resources`);
    assert.equal(await page.getByRole("alert").count(), 0);
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
    await page.locator(".hits li").filter({ hasText: "plan.md" }).getByText("matches breaker").waitFor();
    await accessible(page, "context");
    await picture(page, "context-light");
    // Priority and audience, of the plugin that has some; and what falls off the end of a small budget.
    await page.getByLabel("Question").fill("all of it");
    await page.getByRole("button", { name: "Choose passages" }).click();
    const all = page.locator(".hits li").filter({ hasText: "sample://sample/all" });
    await all.getByText(/priority 0\.8; .*for user, assistant$/).waitFor();
    await page.getByLabel("Budget in tokens").fill("1");
    await page.getByRole("button", { name: "Choose passages" }).click();
    await page.getByRole("region", { name: "What does not fit" }).locator("li").filter({ hasText: "sample://sample/all" }).waitFor();
    await accessible(page, "what does not fit");
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
    // What is chosen is asked about, and stays chosen on the page of resources and back.
    const field = page.getByLabel("URI", { exact: true });
    assert.equal(await field.inputValue(), uri);
    await page.getByRole("link", { name: "Resources" }).click();
    await page.getByRole("heading", { name: uri }).waitFor();
    await page.getByRole("link", { name: "View as" }).click();
    await one.getByText("hidden words").first().waitFor();
    await field.fill(`${uri}.old`);
    await one.getByRole("treeitem", { name: "plan.md" }).click();
    await page.waitForFunction((uri) => document.querySelector("label.wide input").value === uri, uri.replace("secret.txt", "plan.md"));
    await secret.click();
    await page.waitForFunction((uri) => document.querySelector("label.wide input").value === uri, uri);
    // An answer is not beside that of another question, nor beside an error.
    await page.getByRole("button", { name: "Who may?" }).click();
    const who = page.getByRole("region", { name: "Table of who may" });
    await who.waitFor();
    const principal = page.getByRole("region", { name: "Why" }).getByLabel("Principal");
    await principal.fill("bott");
    await principal.press("Enter");
    await page.getByRole("button", { name: "Explain", exact: true }).click();
    await page.getByText("the config has no principal bott").waitFor();
    assert.equal(await who.count(), 0);
    await principal.fill("anonymous");
    await principal.press("Enter");
    await page.getByRole("button", { name: "Explain", exact: true }).click();
    await page.getByText(`read of ${uri} by anonymous`).waitFor();
    await page.getByText("deny **/secret*").waitFor();
    await accessible(page, "view as");
    await picture(page, "view-as-light");
    // A group, which only a rule for it lets see something.
    await other.getByLabel("Another principal").fill("alice");
    await other.getByLabel("Another principal").press("Enter");
    await other.getByText("0 loaded, all").waitFor();
    await other.getByText("alice may see nothing that is listed.").waitFor();
    await accessible(page, "a view of nothing");
    await other.getByLabel("Groups").fill("staff/auditors");
    await other.getByLabel("Groups").press("Enter");
    await other.getByRole("treeitem", { name: "secret.txt" }).waitFor();
    assert.equal(await other.getByText("plan.md").count(), 0);
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
    await page.setViewportSize({ width: 1280, height: 800 });
    await login(page);
    await page.getByText("3 loaded; more in 2 closed folders").waitFor();
    await page.getByLabel("Filter by name").fill("wanted");
    await page.getByText("0 match; 2 folders that are not open were not searched").waitFor();
    assert.deepEqual(asked, [""], "nothing is loaded before it is asked for");
    await accessible(page, "folders that were not searched");
    const look = page.getByRole("button", { name: "Look into closed folders" });
    const { y, height } = await look.boundingBox();
    assert.ok(y + height < (await page.getByRole("tree").boundingBox()).y, "it is above the list, and so in view");
    await look.click();
    await page.getByText("7 loaded, all, 1 match").waitFor();
    const found = page.getByRole("treeitem", { name: "wanted.txt" });
    await found.getByText("files:///a/deep/wanted.txt").waitFor();
    assert.equal(await page.getByRole("button", { name: "Look into closed folders" }).count(), 0);
    // The words are those of the search of texts, too.
    await page.getByRole("button", { name: "Search texts for this" }).click();
    assert.equal(await page.getByLabel("Words").inputValue(), "wanted");
  },

  /** What is missing is said until a walk of the whole catalog has it again. */
  async missing() {
    const page = await open();
    const resource = (at) => ({
      uri: `files:///${at}.txt`, name: `${at}.txt`, title: null, title_prefix: null, description: null, mime_type: null, size: null, audience: [],
      priority: null, modified: null, language: null, listable: false, subscribable: false, notices: [],
    });
    const reason = "it could not be loaded; the server's log says why";
    // The second of four pages lacks a plugin.
    await page.route("**/api/v1/browse/list", async (route) => {
      const at = Number(route.request().postDataJSON().cursor ?? 0);
      const missing = at === 1 ? [{ plugin: "reports", reason }] : [];
      await route.fulfill({ json: { items: [resource(at)], next: at === 3 ? null : String(at + 1), missing } });
    });
    await login(page);
    await page.getByText("4 loaded, all").waitFor();
    const missing = page.locator(".problem").filter({ hasText: "Missing: reports: it could not be loaded (why)" });
    await missing.getByRole("link", { name: "why" }).waitFor();
    assert.equal(await page.getByText("the server's log").count(), 0);
    await accessible(page, "a catalog without a plugin");
  },

  /** A server without a config, as `serve DIRECTORY --open` starts it: nothing is offered that cannot work. */
  async no_config() {
    const page = await open();
    const withoutFile = async (route) => {
      // The browser adds this one.
      const headers = { ...(await route.request().allHeaders()), "sec-fetch-site": "same-origin" };
      const found = await (await route.fetch({ headers })).json();
      await route.fulfill({ json: { ...found, file: null, config_file: null, audit: null } });
    };
    await page.route("**/api/v1/config", withoutFile);
    await page.route("**/api/v1/status*", withoutFile);
    const asked = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await login(page, "#/resources");
    await page.getByRole("treeitem", { name: "plan.md" }).click();
    const preview = page.getByRole("region", { name: "Preview" });
    await preview.getByRole("button", { name: "Copy for a client" }).waitFor();
    await preview.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    assert.equal(await preview.getByRole("button", { name: /curl|explain/ }).count(), 0);
    asked.length = 0;
    await page.evaluate(() => (location.hash = "#/config"));
    await page.getByText("none: started without a config").waitFor();
    assert.equal(await page.getByRole("button", { name: "Reload" }).count(), 0);
    assert.ok(!asked.includes("/api/v1/config/changes"), "nothing is compared");
    await page.evaluate(() => (location.hash = "#/plugins/files"));
    await page.getByRole("button", { name: "Reset" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Reload the config" }).count(), 0);
    await page.evaluate(() => (location.hash = "#/live"));
    await page.getByText("This server has no audit log").waitFor();
    assert.equal(await page.getByText(", and reload").count(), 0);
    await accessible(page, "a server without a config");
  },

  /** URIs are shown with the letters of their language, where nothing else has the same; copies are URIs. */
  async letters() {
    const page = await open();
    const kaigi = "notes:///%E4%BC%9A%E8%AD%B0.md";
    // A mark of direction, lowercase digits, what is no UTF-8, a slash, and a letter in two parts.
    const kept = ["notes:///%E2%80%AE.md", "notes:///%e4%bc%9a.md", "notes:///%FF.md", "notes:///a%2Fb%20c.md", "notes:///%E3%81%8B%E3%82%99.md"];
    const resource = (uri) => ({
      uri, name: "note", title: null, title_prefix: null, description: null, mime_type: "text/plain", size: null, audience: [], priority: null,
      modified: null, language: null, listable: false, subscribable: false, notices: [],
    });
    const listed = { items: [kaigi, ...kept].map(resource), next: null, missing: [] };
    await page.route("**/api/v1/browse/list", (route) => route.fulfill({ json: listed }));
    await page.route("**/api/v1/browse/read", (route) => {
      const { uri } = route.request().postDataJSON();
      return route.fulfill({ json: { contents: [{ resource: resource(uri), text: "text", blob: null, bytes: 4, cut: false }], left_out: 0 } });
    });
    await login(page);
    await page.getByLabel("Filter by name").fill("note");
    for (const uri of ["notes:///会議.md", ...kept]) {
      const row = page.getByRole("treeitem").filter({ has: page.getByText(uri, { exact: true }) });
      await row.click();
      await page.getByRole("heading", { name: uri, exact: true }).waitFor();
    }
    await page.getByRole("treeitem").filter({ hasText: "会議" }).click();
    await page.getByRole("heading", { name: "notes:///会議.md", exact: true }).waitFor();
    await page.getByRole("button", { name: "Copy the URI" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), kaigi);
    // What is shown can be written: in the address, and where a URI is asked for.
    await page.evaluate(() => (location.hash = "#/resources"));
    await page.getByText("Choose a resource.").waitFor();
    await page.evaluate(() => (location.hash = "#/resources/notes:///会議.md"));
    await page.getByRole("heading", { name: "notes:///会議.md", exact: true }).waitFor();
    const asked = [];
    await page.route("**/api/v1/explain", (route) => {
      asked.push(route.request().postDataJSON().uri);
      return route.fulfill({ status: 404, json: { error: "there is no plugin of `notes:///`" } });
    });
    await page.getByRole("link", { name: "View as" }).click();
    const field = page.getByLabel("URI", { exact: true });
    assert.equal(await field.inputValue(), "notes:///会議.md");
    for (const written of [null, "notes:///会議.md", `${kaigi} `, "notes:///a b%20c"]) {
      if (written !== null) {
        await field.fill(written);
      }
      const answer = page.waitForResponse("**/api/v1/explain");
      await page.getByRole("button", { name: "Explain", exact: true }).click();
      await answer;
    }
    assert.deepEqual(asked, [kaigi, kaigi, kaigi, "notes:///a%20b%20c"]);
    await page.locator(".problem code").getByText("notes:///", { exact: true }).waitFor();
  },

  /** What is written in the box of a principal stays there while the page asks for the config again. */
  async principals() {
    const page = await open();
    await login(page, "#/view-as");
    for (const name of ["Principal", "One principal", "Another principal"]) {
      const box = page.getByLabel(name, { exact: true }).and(page.getByRole("combobox"));
      await box.fill("ali");
      const answered = page.waitForResponse("**/api/v1/config");
      await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
      await answered;
      // A frame later the answer is drawn.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
      assert.equal(await box.inputValue(), "ali", name);
      await box.fill("");
      await box.press("Enter");
      assert.equal(await box.inputValue(), "", name);
      await box.blur();
      assert.equal(await box.inputValue(), "local", name);
    }
  },

  /** What an upstream serves is below one row, its mount, whatever URIs it has. */
  async upstreams() {
    const page = await open();
    const resource = (uri) => ({
      uri, name: uri.split(/[/:]/).at(-1), title: null, title_prefix: null, description: null, mime_type: null, size: null, audience: [], priority: null,
      modified: null, language: null, listable: false, subscribable: false, notices: [],
    });
    const uris = ["mem+mem://one", "mem+mem://two", "mem+repo://x/y/z.md", "mem+urn:isbn:1", "git://repo/a.md"];
    await page.route("**/api/v1/browse/list", (route) => route.fulfill({ json: { items: uris.map(resource), next: null, missing: [] } }));
    await login(page);
    await page.getByText("5 loaded, all").waitFor();
    const rows = await page.getByRole("treeitem").evaluateAll((rows) => rows.map((row) => [Number(row.ariaLevel), row.querySelector(".name").textContent]));
    assert.deepEqual(rows, [[1, "mem+"], [2, "one"], [2, "two"], [2, "repo://x/"], [3, "y"], [4, "z.md"], [2, "1"], [1, "git://repo/"], [2, "a.md"]]);
  },

  /** The warnings about a plugin, apart from what its component asks for, and from what it only may be granted. */
  async warnings() {
    const page = await open();
    const changed = async (route, change) => {
      // The browser adds this one.
      const headers = { ...(await route.request().allHeaders()), "sec-fetch-site": "same-origin" };
      await route.fulfill({ json: change(await (await route.fetch({ headers })).json()) });
    };
    const unused = "`grants.env` is granted but unused: it does not import `wasi:cli/environment`";
    const unmet = ["it asks for `/files (ro)` in `grants.dirs`, which is not granted", "it asks for `seen` in `grants.keyvalue`, which is not granted"];
    const requirement = (capability, status) => ({ capability, status, granted: [], imports: [] });
    await page.route("**/api/v1/plugins/sample", (route) => changed(route, (details) => ({
      ...details, warnings: [unused], unmet: [unused, ...unmet], requirements: [requirement("directories", "missing"), requirement("keyvalue", "not granted")],
    })));
    await page.route("**/api/v1/status*", (route) => changed(route, (status) => {
      for (const plugin of status.plugins.items.filter(({ name }) => name === "sample")) {
        plugin.state = { name: "unreachable", since: status.started, reason: "gone" };
      }
      return { ...status, search_failures: { sample: "list-entries: failed: gone" } };
    }));
    await login(page, "#/plugins/sample");
    // Whoever looks for what fails finds it first, before those that are before it by name.
    const rows = page.getByRole("region", { name: "Table of plugins" }).locator("tbody th > a:first-child");
    await rows.first().waitFor();
    assert.deepEqual((await rows.allTextContents()).slice(0, 3), ["broken", "sample", "files"]);
    const texts = (name) => page.getByRole("region", { name, exact: true }).getByRole("listitem").allTextContents();
    await page.getByRole("region", { name: "Warnings" }).waitFor();
    assert.deepEqual(await texts("Warnings"), [unused.replaceAll("`", ""), "it is not completely indexed for search: list-entries: failed: gone"]);
    assert.deepEqual(await texts("Asked for and not met"), ["it asks for /files (ro) in grants.dirs, which is not granted"]);
    assert.deepEqual(await texts("Optional, and not granted"), ["it asks for seen in grants.keyvalue, which is not granted"]);
    const headings = await page.locator(".details").getByRole("heading", { level: 3 }).allTextContents();
    assert.deepEqual(headings.slice(0, 2), ["Warnings", "Asked for and not met"]);
    await accessible(page, "a plugin with warnings");
    await page.evaluate(() => (location.hash = "#/config"));
    await page.getByRole("region", { name: "Warnings" }).getByText("sample: it is not completely indexed for search").waitFor();
    await accessible(page, "a config with warnings");
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
    // An administrator is led to the reason.
    const missing = page.locator(".problem").filter({ hasText: "読み込めませんでした" });
    assert.equal(await missing.getByRole("link", { name: "理由" }).getAttribute("href"), "#/plugins/p");
    // The page of the config says it in Japanese, too; and no word stands for two states.
    await page.route("**/api/v1/config/changes", (route) => route.fulfill({ json: {
      generation: 1, served_ms: 1000, changed: false, plugins_added: [], plugins_changed: [], changed_keys: {}, would_fail: false, plugins_removed: [],
      requires_restart: [], settings_changed: [], elapsed_ms: 1, plugins_failing: { p: "most of its calls fail, last: read: failed: gone" },
    } }));
    await page.evaluate(() => (location.hash = "#/config"));
    await page.getByText("呼び出しの多くが失敗しています。最後の理由: read: 失敗: gone").waitFor();
    await page.evaluate(() => (location.hash = "#/plugins"));
    await page.getByRole("columnheader", { name: "障害" }).waitFor();
    const states = await page.getByLabel("状態").locator("option").allTextContents();
    assert.ok(states.includes("失敗") && states.includes("遮断中") && !states.includes("一時停止"), states.join());
    await page.route("**/api/v1/plugins/sample", async (route) => {
      // The browser adds this one.
      const headers = { ...(await route.request().allHeaders()), "sec-fetch-site": "same-origin" };
      const details = await (await route.fetch({ headers })).json();
      await route.fulfill({ json: { ...details, unmet: ["it asks for `/files` in `grants.dirs`, which is not granted"] } });
    });
    await page.evaluate(() => (location.hash = "#/plugins/sample"));
    await page.getByText("grants.dirs の「/files」が必要ですが、許可されていません").waitFor();
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
    // The place in the file is underlined.
    await state.locator("pre.problem").filter({ hasText: "nonsense" }).filter({ hasText: "^^^" }).waitFor();
  },

  async restart() {
    const page = await open();
    await login(page, "#/resources");
    await marked(page);
    const plan = page.getByRole("treeitem", { name: "plan.md" });
    const gone = page.getByText("The server does not answer; trying again.");
    await plan.click();
    await page.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    // A page that only listens says it, too, and what was seen last stays.
    await step("end");
    await gone.waitFor();
    await page.getByRole("heading", { name: "The plan", exact: true }).waitFor();
    await plan.waitFor();
    await accessible(page, "resources without the server");
    await step("start");
    await page.getByText("The session has ended: the server was restarted").waitFor();
    assert.equal(await gone.count(), 0);
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.keyboard.press("Enter");
    await page.evaluate(() => (location.hash = "#/plugins"));
    await page.getByRole("link", { name: "files", exact: true }).waitFor();
    await step("end");
    await gone.waitFor();
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
    // Whoever opens the page can write at once.
    await page.locator("input[type=password]:focus").waitFor();
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
    await page.getByRole("region", { name: "Plugins" }).getByRole("link", { name: "broken", exact: true }).waitFor();
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

  /** Times are those of the reader's zone. */
  async zones() {
    const shown = [];
    for (const zone of ["Asia/Tokyo", "America/New_York"]) {
      const page = await open({ zone });
      await login(page, `#/resources/${encodeURIComponent("sample://sample/all")}`);
      const fact = page.locator("dl > div").filter({ hasText: "Changed" }).locator("dd");
      await fact.waitFor();
      shown.push([await fact.textContent(), await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone)]);
    }
    const [[tokyo], [york]] = shown;
    assert.deepEqual(shown.map(([, zone]) => zone), ["Asia/Tokyo", "America/New_York"]);
    // 15:00:58 in UTC.
    assert.match(tokyo, /^Jan 13, 2025, 12:00:58\sAM$/);
    assert.match(york, /^Jan 12, 2025, 10:00:58\sAM$/);
  },

  /** What a screen reader is told: the tree of accessibility, as the browser gives it to one. */
  async screen_reader() {
    const page = await open();
    await login(page, "#/resources");
    const tree = page.getByRole("tree", { name: "Resources" });
    await tree.getByText("plan.md").waitFor();
    const session = await page.context().newCDPSession(page);
    await session.send("Accessibility.enable");
    const nodes = async () => {
      const { nodes } = await session.send("Accessibility.getFullAXTree");
      return nodes.filter(({ ignored }) => !ignored).map(({ role, name, properties = [], backendDOMNodeId }) => ({
        role: role.value, name: name?.value ?? "", id: backendDOMNodeId,
        ...Object.fromEntries(properties.map(({ name, value }) => [name, value.value ?? value.relatedNodes?.map(({ backendDOMNodeId }) => backendDOMNodeId)])),
      }));
    };
    const found = await nodes();
    const named = (role, name) => found.find((node) => node.role === role && node.name.startsWith(name));
    for (const [role, name] of [
      ["navigation", "Pages"], ["main", ""], ["heading", "Resources"], ["searchbox", "Filter by name"], ["tree", "Resources"], ["region", "Preview"],
      ["button", "Search"], ["status", ""], ["combobox", "Language"], ["button", "Log out"],
    ]) {
      assert.ok(named(role, name), `${role} ${name}`);
    }
    const mount = named("treeitem", "files://files/");
    assert.deepEqual([mount.level, mount.expanded], [1, true]);
    assert.equal(named("treeitem", "plan.md").level, 2);
    const place = (name) => tree.getByRole("treeitem", { name }).first().evaluate((row) => [row.ariaPosInSet, row.ariaSetSize]);
    const [position, all] = (await place("plan.md")).map(Number);
    assert.ok(position > 1 && position < all, `plan.md is ${position} of ${all}`);
    // The row that the keys are at is named to whoever has the tree in focus, also one that was not an element before.
    await tree.focus();
    for (const key of ["ArrowDown", "End", "Home"]) {
      await page.keyboard.press(key);
      await page.waitForFunction(() => {
        const tree = document.querySelector("[role=tree]");
        return document.getElementById(tree.getAttribute("aria-activedescendant"))?.classList.contains("active");
      });
    }
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Preview" }).getByRole("heading").first().waitFor();
    const [selected] = (await nodes()).filter(({ role, selected }) => role === "treeitem" && selected);
    assert.ok(selected, "what is chosen is said to be");
  },

  /** TOKEN is that of a client, whom the test removes from the config. */
  async revoked() {
    const page = await open();
    await login(page);
    await page.getByRole("treeitem", { name: "plan.md" }).click();
    await page.locator(".markdown").getByText("The plan").waitFor();
    await marked(page);
    await step("revoke");
    await page.getByText("The session has ended").waitFor();
    assert.equal(await page.getByText("plan").count(), 0, "the data are gone");
    assert.ok(await marked(page), "the page was not loaded again");
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.keyboard.press("Enter");
    await page.getByRole("alert").last().waitFor();
    assert.equal(await page.getByRole("navigation").count(), 0);
  },

  /**
   * The plugin `prepared` waits in the middle of its preparation, `fails` cannot prepare, and `forbidden` may not; `trapping` is suspended, and
   * `ungranted` lacks a grant.
   */
  async states() {
    const page = await open();
    await login(page, "#/plugins");
    const table = page.getByRole("region", { name: "Table of plugins" });
    await table.getByRole("row", { name: /^prepared / }).getByText("being prepared, 50 %").waitFor();
    await table.getByRole("row", { name: /^fails / }).getByText("preparation fails").waitFor();
    const show = async (name) => {
      await page.evaluate((name) => (location.hash = `#/plugins/${name}`), name);
      await page.getByRole("heading", { name, level: 2 }).waitFor();
      return page.getByRole("region", { name: "Preparation" });
    };
    const preparation = await show("prepared");
    await preparation.getByText("running", { exact: true }).waitFor();
    await preparation.getByText("2 of 4 steps").waitFor();
    const meter = preparation.getByRole("meter", { name: "Prepared" });
    assert.equal(await meter.evaluate(({ value }) => value), 0.5);
    await preparation.getByText("50 % / 100 %").waitFor();
    await preparation.getByRole("meter", { name: "Its CPU time" }).waitFor();
    const since = preparation.locator("dl > div").filter({ hasText: "Since" }).locator("dd");
    assert.match(await since.textContent(), /^[A-Z][a-z]{2} \d+, \d{4}, \d+:\d\d:\d\d\s[AP]M$/);
    await page.locator("dt").getByText("prepare.cpu", { exact: true }).waitFor();
    await page.locator("dt").getByText("prepare.memory", { exact: true }).waitFor();
    await accessible(page, "a preparation");
    await step("go on");
    await preparation.getByText("done", { exact: true }).waitFor();
    await preparation.getByText("100 % / 100 %").waitFor();
    await table.getByRole("row", { name: /^prepared / }).getByText("being prepared").waitFor({ state: "detached" });

    await show("fails");
    await preparation.getByText("failing", { exact: true }).waitFor();
    await preparation.getByText(/^It has failed since .*, and is tried again: the source is locked$/).waitFor();
    await accessible(page, "a preparation that fails");
    await show("forbidden");
    await preparation.getByText("off", { exact: true }).waitFor();
    await preparation.getByText("limits.prepare = {").waitFor();
    await accessible(page, "a preparation that is not allowed");

    // The time until the next probe is counted down, here a long one; a reset does not wait for it.
    await page.route("**/api/v1/plugins/trapping", async (route) => {
      // The browser adds this one.
      const headers = { ...(await route.request().allHeaders()), "sec-fetch-site": "same-origin" };
      const details = await (await route.fetch({ headers })).json();
      if (details.status.state.name === "suspended") {
        details.status.state.retry_in_ms += 60_000;
      }
      await route.fulfill({ json: details });
    });
    await show("trapping");
    const details = page.getByRole("region", { name: "trapping", exact: true });
    const countdown = details.getByText(/The next call is preceded by a probe in \d/);
    const first = await countdown.textContent();
    await page.waitForFunction((first) => document.querySelector(".details > .problem")?.textContent !== first, first);
    await accessible(page, "a plugin that is suspended");
    await details.locator(".log").getByText(/trap/).first().waitFor();
    await step("repair");
    await page.getByRole("button", { name: "Reset" }).click();
    await details.getByText("ready", { exact: true }).waitFor();

    await show("ungranted");
    const unmet = page.getByRole("heading", { name: "Asked for and not met" });
    await unmet.waitFor();
    const precedes = (heading) => heading.compareDocumentPosition(document.querySelector(".charts")) & Node.DOCUMENT_POSITION_FOLLOWING;
    assert.ok(await unmet.evaluate(precedes), "it is before the charts");
    await page.locator(".unmet").getByText("/files").waitFor();
    await accessible(page, "a plugin without a grant");
  },

  /** Each page in Japanese, on a narrow screen and on a wide one. */
  async japanese() {
    const page = await open({ language: "ja-JP" });
    await page.goto(`${address}/`);
    await page.getByLabel("トークン", { exact: true }).fill(token);
    await page.getByRole("button", { name: "ログイン" }).click();
    for (const [name, heading] of [
      ["resources", "リソース"], ["context", "コンテキスト"], ["view-as", "視点の比較"], ["plugins/sample", "プラグイン"], ["live", "ライブ"], ["config", "設定"],
    ]) {
      await page.evaluate((hash) => (location.hash = hash), `#/${name}`);
      await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
      for (const width of [2560, 360]) {
        await page.setViewportSize({ width, height: 900 });
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(overflow, 0, `${name} in Japanese at ${width} px`);
        await accessible(page, `${name} in Japanese at ${width} px`);
      }
    }
  },

  /** The same pages in Japanese, in the dark, and on a narrow and on a wide screen. */
  async appearance() {
    const dark = await open({ scheme: "dark" });
    await login(dark);
    // What a picture of a page needs besides.
    const filled = {
      context: async () => {
        await dark.getByLabel("Question").fill("breaker");
        await dark.getByRole("button", { name: "Choose passages" }).click();
        await dark.locator(".hits li").first().waitFor();
      },
      "plugins/sample": () => charted(dark),
      live: async () => {
        await dark.getByText("Following the audit log").waitFor();
        await login(await open());
        await dark.getByRole("cell", { name: "admin-view" }).first().waitFor();
      },
    };
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
      await filled[name]?.();
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
