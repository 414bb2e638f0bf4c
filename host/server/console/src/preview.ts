// Contents as elements: Markdown, source with highlighting, tables. Loaded with the first preview.
//
// What providers write is hostile. Markup is only made of it by libraries, and what these make passes the sanitizer, which keeps a list of
// elements and nothing that loads, runs or styles.

import createDOMPurify from "dompurify";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { Marked } from "marked";
import Papa from "papaparse";

const LANGUAGES = { bash, c, css, diff, go, ini, java, javascript, json, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) {
  hljs.registerLanguage(name, language);
}

/** A longer text is shown without highlighting. */
const MAX_HIGHLIGHTED = 200_000;
/** A longer Markdown text, or one with a longer paragraph, is shown as it is: the library takes the square of their length. */
const MAX_MARKDOWN = 200_000;
const MAX_PARAGRAPH = 30_000;
/** A text that becomes more elements is shown as it is: the browser would lay them out for a long time. */
const MAX_ELEMENTS = 30_000;

const TAGS = [
  "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "kbd",
  "li", "ol", "p", "pre", "s", "samp", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
];

const purify = createDOMPurify(window);

function sanitize(html: string): DocumentFragment {
  return purify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["class", "href", "start", "colspan", "rowspan"],
    // Resources have any scheme. Links become buttons, but for those of the web; DOMPurify drops scripts and data.
    ALLOW_UNKNOWN_PROTOCOLS: true,
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const marked = new Marked({
  gfm: true,
  renderer: {
    // Images would be loaded from elsewhere: their text stands for them.
    image: ({ text, href }) => escape(`[${text || href}]`),
    html: ({ text }) => escape(text),
  },
});

/**
 * Markdown as elements. A link to another site opens when it is clicked, in a tab that knows nothing of this one; any other is a button
 * that opens the resource. A table scrolls, also by the keyboard.
 */
export function markdown(text: string, base: string, open: (uri: string) => void, labelOfTables: string): DocumentFragment {
  const preformatted = document.createElement("pre");
  preformatted.append(text);
  const isLong = text.length > MAX_MARKDOWN || text.split(/\n[ \t\r]*\n/).some((paragraph) => paragraph.length > MAX_PARAGRAPH);
  return (isLong ? null : made(() => parsed(text, base, open, labelOfTables))) ?? fragmentOf(preformatted);
}

function parsed(text: string, base: string, open: (uri: string) => void, labelOfTables: string): DocumentFragment {
  // Markdown would take it for a rule and a heading.
  const front = /^---\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/.exec(text);
  const fragment = sanitize(marked.parse(front ? text.slice(front[0].length) : text, { async: false }));
  if (front) {
    const block = document.createElement("pre");
    block.append(source(front[1] ?? "", "yaml"));
    fragment.prepend(block);
  }
  // Classes of a text would be those of this page.
  for (const element of fragment.querySelectorAll("[class]")) {
    const language = /^language-([\w+#-]+)$/.exec(element.className)?.[1];
    element.removeAttribute("class");
    if (element.tagName === "CODE" && language && hljs.getLanguage(language)) {
      element.replaceChildren(source(element.textContent ?? "", language));
    }
  }
  for (const link of fragment.querySelectorAll("a")) {
    const href = link.getAttribute("href") ?? "";
    link.removeAttribute("href");
    if (/^https?:\/\//i.test(href)) {
      link.href = href;
      link.target = "_blank";
      link.rel = "noopener noreferrer nofollow";
      continue;
    }
    const target = resolve(href, base);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.append(...link.childNodes);
    if (target === null) {
      button.disabled = true;
    } else {
      button.title = target;
      button.addEventListener("click", () => open(target));
    }
    link.replaceWith(button);
  }
  for (const table of fragment.querySelectorAll("table")) {
    const scroll = document.createElement("div");
    scroll.className = "scroll";
    scroll.tabIndex = 0;
    scroll.role = "region";
    scroll.ariaLabel = labelOfTables;
    table.replaceWith(scroll);
    scroll.append(table);
  }
  return fragment;
}

/** The URI that a link of a resource leads to; null if it leads to none. */
function resolve(href: string, base: string): string | null {
  if (href === "" || href.startsWith("#") || /^\s*(javascript|data|vbscript):/i.test(href)) {
    return null;
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(href)) {
    return href;
  }
  // Browsers resolve against URIs of some schemes only: the path is resolved below another one.
  const parts = /^([a-z][a-z0-9+.-]*:\/\/[^/]*)(\/.*)?$/i.exec(base);
  if (!parts) {
    return null;
  }
  try {
    const url = new URL(href, `http://host${parts[2] ?? "/"}`);
    return `${parts[1]}${url.pathname}${url.search}`;
  } catch {
    return null;
  }
}

/** A text with highlighting, if the language is known and the text is not too long. */
export function source(text: string, language: string | null): DocumentFragment {
  if (language && hljs.getLanguage(language) && text.length <= MAX_HIGHLIGHTED) {
    return made(() => sanitize(hljs.highlight(text, { language, ignoreIllegals: true }).value)) ?? fragmentOf(text);
  }
  return fragmentOf(text);
}

/** What is made of a text; null if that fails or has too many elements. */
function made(make: () => DocumentFragment): DocumentFragment | null {
  try {
    const fragment = make();
    return fragment.querySelectorAll("*").length <= MAX_ELEMENTS ? fragment : null;
  } catch {
    // The text is nested too deeply for the library.
    return null;
  }
}

function fragmentOf(content: Node | string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fragment.append(content);
  return fragment;
}

/** The rows of a text with fields that commas, semicolons or tabs separate. */
export function rows(text: string, limit: number): string[][] {
  return Papa.parse<string[]>(text, { preview: limit, skipEmptyLines: true }).data;
}
