// A catalog of 100,000 files, and 200 plugins: each page shows it, with few rows as elements.
import assert from "node:assert/strict";
import { accessible, login, open } from "./browser.mjs";

/** The rows of a tree or a table that are elements, at most. */
const MAX_ROWS = 60;

/** The time for the whole catalog to be loaded, beside other tests, in milliseconds. */
const LOADED = 600_000;

/** Checks that few rows are elements, and that there are some. */
async function few(rows, where) {
  const count = await rows.count();
  assert.ok(count > 0 && count <= MAX_ROWS, `${count} rows of ${where}`);
}

/**
 * ADDRESS serves 200 plugins: `many` with 100,000 files `DIRECTORY/NUMBER.txt`, of which those of the directory `000` are searched, `files` with
 * three files, `broken`, which cannot be loaded, and 197 of the guest `sample`. The host adds those of search.
 */
export async function large() {
  const page = await open();
  await login(page);
  const tree = page.getByRole("tree");
  const rows = page.getByRole("treeitem");
  await tree.getByText("00000.txt").waitFor();
  await few(rows, "the first view");
  await accessible(page, "the first of 100,000 resources");

  // By the keyboard to what is not loaded yet: the end is that of what is loaded, and more is loaded there.
  await tree.focus();
  for (let times = 0; times < 4; times += 1) {
    await page.keyboard.press("End");
    await page.keyboard.press("PageUp");
    await few(rows, "a later view");
  }

  // A filter looks at all of it.
  const name = page.getByLabel("Filter by name");
  const shown = tree.getByRole("treeitem");
  await name.fill("99999.txt");
  await page.getByText(/^100,[0-9]{3} loaded, all, 1 match$/).waitFor({ timeout: LOADED });
  await shown.getByText("files://many/199/99999.txt").waitFor();
  await shown.click();
  const preview = page.getByRole("region", { name: "Preview" });
  await preview.getByText("The note 99999").waitFor();
  await name.fill("");
  await rows.nth(10).waitFor();
  await few(rows, "the whole catalog");
  await tree.focus();
  await page.keyboard.press("End");
  await tree.getByRole("treeitem", { name: "plain" }).last().waitFor();
  await few(rows, "the end of the whole catalog");
  await page.getByText("More filters").click();
  await page.getByLabel("Plugin").selectOption("p7");
  await page.getByText(/ all, 3 match$/).waitFor();
  await page.getByLabel("Plugin").selectOption("many");
  await page.getByText(/ all, 100,000 match$/).waitFor();
  await few(rows, "those of one plugin");
  await accessible(page, "a filter of 100,000 resources");

  // Search, and the context of a question.
  await page.getByRole("button", { name: "Search", exact: true }).first().click();
  await page.getByLabel("Words").fill("zebra");
  await page.getByLabel("Words").press("Enter");
  await page.getByText(/^1 found/).waitFor();
  await page.locator(".hits mark").getByText("zebra").waitFor();
  await page.locator(".hits").getByRole("button").click();
  await preview.getByText("The note 400").waitFor();
  await page.evaluate(() => (location.hash = "#/context"));
  await page.getByLabel("Question").fill("zebra");
  await page.getByRole("button", { name: "Choose passages" }).click();
  await page.locator(".hits li").getByText("The note 400").waitFor();
  await accessible(page, "the context of one of 100,000 resources");

  await page.evaluate(() => (location.hash = "#/view-as"));
  for (const label of ["One principal", "Another principal"]) {
    const side = page.getByRole("region", { name: label });
    await side.getByText("00000.txt").waitFor();
    await few(side.getByRole("treeitem"), label);
  }
  await accessible(page, "two views of 100,000 resources");

  await page.evaluate(() => (location.hash = "#/plugins"));
  const table = page.getByRole("region", { name: "Table of plugins" });
  await page.getByText("202 of 202 plugins").waitFor();
  assert.ok((await table.getByRole("row").count()) > 10);
  await few(table.getByRole("row"), "200 plugins");
  await table.evaluate((table) => table.scrollTo(0, table.scrollHeight));
  await page.getByRole("link", { name: "p99", exact: true }).waitFor();
  await few(table.getByRole("row"), "the end of 200 plugins");
  await accessible(page, "200 plugins");
  await page.getByLabel("State").selectOption("failed");
  await page.getByText("1 of 202 plugins").waitFor();
  await page.getByRole("link", { name: "broken", exact: true }).waitFor();
  await page.getByLabel("State").selectOption("attention");
  await page.getByText("1 of 202 plugins").waitFor();
  await page.getByLabel("State").selectOption("");
  await page.getByRole("searchbox").fill("p19");
  await page.getByText("8 of 202 plugins").waitFor();
  await page.getByRole("link", { name: "p196", exact: true }).click();
  await page.getByRole("heading", { name: "p196" }).waitFor();

  await page.evaluate(() => (location.hash = "#/live"));
  await page.getByText("Following the audit log").waitFor();
  const other = await open();
  await login(other);
  await page.getByRole("cell", { name: "admin-view" }).first().waitFor();
  await accessible(page, "live, beside 100,000 resources");

  await page.evaluate(() => (location.hash = "#/config"));
  await page.getByRole("heading", { name: "Access rules" }).waitFor();
  await page.getByRole("link", { name: "p196", exact: true }).waitFor();
  await accessible(page, "the config of 200 plugins");
}
