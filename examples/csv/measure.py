#!/usr/bin/env python3
"""Measures the example provider in every language, and prints the table of docs/languages.md.

Run it in the repository, after `cargo xtask languages`, which installs the toolchains, on a machine that does nothing else:

    examples/csv/measure.py target/release/mcp-host

It builds each component itself. `build`: the build command of the language, with its caches warm: the second of two builds, with a
source that is newer. `compile`: the host's compilation of the component: a start with an empty cache of compiled components, until
the provider is served, less one with a full cache. `first read`: the first read of a file. `read`: the median of later reads, each
by a fresh instance, and with `instances` (reuse). The times of reads include the client's and the host's own, which is about that of
Rust.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples/csv"
LANGUAGES = ROOT / "target/languages"
JAVASCRIPT = LANGUAGES / "javascript"
SDK = JAVASCRIPT / "node_modules/mcp-host-provider/bin/mcp-host-provider.js"
READS = 200


class Build(NamedTuple):
    """The build of a component: commands of a shell in a folder, in which `$OUT` is the folder that the component is written to."""

    folder: Path
    source: str
    commands: str
    # The component, relative to the folder or absolute.
    component: str = "{out}/csv.wasm"


BUILDS = {
    "rust": Build(
        ROOT / "plugins",
        "../examples/csv/rust/src/lib.rs",
        "cargo build --quiet --release --target wasm32-wasip2 --package csv-rust",
        f"{ROOT}/target/guests/wasm32-wasip2/release/csv_rust.wasm",
    ),
    "python": Build(
        EXAMPLES / "python", "app.py", f"{LANGUAGES}/python/bin/mcp-host-provider build app.py --output $OUT/csv.wasm"
    ),
    "javascript": Build(
        JAVASCRIPT / "csv-javascript", "app.js", f"node {SDK} build app.js --output $OUT/csv.wasm"
    ),
    "typescript": Build(
        JAVASCRIPT / "csv-typescript", "src/app.ts", f"node {SDK} build src/app.ts --output $OUT/csv.wasm"
    ),
    "c": Build(
        EXAMPLES / "c", "csv.c", f'make --silent "OUT=$OUT" "SYSROOT={LANGUAGES}/wasi-libc/unpacked/usr" "MCP_HOST=$MCP_HOST"'
    ),
    "go": Build(
        EXAMPLES / "go",
        "csv.go",
        # Go's cache goes by content: with a setting of the linker that is new each time, it links as after an edit.
        'GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags="-s -w -X main.edit=$(date +%s%N)" '
        '-o $OUT/csv.core.wasm . && '
        '"$MCP_HOST" componentize $OUT/csv.core.wasm --needs needs.json --output $OUT/csv.wasm',
    ),
}


class Host:
    """A server over stdio, whose provider is loaded."""

    def __init__(self, binary: str, component: Path, state: str, reuse: bool = False) -> None:
        start = time.perf_counter()
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
        self.load_time = time.perf_counter() - start

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


def build(language: str, binary: str, out: str) -> tuple[Path, float]:
    """Builds a component twice. Returns it, and the time of the second build in seconds."""
    build = BUILDS[language]
    go = {
        "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "",
        "GOCACHE": f"{LANGUAGES}/go-cache", "GOPATH": f"{LANGUAGES}/go-path",
    }
    path = f"{os.environ['PATH']}:{LANGUAGES}/go/bin"
    environment = os.environ | go | {"OUT": out, "MCP_HOST": binary, "PATH": path}
    elapsed = 0.0
    for _ in range(2):
        (build.folder / build.source).touch()
        start = time.perf_counter()
        subprocess.run(["sh", "-c", build.commands], cwd=build.folder, env=environment, check=True, stdout=sys.stderr)
        elapsed = time.perf_counter() - start
    component = Path(out, f"{language}.wasm")
    shutil.copy(build.component.format(out=out), component)
    return component, elapsed


def measure(language: str, binary: str) -> str:
    """One row of the table."""
    with tempfile.TemporaryDirectory() as state:
        component, build_time = build(language, binary, state)
        cold = Host(binary, component, state)
        cold.end()
        host = Host(binary, component, state)
        compile_time = cold.load_time - host.load_time
        fresh = host.reads()
        host.end()
        host = Host(binary, component, state, reuse=True)
        reused = host.reads()
        host.end()
        size = component.stat().st_size / 1e6
    first, read, again = fresh[0], statistics.median(fresh[1:]), statistics.median(reused[1:])
    return (
        f"| {language} | {size:.1f} MB | {build_time:.1f} s | {compile_time:.1f} s | {first:.1f} ms | {read:.2f} ms |"
        f" {again:.2f} ms |"
    )


def main() -> None:
    binary = str(Path(sys.argv[1]).resolve()) if len(sys.argv) == 2 else sys.exit(__doc__)
    print("| language | component | build | compile | first read | read, fresh instance | read, reused instance |")
    print("|---|---|---|---|---|---|---|")
    for language in sorted(BUILDS):
        print(measure(language, binary), flush=True)


if __name__ == "__main__":
    main()
