#!/usr/bin/env node
// Runs the program of the package for this platform: with the arguments, the environment and the standard streams of this process,
// whose exit code is the program's.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { name, optionalDependencies } = require("../package.json");

const platform = `${process.platform}-${process.arch}`;

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

function program() {
  try {
    return require.resolve(`${name}-${platform}/bin/mcp-host`);
  } catch {
    const platforms = Object.keys(optionalDependencies).map((dependency) => dependency.slice(name.length + 1));
    return fail(
      platforms.includes(platform)
        ? `the package ${name}-${platform} is not installed: install ${name} with optional dependencies (not --omit=optional)`
        : `${name} has no program for ${platform}, only for ${platforms.join(", ")}`,
    );
  }
}

const file = program();
const child = spawn(file, process.argv.slice(2), { stdio: "inherit" });

// A terminal sends Ctrl-C to both processes: then the program gets it once, and this process waits.
const signals = ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"];
for (const signal of signals) process.on(signal, () => child.kill(signal));
process.on("SIGINT", () => {
  if (!process.stderr.isTTY) child.kill("SIGINT");
});

child.on("error", (error) => fail(`${file} cannot be run: ${error.message} (it needs glibc, which Alpine Linux does not have)`));
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
