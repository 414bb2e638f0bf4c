// Times that a person waits for, as the browser has them: printed, and compared with nothing.
import { randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { address, files, login, open } from "./browser.mjs";

/** The pause before an edit in milliseconds, another one each time: the server polls at intervals of its own. */
const PAUSE = [1500, 2500];

/** Prints the median and the longest of times in milliseconds: `figure NAME MEDIAN LONGEST TURNS`. */
function print(name, times) {
  const sorted = times.toSorted((one, other) => one - other);
  console.log(`figure ${name} ${sorted[Math.floor(sorted.length / 2)].toFixed(0)} ${sorted.at(-1).toFixed(0)} ${times.length}`);
}

/** The time when the rows of the tree were drawn first, since the page was requested, and their number. */
async function firstView(page) {
  return page.evaluate(async () => {
    while (!document.querySelector("[role=tree] [role=treeitem][aria-selected]")) {
      await new Promise(requestAnimationFrame);
    }
    // The frame in which they are drawn has ended when the next one begins.
    await new Promise(requestAnimationFrame);
    return { time: performance.now(), rows: document.querySelectorAll("[role=treeitem]").length };
  });
}

/** Edits FILE, which the page shows as Markdown, each time to another heading. Returns the times until that is drawn. */
async function edits(page, file, turns) {
  const times = [];
  for (let turn = 0; turn < turns; turn += 1) {
    await pause(randomInt(...PAUSE));
    const heading = `Edit ${turn}`;
    const seen = page.evaluate(async (heading) => {
      while (document.querySelector(".markdown h1")?.textContent !== heading) {
        await new Promise(requestAnimationFrame);
      }
      return Date.now();
    }, heading);
    const edited = Date.now();
    writeFileSync(file, `# ${heading}\n`);
    times.push((await seen) - edited);
  }
  return times;
}

/**
 * FILES is a file with the number of `turns`, and with the paths of two files with the heading `Before`: that of `files://files/edited.md`, and
 * that of `files://many/000/00499.md`.
 */
export async function figures() {
  const { few, many, turns } = JSON.parse(readFileSync(files, "utf8"));
  const page = await open();
  await login(page);
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  const views = { "first-view": [], "first-view-again": [] };
  let rows = 0;
  for (let turn = 0; turn < turns; turn += 1) {
    await session.send("Network.clearBrowserCache");
    for (const name of Object.keys(views)) {
      await page.goto("about:blank");
      await page.goto(`${address}/`, { waitUntil: "commit" });
      const view = await firstView(page);
      views[name].push(view.time);
      rows = Math.max(rows, view.rows);
    }
  }
  for (const [name, times] of Object.entries(views)) {
    print(name, times);
  }
  console.log(`figure rows ${rows} ${rows} ${turns}`);

  for (const [name, uri, file] of [["edit-small", "files://files/edited.md", few], ["edit-many", "files://many/000/00499.md", many]]) {
    await page.goto("about:blank");
    await page.goto(`${address}/`, { waitUntil: "commit" });
    await firstView(page);
    await page.evaluate((uri) => (location.hash = `#/resources/${encodeURIComponent(uri)}`), uri);
    await page.getByRole("heading", { name: "Before", exact: true }).waitFor();
    await page.getByText("Changes appear by themselves.").waitFor();
    print(name, await edits(page, file, turns));
  }

  const filter = [];
  for (let turn = 0; turn < Math.min(turns, 3); turn += 1) {
    await page.reload();
    await firstView(page);
    const began = Date.now();
    await page.getByLabel("Filter by name").fill("99999.txt");
    await page.getByText(/ all, 1 match$/).waitFor();
    filter.push(Date.now() - began);
  }
  print("filter", filter);
}
