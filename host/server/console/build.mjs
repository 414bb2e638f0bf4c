// Builds the files of the console into a directory: `node build.mjs DIRECTORY`.
//
// Each entry point is one file with a fixed name, as the program embeds them by name. What the first view does not need is an entry
// point of its own, which the page loads on demand.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const directory = process.argv[2];
if (!directory) {
  throw new Error("name the directory to build into");
}
mkdirSync(directory, { recursive: true });
await build({
  entryPoints: ["src/console.tsx", "src/console.css", "src/chart.ts", "src/preview.ts"],
  outdir: directory,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome120", "firefox121", "safari17"],
  jsx: "automatic",
  jsxImportSource: "preact",
  external: ["./preview.js", "./chart.js"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
for (const file of ["index.html", "icon.svg"]) {
  copyFileSync(join("static", file), join(directory, file));
}

// What the files take, compressed: those of the first view, and all.
const compressed = (file) => gzipSync(readFileSync(join(directory, file)), { level: 9 }).length;
const sum = (files) => files.map(compressed).reduce((total, one) => total + one, 0);
const [first, all] = [sum(["index.html", "icon.svg", "console.css", "console.js"]), sum(readdirSync(directory))];
console.log(`${first} bytes for the first view, ${all} in all, compressed`);
if (first > 60_000 || all > 150_000) {
  throw new Error("that is more than 60000 or 150000 bytes");
}
