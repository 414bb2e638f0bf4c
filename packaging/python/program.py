"""Completes the wheel with what depends on the build: its platform, and the files of the program."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Program(BuildHookInterface):
    """Any Python 3 can install it: only the program depends on the platform."""

    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['MCP_HOST_PLATFORM']}"
        # One by one, as hatchling leaves out what git ignores of a directory, and components are ignored.
        for folder in ("lib", "share"):
            for parent, _, names in os.walk(os.path.join(self.root, folder)):
                for name in names:
                    path = os.path.relpath(os.path.join(parent, name), self.root)
                    build_data["shared_data"][path] = path
