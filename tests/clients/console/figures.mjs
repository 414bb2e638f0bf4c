// Times that a person waits for, as the browser has them: printed, and compared with nothing.
//
// Each step that waits for the page has a timeout, with a message that says what was waited for. The ends of the steps are printed on
// standard error.
import { randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { address, files, login, open, within } from "./browser.mjs";

/** The pause before an edit in milliseconds, another one each time: the server polls at intervals of its own. */
const PAUSE = [1500, 2500];

/** The longest waits in milliseconds, on a busy machine with a debug build: for a page or an edit, and for the whole catalog. */
const SHOWN = 30_000;
const LOADED = 120_000;

/** Prints the median and the longest of times in milliseconds, `figure NAME MEDIAN LONGEST TURNS`, and all of them, `times NAME TIME…`. */
function print(name, times) {
  console.log(`times ${name} ${times.map((time) => time.toFixed(1)).join(" ")}`);
  const sorted = times.toSorted((one, other) => one - other);
  console.log(`figure ${name} ${sorted[Math.floor(sorted.length / 2)].toFixed(0)} ${sorted.at(-1).toFixed(0)} ${times.length}`);
}

/** Runs a step, and says how long it took. */
async function step(name, run) {
  const began = Date.now();
  const result = await run();
  console.error(`console: ${name}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
  return result;
}

/** The time when the rows of the tree were drawn first, since the page was requested, and their number. */
async function firstView(page) {
  const drawn = page.evaluate(async () => {
    while (!document.querySelector("[role=tree] [role=treeitem][aria-selected]")) {
      await new Promise(requestAnimationFrame);
    }
    // The frame in which they are drawn has ended when the next one begins.
    await new Promise(requestAnimationFrame);
    return { time: performance.now(), rows: document.querySelectorAll("[role=treeitem]").length };
  });
  return within(SHOWN, "the first rows of the tree of resources", drawn);
}

/** Opens the page anew, at its first view. */
async function openAnew(page) {
  await page.goto("about:blank");
  await within(SHOWN, `an answer to GET ${address}/`, page.goto(`${address}/`, { waitUntil: "commit" }));
  return firstView(page);
}

/** The times of first views, without and with the files of the page in the browser's cache, and the largest number of rows. */
async function views(page, turns) {
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  const [first, again] = [[], []];
  for (let turn = 0; turn < turns; turn += 1) {
    await session.send("Network.clearBrowserCache");
    first.push(await openAnew(page));
    again.push(await openAnew(page));
  }
  print("first-view", first.map(({ time }) => time));
  print("first-view-again", again.map(({ time }) => time));
  const rows = Math.max(...[...first, ...again].map(({ rows }) => rows));
  console.log(`figure rows ${rows} ${rows} ${turns}`);
}

/** Edits FILE, which the page shows as Markdown at URI, each time to another heading. Returns the times until that is drawn. */
async function edits(page, uri, file, turns) {
  await openAnew(page);
  await page.evaluate((uri) => (location.hash = `#/resources/${encodeURIComponent(uri)}`), uri);
  const before = page.getByRole("heading", { name: "Before", exact: true }).waitFor();
  await within(SHOWN, `the content of ${uri}`, before);
  await within(SHOWN, `the stream of changes of ${uri}`, page.getByText("Changes appear by themselves.").waitFor());
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
    times.push((await within(SHOWN, `the edit ${turn + 1} of ${uri} in the preview`, seen)) - edited);
  }
  return times;
}

/** The times of a filter by name, until all resources were looked at. */
async function filters(page, turns) {
  const times = [];
  for (let turn = 0; turn < turns; turn += 1) {
    await openAnew(page);
    const began = Date.now();
    await page.getByLabel("Filter by name").fill("99999.txt");
    const found = page.getByText(/ all, 1 match$/).waitFor({ timeout: 0 });
    await within(LOADED, "a filter that has looked at all resources", found);
    times.push(Date.now() - began);
  }
  return times;
}

/**
 * FILES is a file with the number of `turns`, and that of `filters`, and with the paths of two files with the heading `Before`: `few`, that of
 * `files://files/edited.md`, and `many`, that of `files://many/000/00499.md`.
 */
export async function figures() {
  const { few, many, turns, filters: filterTurns } = JSON.parse(readFileSync(files, "utf8"));
  const page = await open();
  await step("the login", () => within(SHOWN, "the login", login(page)));
  await step(`${turns} first views, and ${turns} again`, () => views(page, turns));
  print("edit-small", await step(`${turns} edits of one of three files`, () => edits(page, "files://files/edited.md", few, turns)));
  print("edit-many", await step(`${turns} edits of one of 100,000 files`, () => edits(page, "files://many/000/00499.md", many, turns)));
  print("filter", await step(`${filterTurns} filters of 100,000 files`, () => filters(page, filterTurns)));
}
