// The files of a folder, and the first lines of each.

import { integer, provider, resource } from "mcp-host-provider";
import { file, files } from "mcp-host-provider/fs";

export const needs = { dirs: [{ guest: "/data", why: "the files" }] };

const folder = (config) => config.text("dir", "/data");

export default provider({ name: "folder", version: "0.1.0", description: "The files of a folder." }, [
  resource("{name}", {
    description: "A file of the folder.",
    read: ({ name }, config) => file(folder(config), name),
    list: (config) => files(folder(config)),
  }),
  resource("first/{name}{?lines}", {
    name: "first-lines",
    description: "The first lines of a text file.",
    mimeType: "text/plain",
    variables: { lines: integer(10) },
    read: ({ name, lines }, config) => {
      const found = file(folder(config), name).text().match(/[^\n]*\n|[^\n]+$/g) ?? [];
      return found.slice(0, Math.max(lines, 0)).join("");
    },
  }),
]);
