"""Runs CPython's own tests of the standard library within the component, and prints the table of docs/languages/python.md.

    mcp-host-provider build tests/standard.py -o standard.wasm
    python tests/standard_library.py mcp-host standard.wasm /usr/lib/python3.14 > table.md

The last argument is a directory with the package `test` of a CPython, best of the version that the component has. The names of the
tests that fail, and their output, go to standard error. A module that ends in a trap, as the tests of endless recursion do, is run
class by class.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MODULES = """
abc argparse array base64 binascii bisect calendar charmapcodec codecs codecencodings_jp collections configparser contextlib copy csv
dataclasses datetime decimal difflib email enum fnmatch fractions functools glob graphlib gzip hashlib heapq hmac html htmlparser
http_cookies io ipaddress itertools json keyword linecache locale logging math mimetypes numeric_tower operator os pathlib pickle
posixpath pprint random re secrets shlex shutil sqlite3 statistics string strptime struct tarfile tempfile textwrap time tomllib
unicodedata urllib urlparse uuid weakref xml_etree zipfile zlib zoneinfo
""".split()

CONFIG = """
[[plugin]]
name = "standard"
component = {component}
mount = "standard:///"
grants.dirs = [{{ host = {library}, guest = "/cpython" }}, {{ host = {writable}, guest = "/tmp", mode = "rw", quota = "1GiB" }}]
limits = {{ memory = "1GiB", cpu = "4m", deadline = "5m" }}
"""


class Host:
    """The program, with a config."""

    def __init__(self, program: str, config: Path) -> None:
        self.command = [program, "read", "--config", str(config)]

    def read(self, path: str) -> Any:
        """Returns the JSON of a resource; None if the call failed."""
        run = subprocess.run([*self.command, f"standard:///{path}"], capture_output=True, text=True)
        if run.returncode != 0:
            print(f"{path}: {run.stderr}", file=sys.stderr)
            return None
        return json.loads(run.stdout)


def tested(host: Host, module: str) -> tuple[int, int, list[str]]:
    """Returns how many tests ran, how many of them were skipped, and which failed."""
    whole = host.read(f"test/test_{module}")
    names = [None] if whole else host.read(f"classes/test_{module}") or []
    run, skipped, broken = 0, 0, []
    for name in names:
        result = host.read(f"test/{name}") if name else whole
        if result is None:
            broken.append(f"{name} (trapped)")
            continue
        run, skipped = run + result["run"], skipped + result["skipped"]
        broken += result["broken"]
        if result["broken"]:
            print(result["log"], file=sys.stderr)
    return run, skipped, broken


def main() -> None:
    program, component, library, *chosen = sys.argv[1:]
    quoted = {"component": json.dumps(str(Path(component).resolve())), "library": json.dumps(str(Path(library).resolve()))}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as writable:
        config = Path(folder, "mcp-host.toml")
        config.write_text(CONFIG.format(**quoted, writable=json.dumps(writable)))
        host = Host(program, config)
        print("| module | tests | of which skipped | failed |\n|---|---|---|---|")
        for module in chosen or MODULES:
            run, skipped, broken = tested(host, module)
            print(f"| `{module}` | {run} | {skipped} | {len(broken)} |", flush=True)
            for name in broken:
                print(f"{module}: {name}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
