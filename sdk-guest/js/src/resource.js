// Resources by functions: each reads one resource, or all of a template.

import { typesOf } from "./arguments.js";
import { PathTemplate } from "./template.js";
import { decode, encodeSegment } from "./text.js";

const EXPRESSION = /\{(\+?)[^{}?]*\}/g;
const METADATA = ["name", "title", "description", "mimeType", "audience", "priority", "icons", "meta"];
const OPTIONS = [...METADATA, "ttlMs", "subscribable", "variables", "read", "list", "complete", "fingerprint"];

export function resource(pathTemplate, options) {
  const fail = (text) => {
    throw new TypeError(`resource("${pathTemplate}"): ${text}`);
  };
  const unknown = Object.keys(options ?? {}).find((name) => !OPTIONS.includes(name));
  if (unknown !== undefined) fail(`there is no option \`${unknown}\`; the options are ${OPTIONS.join(", ")}`);
  if (typeof options?.read !== "function") fail("expected a function `read`, such as `read: ({ name }) => …`");
  checkLiterals(pathTemplate, fail);
  const pattern = new PathTemplate(pathTemplate);
  const { variables = {}, read, list, complete = {}, fingerprint, ttlMs, subscribable = true, ...metadata } = options;
  const inPath = pattern.variables.filter((name) => !pattern.queryVariables.includes(name));
  if (list !== undefined && inPath.length === 0) fail("it is one resource, which is listed by itself; remove `list`");
  for (const name of Object.keys(complete)) {
    if (!pattern.variables.includes(name)) {
      fail(`\`complete\` has ${name}, which is no variable; its variables: ${pattern.variables.join(", ") || "none"}`);
    }
  }
  for (const [name, given] of Object.entries({ list, fingerprint, ...complete })) {
    if (given !== undefined && typeof given !== "function") fail(`expected a function for \`${name}\``);
  }
  const types = typesOf(pattern, variables);
  const literal = pathTemplate.replace(/\{[^{}]*\}/g, "").split("/").filter(Boolean).join("-");
  const name = metadata.name ?? (literal || inPath[0]);
  const declared = { ...metadata, name, pathTemplate };
  const isListed = list !== undefined || (inPath.length === 0 && pattern.queryVariables.every((one) => !types[one].isRequired));
  return { isResource: true, declared, pattern, inPath, types, read, list, complete, fingerprint, ttlMs, subscribable, isListed };
}

/** Fails if two have the same paths, or names. */
export function checkDistinct(resources) {
  const [shapes, names] = [new Map(), new Set()];
  for (const { isResource, declared } of resources) {
    if (!isResource) throw new TypeError("provider(info, resources): expected an array of resource(…)");
    const shape = declared.pathTemplate.split("{?")[0].replace(EXPRESSION, "{$1}");
    const other = shapes.get(shape);
    if (other !== undefined) {
      throw new TypeError(
        `the paths of "${declared.pathTemplate}" are those of "${other}"; give it other text, such as a first segment`,
      );
    }
    if (names.has(declared.name)) throw new TypeError(`there is a resource \`${declared.name}\` already; write \`name\``);
    shapes.set(shape, declared.pathTemplate);
    names.add(declared.name);
  }
}

/** Fails unless the text between the variables is in the normal form of paths: the host's paths are, and would not match. */
function checkLiterals(pathTemplate, fail) {
  if (typeof pathTemplate !== "string") fail("expected a template, such as \"events/{uid}\"");
  const path = pathTemplate.split("{?")[0].replace(EXPRESSION, "\0");
  if (path.startsWith("/")) fail(`it begins with a slash; write "${pathTemplate.replace(/^\/+/, "")}"`);
  for (const segment of path.split("/")) {
    for (const literal of segment.split("\0")) {
      const plain = decode(literal);
      if (plain === undefined || literal.includes("#") || segment === "." || segment === "..") fail(`no path has "${literal}"`);
      if (!/[?{}]/.test(literal) && encodeSegment(plain) !== literal) fail(`paths have "${encodeSegment(plain)}" for "${literal}": write that`);
    }
  }
}
