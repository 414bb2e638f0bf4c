// Providers of functions: the contract, by resources that are functions.

import { converted } from "./arguments.js";
import { Internal, InvalidRequest, NotFound } from "./failures.js";
import { File, isBelow } from "./file.js";
import { pageOf } from "./listing.js";
import { compareChanges, matching, Provider, sizeOf } from "./provider.js";
import { checkDistinct } from "./resource.js";
import { contentsOf, entryOfFile, fingerprintOf } from "./results.js";
import { compareText } from "./text.js";

/** Returns the class of a provider, which the module exports as its default. */
export function provider(info, resources) {
  if (!Array.isArray(resources)) throw new TypeError("provider(info, resources): expected an array of resource(…)");
  checkDistinct(resources);
  return class extends FunctionProvider {
    static info = { watches: true, ...info };

    constructor(config) {
      super(config, resources);
    }
  };
}

class FunctionProvider extends Provider {
  #config;
  #resources;
  #listed;

  constructor(config, resources) {
    super(config);
    this.#config = config;
    // A path without variables is preferred to templates.
    this.#resources = [...resources].sort((a, b) => Math.min(a.inPath.length, 1) - Math.min(b.inPath.length, 1));
    this.#listed = resources.filter((resource) => resource.isListed);
    this.templates = resources.filter(({ pattern }) => pattern.variables.length > 0).map(({ declared }) => declared);
  }

  listEntries(parent, cursor, limit) {
    if (parent !== undefined) {
      this.stat(parent);
      throw new InvalidRequest("expected no parent: this resource has no children");
    }
    return pageOf(this.#listed.map((resource) => () => this.#items(resource)), cursor, limit);
  }

  read(path) {
    const [resource, values] = this.#find(path);
    return contentsOf(entryOf(resource, path), resource.read(values, this.#config), `read of "${resource.declared.pathTemplate}"`);
  }

  stat(path) {
    const [resource, values] = this.#find(path);
    const body = resource.read(values, this.#config);
    const entry = entryOf(resource, path);
    if (body instanceof File) return entryOfFile(entry, body);
    const where = `read of "${resource.declared.pathTemplate}"`;
    const contents = contentsOf(entry, body, where).find((one) => one.entry.path === path);
    if (!contents) throw new Internal(`${where} returned no content with the path ${JSON.stringify(path)}`);
    return { ...contents.entry, size: sizeOf(contents) };
  }

  complete(pathTemplate, variable, value, known) {
    const resource = this.#resources.find(({ pattern }) => pattern.text === pathTemplate && pattern.variables.length > 0);
    if (!resource) throw new InvalidRequest(`expected a template as \`resources/templates/list\` has it, found "${pathTemplate}"`);
    const { pattern, complete, types } = resource;
    if (!pattern.variables.includes(variable)) {
      throw new InvalidRequest(`expected a variable of "${pathTemplate}" (${pattern.variables.join(", ")}), found "${variable}"`);
    }
    if (Object.hasOwn(complete, variable)) {
      const found = complete[variable](value, known, this.#config);
      return Symbol.iterator in found ? matching(found, value) : found;
    }
    if (types[variable].choices.length > 0) return matching(types[variable].choices, value);
    const lists = [resource, ...this.#resources].find(({ list, inPath }) => list && inPath.includes(variable));
    return lists ? completed(this.#values(lists), variable, value, known) : { values: [] };
  }

  changes(watched, since) {
    const items = this.#listed.flatMap((resource) => [...this.#values(resource)].map(({ values, item }) => stateOfItem(resource, values, item)));
    return compareChanges(watched, since, { state: (path) => this.#state(path), listing: items.sort(compareText) });
  }

  #state(path) {
    try {
      const [resource, values] = this.#find(path);
      if (resource.fingerprint) return resource.fingerprint(values, this.#config);
      return fingerprintOf(resource.read(values, this.#config));
    } catch (error) {
      if (error instanceof NotFound) return undefined;
      if (error instanceof InvalidRequest) return error.message;
      throw error;
    }
  }

  /** The resource of a path, with the values of its variables. */
  #find(path) {
    for (const resource of this.#resources) {
      const variables = resource.pattern.match(path);
      if (variables) return [resource, converted(resource.pattern, resource.types, variables)];
    }
    throw new NotFound();
  }

  /** The values of the variables of each resource that is listed. What the template cannot have is left out. */
  *#values(resource) {
    if (!resource.list) {
      yield { path: resource.pattern.expand({}), values: {}, item: { value: [] } };
      return;
    }
    for (const listed of resource.list(this.#config)) {
      const item = itemOf(listed);
      const values = valuesOf(resource, item);
      const path = expanded(resource.pattern, values);
      const found = path === undefined ? undefined : resource.pattern.match(path);
      const isReached = found !== undefined && resource.inPath.every((name) => found[name] === values[name]);
      if (isReached && isBelow(path) && !path.split("/").includes(".")) yield { path, values, item };
      else console.warn(`no path of "${resource.pattern.text}" has the value ${JSON.stringify(item.value)}`);
    }
  }

  *#items(resource) {
    for (const { path, item } of this.#values(resource)) yield { path, entry: () => entryOfItem(resource, path, item) };
  }
}

/** The entry of a path, by what is declared. What is declared of a template describes the family. */
function entryOf(resource, path) {
  const { declared, pattern, inPath, ttlMs, subscribable } = resource;
  const { title, description, mimeType, audience, priority, icons, meta } = declared;
  const variables = pattern.match(path) ?? {};
  const name = inPath.map((one) => variables[one]).join("/") || declared.name;
  const described = inPath.length === 0 ? { title, description } : {};
  return { path, name, ...described, mimeType, audience, priority, icons, meta, ttlMs, subscribable };
}

/** The entry of an item; undefined if its file is gone. */
function entryOfItem(resource, path, { value: _, file, ...metadata }) {
  const given = Object.fromEntries(Object.entries(metadata).filter(([, one]) => one !== undefined && one !== null));
  const entry = { ...entryOf(resource, path), ...given };
  try {
    return file ? entryOfFile(entry, file) : entry;
  } catch (error) {
    if (error instanceof NotFound) return undefined;
    throw error;
  }
}

/** An item of what a listing gave: a value, a file, or an object with `value` and metadata. */
function itemOf(listed) {
  if (listed instanceof File) return { value: listed.name, file: listed };
  const isItem = typeof listed === "object" && listed !== null && !Array.isArray(listed) && "value" in listed;
  return isItem ? listed : { value: listed };
}

/** The variables of the path, as text. */
function valuesOf({ inPath, pattern }, { value }) {
  const isObject = typeof value === "object" && value !== null && !(value instanceof Date);
  const given = isObject && !Array.isArray(value) ? value : Object.fromEntries(inPath.map((name, at) => [name, [value].flat()[at]]));
  const count = Array.isArray(value) ? value.length : inPath.length;
  if (count !== inPath.length || inPath.some((name) => given[name] === undefined || given[name] === null)) {
    throw new Internal(`the listing of "${pattern.text}" gave ${JSON.stringify(value)}; expected values of ${inPath.join(", ")}`);
  }
  return Object.fromEntries(inPath.map((name) => [name, textOf(given[name])]));
}

const textOf = (value) => (value instanceof Date ? value.toISOString().replace(/T00:00:00\.000Z$/, "") : String(value));

function expanded(pattern, values) {
  try {
    return pattern.expand(values);
  } catch {
    return undefined; // A name with half a pair of UTF-16.
  }
}

function stateOfItem(resource, values, { file, ...item }) {
  try {
    return JSON.stringify([resource.pattern.text, values, item, fingerprintOf(file)]);
  } catch (error) {
    if (error instanceof NotFound) return "";
    throw error;
  }
}

/** The values of a variable in a listing, in items with the known values of the other variables. */
function completed(listed, variable, typed, known) {
  const isBeside = ({ values }) =>
    Object.entries(known).every(([name, value]) => name === variable || (values[name] ?? value) === value);
  return matching([...listed].filter(isBeside).map(({ values }) => values[variable]), typed);
}
