#!/usr/bin/env python3
"""Measures the example provider in every language, and prints the table of docs/languages.md.

Run it in the repository, after `cargo xtask plugins --fixtures` and `cargo xtask languages`, on a machine that does nothing else:

    examples/csv/measure.py target/release/mcp-host

`build`: the build command of the language, with its caches warm. `load`: from the start of the host, with an empty cache of compiled
components, to the first answer. `first`: the first read of a file. `read`: the median of later reads, each by a fresh instance, and
with `instances` (reuse). Times include the client's and the host's own, which is about that of Rust.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
LANGUAGES = ROOT / "target/languages"
SDK = LANGUAGES / "javascript/node_modules/mcp-host-provider/bin/mcp-host-provider.js"
READS = 200

BUILDS: dict[str, tuple[list[str | Path], str]] = {
    "rust": (["cargo", "build", "--quiet", "--release", "--target", "wasm32-wasip2", "-p", "csv-rust"], "plugins"),
    "python": ([LANGUAGES / "python/bin/mcp-host-provider", "build", "app.py", "-o", "{output}"], "examples/csv/python"),
    "javascript": (["node", SDK, "build", "app.js", "-o", "{output}"], "target/languages/javascript/csv-javascript"),
    "typescript": (["node", SDK, "build", "src/app.ts", "-o", "{output}"], "target/languages/javascript/csv-typescript"),
}


class Host:
    """A server over stdio."""

    def __init__(self, binary: str, component: Path, state: str, reuse: bool) -> None:
        config = Path(state, "mcp-host.toml")
        config.write_text(
            f'[server]\ncache = "{state}/cache"\nstate = "{state}/state"\n'
            f'[[plugin]]\nname = "csv"\ncomponent = "{component}"\nmount = "csv:///"\n'
            f'grants.dirs = [{{ host = "{ROOT}/examples/csv/data", guest = "/csv" }}]\n'
            + ("instances = { max-calls = 10000 }\n" if reuse else "")
        )
        command = [binary, "serve", "--stdio", "--config", str(config)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.requests = 0
        client = {"name": "measure", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"method": "notifications/initialized"})
        while "_meta" in self.request("resources/templates/list", {}):
            time.sleep(0.01)

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdout
        self.requests += 1
        self.send({"id": self.requests, "method": method, "params": params})
        while line := self.process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self.requests:
                return answer["result"]
        sys.exit("the host has ended")

    def reads(self) -> list[float]:
        """The times of reads, in milliseconds."""
        times = []
        for _ in range(READS):
            start = time.perf_counter()
            self.request("resources/read", {"uri": "csv:///people.csv"})
            times.append((time.perf_counter() - start) * 1000)
        return times

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def build(language: str, output: str) -> str:
    """The time of a build, in seconds; a dash for one that this script does not know."""
    if language not in BUILDS:
        return "–"
    command, folder = BUILDS[language]
    if language == "rust":
        (ROOT / "examples/csv/rust/src/lib.rs").touch()
    start = time.perf_counter()
    arguments = [str(argument).format(output=output) for argument in command]
    subprocess.run(arguments, cwd=ROOT / folder, check=True, stderr=subprocess.DEVNULL)
    return f"{time.perf_counter() - start:.1f} s"


def main() -> None:
    binary = str(Path(sys.argv[1]).resolve()) if len(sys.argv) == 2 else sys.exit(__doc__)
    print("| language | component | build | load | first read | read, fresh instance | read, reused instance |")
    print("|---|---|---|---|---|---|---|")
    for component in sorted((ROOT / "target/plugins/fixtures").glob("csv-*.wasm")):
        language = component.stem.removeprefix("csv-")
        with tempfile.TemporaryDirectory() as state:
            built = build(language, f"{state}/built.wasm")
            start = time.perf_counter()
            host = Host(binary, component, state, reuse=False)
            load = time.perf_counter() - start
            fresh = host.reads()
            host.end()
            host = Host(binary, component, state, reuse=True)
            reused = host.reads()
            host.end()
        size = f"{component.stat().st_size / 1e6:.1f} MB"
        first, read, again = fresh[0], statistics.median(fresh[1:]), statistics.median(reused[1:])
        print(f"| {language} | {size} | {built} | {load:.1f} s | {first:.1f} ms | {read:.2f} ms | {again:.2f} ms |", flush=True)


if __name__ == "__main__":
    main()
