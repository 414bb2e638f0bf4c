// The browser that drives the console: pages, logins, and what every page is checked for.
//
// The arguments are those of `console.mjs`.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { chromium } from "playwright-core";

export const [part, address, token, folder, files] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Other tests use the processors as well. */
const TIMEOUT = 120_000;

export const browser = await chromium.launch({
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
export async function step(name) {
  answers ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log(`step ${name}`);
  const { done } = await answers.next();
  assert.ok(!done, `the test does not know ${name}`);
}

/** Waits for WAITED, at most so long in milliseconds. WHAT says what was waited for. */
export async function within(milliseconds, what, waited) {
  const ending = new AbortController();
  const late = async () => {
    await pause(milliseconds, undefined, { signal: ending.signal });
    throw new Error(`waited ${milliseconds / 1000} s for ${what}`);
  };
  try {
    return await Promise.race([waited, late()]);
  } finally {
    ending.abort();
  }
}

/** What went wrong in the browser. */
export const faults = [];

export async function open({ language = "en-GB", scheme = "light", width = 1280, height = 900, zone = "UTC" } = {}) {
  const context = await browser.newContext({ locale: language, colorScheme: scheme, timezoneId: zone, viewport: { width, height } });
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

export async function login(page, hash = "") {
  await page.goto(`${address}/`);
  await page.getByLabel("Token", { exact: true }).fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation").waitFor();
  if (hash) {
    await page.evaluate((hash) => (location.hash = hash), hash);
  }
}

/** Checks the accessibility of what is shown: WCAG 2.2 AA. */
export async function accessible(page, where) {
  // The policy of the page allows no script of ours but by the driver.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }),
  );
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(found, [], where);
}

export async function picture(page, name) {
  // What was clicked may have been scrolled to.
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** Fails if the page was loaded again since this was called first. */
export async function marked(page) {
  const isMarked = await page.evaluate(() => {
    const was = globalThis.isMarked === true;
    globalThis.isMarked = true;
    return was;
  });
  return isMarked;
}

/** Moves the focus by the keyboard until it is on what a selector matches. */
export async function tabTo(page, selector, key = "Tab") {
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
export async function unharmed(page, where) {
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
