// Makes a component: esbuild bundles the provider, componentize-qjs starts it and takes a snapshot.

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { componentize } from "componentize-qjs";
import { build as bundle } from "esbuild";

/** Why there is no component. The message says what to do. */
export class BuildError extends Error {}

/** The world that has an interface which the basic world does not have. */
const WORLDS = {
  "wasi:filesystem": "provider-dirs",
  "wasi:cli": "provider-env",
  "wasi:keyvalue": "provider-keyvalue",
  "mcp-host:sql": "provider-sql",
};
const BASIC = ["wasi:config", "wasi:logging", "wasi:clocks", "wasi:io"];

/** The WIT files: in the package, or in the repository that it is part of. */
const WIT = ["../wit/", "../../../wit/"].map((path) => fileURLToPath(new URL(path, import.meta.url))).find(existsSync);

/** Makes a component of a module, whose default export is a class that extends `Provider`. */
export async function build(source, output) {
  if (!existsSync(source)) throw new BuildError(`${source}: no such file`);
  const { text, imports, table, prepares } = await bundled(source);
  const needs = await declaredNeeds(source);
  const folder = await mkdtemp(join(tmpdir(), "mcp-host-provider-"));
  try {
    await writeWorld(folder, worlds(imports), prepares);
    const options = { witPath: folder, jsSource: text, world: "app", sync: true, optSize: true };
    // WASI is not stubbed: that would stub `wasi:config` and files, too.
    const made = await componentize(options).catch((error) => {
      throw new BuildError(`${source} could not be started in the component:\n${explained(error.message, table)}`);
    });
    const component = Buffer.concat([renamed(made.component), needs === undefined ? Buffer.alloc(0) : needsSection(needs)]);
    await mkdir(dirname(resolve(output)), { recursive: true });
    // Renamed, so that a host that reloads on change never reads half a component.
    const aside = `${output}.${process.pid}.new`;
    await writeFile(aside, component);
    await rename(aside, output);
    return component.length;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the bundle, the interfaces that it imports, and whether the module exports `prepare`. */
async function bundled(source) {
  const prepares = (await exportsOf(source)).includes("prepare");
  const entry = `
    import "mcp-host-provider-entry:console";
    import "mcp-host-provider-entry:standard";
    import Provider${prepares ? ", { prepare as prepareData }" : ""} from ${JSON.stringify(resolve(source))};
    import { adapt, adaptPrepare } from "mcp-host-provider-entry:component";
    export const resourceProvider = adapt(Provider);
    ${prepares ? "export const prepare = adaptPrepare(Provider, prepareData);" : ""}
  `;
  const own = {
    name: "entry",
    setup(setup) {
      setup.onResolve({ filter: /^mcp-host-provider-entry:/ }, ({ path }) => ({
        path: fileURLToPath(new URL(`./${path.split(":")[1]}.js`, import.meta.url)),
      }));
    },
  };
  try {
    const result = await bundle({
      stdin: { contents: entry, resolveDir: dirname(resolve(source)), sourcefile: "entry.js" },
      bundle: true,
      write: false,
      outfile: join(dirname(resolve(source)), "bundle.js"),
      sourcemap: "external",
      metafile: true,
      format: "esm",
      platform: "neutral",
      mainFields: ["module", "main"],
      conditions: ["mcp-host"],
      target: "es2023",
      external: ["wasi:*", "wasj:*", "mcp-host:*"],
      plugins: [own],
      logLevel: "silent",
    });
    const outputs = Object.values(result.metafile.outputs);
    const imports = outputs.flatMap((output) => output.imports.map(({ path }) => path));
    const [map, code] = ["bundle.js.map", "bundle.js"].map((name) => result.outputFiles.find(({ path }) => path.endsWith(name)).text);
    const table = lines(JSON.parse(map));
    return { prepares, text: `${code}\nglobalThis.__mcpLines = ${JSON.stringify(table)};\n`, imports, table };
  } catch (error) {
    const said = error.errors?.map(({ text, location }) => (location ? `${location.file}:${location.line}: ${text}` : text));
    throw new BuildError(said?.join("\n") ?? error.message);
  }
}

/** Returns the names that a module exports; none if it cannot be bundled, which the bundle reports. */
async function exportsOf(source) {
  const options = { bundle: true, write: false, format: "esm", platform: "node", logLevel: "silent", external: ["wasi:*", "wasj:*", "mcp-host:*"] };
  try {
    const { metafile } = await bundle({ ...options, entryPoints: [resolve(source)], outfile: "exports.js", metafile: true });
    return Object.values(metafile.outputs).flatMap(({ exports }) => exports);
  } catch {
    return [];
  }
}

const NEEDS_SECTION = "mcp-host:needs/v1";
const MAX_NEEDS = 65_536;

/**
 * Returns the export `needs` of a module as JSON; undefined if it has none. Node evaluates the module, where interfaces of WASI are
 * empty.
 */
async function declaredNeeds(source) {
  const stub = {
    name: "stub",
    setup(setup) {
      setup.onResolve({ filter: /^(was[ij]|mcp-host):/ }, ({ path }) => ({ path, namespace: "stub" }));
      setup.onLoad({ filter: /.*/, namespace: "stub" }, () => ({ contents: "module.exports = {};" }));
    },
  };
  const options = { bundle: true, write: false, format: "esm", platform: "node", logLevel: "silent", plugins: [stub] };
  // Errors of the module were reported by the first bundle.
  const { metafile } = await bundle({ ...options, entryPoints: [resolve(source)], outfile: "needs.js", metafile: true });
  if (!Object.values(metafile.outputs).some(({ exports }) => exports.includes("needs"))) return undefined;
  const contents = `import { needs } from ${JSON.stringify(resolve(source))};\nprocess.stdout.write(JSON.stringify(needs));\n`;
  const stdin = { contents, resolveDir: dirname(resolve(source)), sourcefile: "needs.js" };
  const made = await bundle({ ...options, stdin, outfile: "needs.js" });
  const folder = await mkdtemp(join(tmpdir(), "mcp-host-provider-"));
  try {
    const file = join(folder, "needs.mjs");
    await writeFile(file, made.outputFiles[0].contents);
    const { stdout } = await promisify(execFile)(process.execPath, [file], { maxBuffer: 1 << 20, timeout: 60_000 });
    const size = Buffer.byteLength(stdout);
    if (size > MAX_NEEDS) throw new Error(`it has ${size} bytes as JSON, more than ${MAX_NEEDS}`);
    return stdout;
  } catch (error) {
    throw new BuildError(`${source}: the export \`needs\` cannot be read: ${(error.stderr || error.message).trim()}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the custom section of a component with that JSON. */
export function needsSection(needs) {
  const [name, json] = [Buffer.from(NEEDS_SECTION), Buffer.from(needs)];
  const body = Buffer.concat([length(name), name, json]);
  return Buffer.concat([Buffer.of(0), length(body), body]);
}

/** The length as LEB128. */
function length(bytes) {
  const encoded = [];
  let rest = bytes.length;
  for (; rest >= 0x80; rest >>>= 7) encoded.push((rest & 0x7f) | 0x80);
  return Buffer.from([...encoded, rest]);
}

/** Returns the module's error and its stack, without what the tool says around it. */
function explained(message, { sources, lines }) {
  return message
    .replace(/^.*JavaScript module evaluation: /s, "")
    .replace(/componentize-qjs:user\.js:(\d+):\d+/g, (position, line) => {
      const found = lines[line - 1];
      return found ? `${sources[found[0]]}:${found[1]}` : position;
    })
    .trimEnd();
}

/**
 * Returns where each line of the bundle comes from, so that a stack can name the sources: their names, and for each line the number of
 * its source and its line there; 0 for a line of neither.
 */
function lines({ sources, mappings }) {
  let [source, line] = [0, 0];
  const found = mappings.split(";").map((segments) => {
    let first = 0;
    for (const segment of segments.split(",").filter(Boolean)) {
      const [, bySource, byLine] = numbers(segment);
      if (byLine === undefined) continue;
      [source, line] = [source + bySource, line + byLine];
      first ||= [source, line + 1];
    }
    return first;
  });
  return { sources: sources.map((path) => path.replace(/^.*node_modules\//, "")), lines: found };
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Decodes the numbers of a source map's segment: base 64, in groups of five bits, the sign in the lowest. */
function numbers(segment) {
  const decoded = [];
  let [value, shift] = [0, 0];
  for (const digit of segment) {
    const bits = DIGITS.indexOf(digit);
    value += (bits & 31) * 2 ** shift;
    shift += 5;
    if (bits & 32) continue;
    decoded.push(value % 2 ? -(value - 1) / 2 : value / 2);
    [value, shift] = [0, 0];
  }
  return decoded;
}

/** Returns the worlds with the interfaces that a bundle imports. */
function worlds(imports) {
  const needed = new Set(["provider"]);
  for (const path of imports) {
    const wasi = path.split("/", 1)[0];
    if (WORLDS[wasi]) needed.add(WORLDS[wasi]);
    else if (wasi === "wasi:http") throw new BuildError(`${path}: use the module mcp-host-provider/http`);
    else if (wasi === "wasj:http") needed.add("http");
    else if (!BASIC.includes(wasi)) throw new BuildError(`${path}: no such module in a component`);
  }
  return [...needed];
}

/** Writes a world that includes those, and exports `prepare` if it is to. */
async function writeWorld(folder, included, prepares) {
  await cp(WIT, join(folder, "deps", "mcp-host-provider"), { recursive: true, filter: (file) => !/[\\/]deps$/.test(file) });
  await cp(join(WIT, "deps"), join(folder, "deps"), { recursive: true });
  const includes = included.map((world) =>
    world === "http" ? "  import wasj:http/outgoing-handler@0.2.6;\n" : `  include mcp-host:provider/${world}@0.1.1;\n`,
  );
  if (prepares) includes.push("  export mcp-host:provider/prepare@0.1.1;\n");
  if (included.includes("http")) {
    for (const file of ["clocks.wit", "http.wit", "io.wit"]) {
      const text = await readFile(join(WIT, "deps", file), "utf8");
      await writeFile(join(folder, "deps", `j${file}`), text.replaceAll("wasi:", "wasj:"));
    }
  }
  await writeFile(join(folder, "app.wit"), `package local:app;\n\nworld app {\n${includes.join("")}}\n`);
}

/**
 * Renames the imports `wasj:…` to `wasi:…`.
 *
 * While componentize-qjs runs the module, it links the `wasi:io` of its own host, and stubs for what it does not have, such as
 * `wasi:http`; the stubs' streams differ from the streams of `wasi:io`, so that linking fails. Under another name, `wasi:http` and its
 * `wasi:io` are both stubs. The names have equal lengths, so that they can be replaced in place: where a component
 * declares its imports, and where a nested one is given them.
 */
function renamed(component) {
  const bytes = Buffer.from(component);
  renameSections(bytes, 0, bytes.length);
  return bytes;
}

// Sections of a component, by their numbers in the binary format.
const COMPONENT = 4;
const INSTANCE = 5;
const IMPORT = 10;

function renameSections(bytes, start, end) {
  for (let at = start + 8; at < end; ) {
    const kind = bytes[at++];
    let size = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      size += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    if (kind === COMPONENT) renameSections(bytes, at, at + size);
    else if (kind === INSTANCE || kind === IMPORT) {
      const section = bytes.subarray(at, at + size);
      for (let found = section.indexOf("wasj:"); found >= 0; found = section.indexOf("wasj:", found)) section.write("wasi:", found);
    }
    at += size;
  }
}

/** The version of this package. */
export async function version() {
  return JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8")).version;
}
