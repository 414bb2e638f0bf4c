// Copies the WIT files into the package before it is packed: npm does not follow links.
import { cpSync, rmSync } from "node:fs";

const to = new URL("../wit/", import.meta.url);
rmSync(to, { recursive: true, force: true });
cpSync(new URL("../../../wit/", import.meta.url), to, { recursive: true });
