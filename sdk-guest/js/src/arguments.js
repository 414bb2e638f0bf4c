// The types of a template's variables, and the arguments of a function from their values.

import { InvalidRequest } from "./failures.js";

const MAX_SHOWN = 100;

const shown = (text) => JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);

/** A type: `convert` returns undefined for a text that is not of it. Without a default a value is required, unless it is optional. */
const type = (expected, convert, otherwise, choices = []) => ({
  isVariable: true,
  expected,
  convert,
  otherwise,
  choices,
  isRequired: otherwise === undefined,
});

export const text = (otherwise) => type("text", (given) => given, otherwise);

// One spelling for each number, so that one resource has one path.
export const integer = (otherwise) =>
  type("an integer, such as 7", (given) => (Number.isSafeInteger(Number(given)) && String(Number(given)) === given ? Number(given) : undefined), otherwise);

export const number = (otherwise) =>
  type("a number, such as 0.5", (given) => (/^-?\d{1,40}(\.\d{1,40})?$/.test(given) ? Number(given) : undefined), otherwise);

export const boolean = (otherwise) => oneOf([true, false], otherwise);

export const date = (otherwise) =>
  type(
    "a date, such as 2026-11-28",
    (given) => {
      const found = /^\d{4}-\d{2}-\d{2}$/.test(given) ? new Date(`${given}T00:00:00Z`) : undefined;
      // Some engines take February 30 for a day of March.
      return found && !Number.isNaN(found.getTime()) && found.toISOString().startsWith(given) ? found : undefined;
    },
    otherwise,
  );

export function oneOf(values, otherwise) {
  const byText = new Map(values.map((value) => [String(value), value]));
  return type([...byText.keys()].join(" or "), (given) => byText.get(given), otherwise, [...byText.keys()]);
}

export const optional = (of) => ({ ...of, otherwise: undefined, isRequired: false });

/** Returns the types of all variables of a template. Variables of its query without a type may be missing. */
export function typesOf(pattern, given) {
  const unknown = Object.keys(given).find((name) => !pattern.variables.includes(name));
  if (unknown !== undefined) {
    const query = pattern.queryVariables;
    const written = query.length ? `${pattern.text.slice(0, -1)},${unknown}}` : `${pattern.text}{?${unknown}}`;
    throw new TypeError(`the template "${pattern.text}" has no variable \`${unknown}\`; write "${written}"`);
  }
  const wrong = Object.keys(given).find((name) => given[name]?.isVariable !== true);
  if (wrong !== undefined) {
    throw new TypeError(`variables.${wrong}: expected text(), integer(), number(), boolean(), date() or oneOf([…]), found ${String(given[wrong])}`);
  }
  const untyped = (name) => (pattern.queryVariables.includes(name) ? optional(text()) : text());
  return Object.fromEntries(pattern.variables.map((name) => [name, given[name] ?? untyped(name)]));
}

/** Converts the values of a path. An empty one of the query is the default. */
export function converted(pattern, types, variables) {
  const values = {};
  for (const name of pattern.variables) {
    const { expected, convert, otherwise, isRequired } = types[name];
    const given = variables[name] ?? "";
    if (given === "" && pattern.queryVariables.includes(name)) {
      if (isRequired) throw new InvalidRequest(`expected a value of \`${name}\`: \`?${name}=…\``);
      values[name] = otherwise;
      continue;
    }
    values[name] = convert(given);
    if (values[name] === undefined) throw new InvalidRequest(`\`${name}\` must be ${expected}, found ${shown(given)}`);
  }
  return values;
}
