"""`python3 build.py`: builds the component, `{{name}}.wasm`. What that needs is installed into `.venv` first."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent
ENVIRONMENT = PROJECT / ".venv"
REQUIREMENTS = PROJECT / "requirements.txt"
# What was installed: the requirements, and the files of the SDK that they name.
INSTALLED = ENVIRONMENT / "installed.txt"
WANTED = REQUIREMENTS.read_text() + (PROJECT / "sdk" / "files.sha256").read_text()
PROGRAMS = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin")


def run(*command: object) -> None:
    finished = subprocess.run([str(part) for part in command], cwd=PROJECT)
    if finished.returncode != 0:
        sys.exit(finished.returncode)


if not INSTALLED.is_file() or INSTALLED.read_text() != WANTED:
    print("installing requirements.txt into .venv", file=sys.stderr)
    venv.create(ENVIRONMENT, with_pip=True)
    run(PROGRAMS / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "-r", REQUIREMENTS)
    INSTALLED.write_text(WANTED)
run(PROGRAMS / "mcp-host-provider", "build", "app.py", "-o", "{{name}}.wasm")
