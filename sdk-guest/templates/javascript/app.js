// The files of a folder: one resource per file, and a template for the first lines of each.

import { provider, resource } from "mcp-host-provider";
import { file, files } from "mcp-host-provider/fs";

import manifest from "./package.json" with { type: "json" };

/** What it would like to be granted: `mcp-host inspect` shows it. */
export const needs = {
  dirs: [{ guest: "/data", why: "the files" }],
  config: {
    dir: { type: "string", default: "/data", why: "the folder, at its guest path" },
    lines: { type: "integer", default: 10, why: "the number of lines of `first/NAME`" },
  },
};

const folder = (config) => config.text("dir", "/data");

export default provider({ name: "{{name}}", version: manifest.version, description: "The files of a folder." }, [
  resource("{name}", {
    name: "file",
    description: "A file of the folder.",
    read: ({ name }, config) => file(folder(config), name),
    list: (config) => files(folder(config)),
  }),
  resource("first/{name}", {
    name: "first-lines",
    title: "First lines of a file",
    description: "The first lines of a text file.",
    mimeType: "text/plain",
    read: ({ name }, config) => {
      const lines = file(folder(config), name).text().match(/[^\n]*\n|[^\n]+$/g) ?? [];
      return lines.slice(0, Math.max(config.integer("lines", 10), 0)).join("");
    },
  }),
]);
