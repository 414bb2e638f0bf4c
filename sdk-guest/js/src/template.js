// Path templates: matching and expanding RFC 6570 templates.

import { decode, encodeQuery, encodeSegment, splitQuery } from "./text.js";

const EXPRESSION = /\{([^{}]*)\}/g;

const escape = (text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

export class PathTemplate {
  #pattern;
  #inPath = [];
  #query = [];

  constructor(text) {
    this.text = text;
    let pattern = "";
    let end = 0;
    for (const expression of text.matchAll(EXPRESSION)) {
      pattern += this.#literal(text.slice(end, expression.index)) + this.#variable(expression[1]);
      end = expression.index + expression[0].length;
    }
    this.#pattern = new RegExp(`^${pattern}${this.#literal(text.slice(end))}$`, "s");
  }

  get variables() {
    return [...this.#inPath.map(({ name }) => name), ...this.#query];
  }

  get queryVariables() {
    return [...this.#query];
  }

  match(path) {
    const [segments, query] = splitQuery(path);
    const found = this.#pattern.exec(segments);
    if (!found) return undefined;
    const values = {};
    for (const [index, { name, isRest }] of this.#inPath.entries()) {
      const value = decode(found[index + 1]);
      // No file name contains a slash, so an encoded one is not part of a path of several.
      if (value === undefined || (isRest && /%2f/i.test(found[index + 1]))) return undefined;
      values[name] = value;
    }
    for (const pair of query ? query.split("&") : []) {
      const equals = pair.indexOf("=");
      const name = equals < 0 ? pair : pair.slice(0, equals);
      const value = decode(equals < 0 ? "" : pair.slice(equals + 1));
      if (!this.#query.includes(name) || Object.hasOwn(values, name) || value === undefined) return undefined;
      values[name] = value;
    }
    return values;
  }

  expand(values) {
    return this.text.replace(EXPRESSION, (_, content) => {
      if (content.startsWith("?")) {
        const given = this.#query.filter((name) => values[name] !== undefined);
        return given.length ? `?${given.map((name) => `${name}=${encodeQuery(values[name])}`).join("&")}` : "";
      }
      const name = content.replace("+", "");
      const value = values[name];
      if (value === undefined) throw new TypeError(`the template ${this.text} needs a value for ${name}`);
      return content.startsWith("+") ? value.split("/").map(encodeSegment).join("/") : encodeSegment(value);
    });
  }

  #literal(text) {
    if (/[{}?]/.test(text)) throw new TypeError(`the template ${this.text} is malformed at ${text}`);
    if (text && this.#query.length) this.#fail("something behind its query");
    return escape(text);
  }

  #variable(content) {
    const operator = /^[+?]/.exec(content)?.[0] ?? "";
    const names = content.slice(operator.length).split(",");
    if (this.#query.length) this.#fail("something behind its query");
    for (const name of names) {
      const isNew = !this.#inPath.some((known) => known.name === name);
      if (!/^\w+$/.test(name) || !isNew || (names.length > 1 && operator !== "?")) {
        this.#fail(`{${content}}; supported are {var}, {+var} and {?a,b}, each variable once`);
      }
    }
    if (operator === "?") {
      this.#query = names;
      return "";
    }
    this.#inPath.push({ name: names[0], isRest: operator === "+" });
    return operator === "+" ? "(.*)" : "([^/]+)";
  }

  #fail(found) {
    throw new TypeError(`the template ${this.text} has ${found}`);
  }
}

export function template(pathTemplate, { read, complete = {}, ...metadata }) {
  const pattern = new PathTemplate(pathTemplate);
  for (const name of Object.keys(complete)) {
    if (!pattern.variables.includes(name)) throw new TypeError(`the template ${pathTemplate} has no variable ${name}`);
  }
  return { ...metadata, pathTemplate, pattern, read, complete };
}
