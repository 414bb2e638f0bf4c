// Makes a component: esbuild bundles the provider, componentize-qjs starts it and takes a snapshot.

import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { componentize } from "componentize-qjs";
import { build as bundle } from "esbuild";

/** Why there is no component. The message says what to do. */
export class BuildError extends Error {}

/** The world that has an interface beyond those of the basic one. */
const WORLDS = { "wasi:filesystem": "provider-dirs", "wasi:cli": "provider-env", "wasi:keyvalue": "provider-keyvalue" };
const BASIC = ["wasi:config", "wasi:logging", "wasi:clocks", "wasi:io"];

/** The WIT files: in the package, or in the repository that it is part of. */
const WIT = ["../wit/", "../../../wit/"].map((path) => fileURLToPath(new URL(path, import.meta.url))).find(existsSync);

/** Makes a component of a module, whose default export is a class that extends `Provider`. */
export async function build(source, output) {
  if (!existsSync(source)) throw new BuildError(`${source}: no such file`);
  const { text, imports } = await bundled(source);
  const folder = await mkdtemp(join(tmpdir(), "mcp-host-provider-"));
  try {
    await writeWorld(folder, worlds(imports));
    const options = { witPath: folder, jsSource: text, world: "app", sync: true, optSize: true };
    // WASI is not stubbed: that would stub `wasi:config` and files, too.
    const { component } = await componentize(options).catch((error) => {
      throw new BuildError(`${source} could not be started in the component:\n${error.message}`);
    });
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

/** Returns the bundle, and the interfaces that it imports. */
async function bundled(source) {
  const entry = `
    import "mcp-host-provider-entry:console";
    import Provider from ${JSON.stringify(resolve(source))};
    import { adapt } from "mcp-host-provider-entry:component";
    export const resourceProvider = adapt(Provider);
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
      metafile: true,
      format: "esm",
      platform: "neutral",
      mainFields: ["module", "main"],
      conditions: ["mcp-host"],
      target: "es2023",
      external: ["wasi:*"],
      plugins: [own],
      logLevel: "silent",
    });
    const outputs = Object.values(result.metafile.outputs);
    const imports = outputs.flatMap((output) => output.imports.map(({ path }) => path));
    return { text: result.outputFiles[0].text, imports };
  } catch (error) {
    const said = error.errors?.map(({ text, location }) => (location ? `${location.file}:${location.line}: ${text}` : text));
    throw new BuildError(said?.join("\n") ?? error.message);
  }
}

/** Returns the worlds with the interfaces that a bundle imports. */
function worlds(imports) {
  const needed = new Set(["provider"]);
  for (const path of imports) {
    const wasi = path.split("/", 1)[0];
    if (WORLDS[wasi]) needed.add(WORLDS[wasi]);
    else if (wasi === "wasi:http") throw new BuildError("QuickJS components cannot import wasi:http; build with componentize-js");
    else if (!BASIC.includes(wasi)) throw new BuildError(`${path}: no such module in a component`);
  }
  return [...needed];
}

/** Writes a world that includes those. */
async function writeWorld(folder, included) {
  await cp(WIT, join(folder, "deps", "mcp-host-provider"), { recursive: true, filter: (file) => !/[\\/]deps$/.test(file) });
  await cp(join(WIT, "deps"), join(folder, "deps"), { recursive: true });
  const includes = included.map((world) => `  include mcp-host:provider/${world}@0.1.0;\n`).join("");
  await writeFile(join(folder, "app.wit"), `package local:app;\n\nworld app {\n${includes}}\n`);
}

/** The version of this package. */
export async function version() {
  return JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8")).version;
}
