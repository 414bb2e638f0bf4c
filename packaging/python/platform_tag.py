"""Gives the wheel the tag of the platform that its program is for."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface):
    """Any Python 3 can install it: only the program depends on the platform."""

    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['MCP_HOST_PLATFORM']}"
