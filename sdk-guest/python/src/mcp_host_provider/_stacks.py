"""The stack of a call that runs for long, in the host's log.

A call that used up `limits.cpu` ends within the interpreter, which cannot say where it was any more. So if the variable
`MCP_HOST_STACK_AFTER` is granted, with a number of seconds, the stack is logged while the call runs: after that time, and each time
it has passed again, unless it is the same. The interpreter reports loops and calls of functions (`sys.monitoring`); of each 64
reports, one looks at the clock. Without the variable nothing is reported, and calls cost nothing. Imported in a component only.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

_VARIABLE = "MCP_HOST_STACK_AFTER"
_REPORTS_PER_LOOK = 64
_TOOL = 4

_log = logging.getLogger("mcp_host_provider")


class _Watch:
    """The call that runs."""

    def __init__(self, function: str, interval: float) -> None:
        self._function = function
        self._interval = interval
        self._began = time.monotonic()
        self._next = interval
        self._reports = 0
        self._logged = ""

    def report(self, code: CodeType, *_: object) -> None:
        """Called by the interpreter in a loop, or when a function begins."""
        self._reports += 1
        if self._reports % _REPORTS_PER_LOOK:
            return
        elapsed = time.monotonic() - self._began
        if elapsed >= self._next:
            self._next = elapsed + self._interval
            stack = "".join(traceback.format_stack(sys._getframe(1))).rstrip()
            if stack != self._logged:
                self._logged = stack
                _log.error("%s has run for %.1f s. Stack (most recent call last):\n%s", self._function, elapsed, stack)


@contextmanager
def logged_stacks(function: str) -> Iterator[None]:
    """Logs the stack of a call of this function while it runs for long, if that is granted."""
    interval = os.environ.get(_VARIABLE)
    # Unit tests may run on an older interpreter than components. A call within another one is a part of its stack.
    if interval is None or sys.version_info < (3, 12) or sys.monitoring.get_tool(_TOOL) is not None:
        yield
        return
    monitoring, events = sys.monitoring, sys.monitoring.events
    try:
        watch = _Watch(function, max(float(interval), 0.001))
    except ValueError:
        raise ValueError(f"{_VARIABLE}: expected a number of seconds, such as 0.5, found {interval!r}") from None
    monitoring.use_tool_id(_TOOL, "mcp-host")
    for event in (events.JUMP, events.PY_START):
        monitoring.register_callback(_TOOL, event, watch.report)
    monitoring.set_events(_TOOL, events.JUMP | events.PY_START)
    try:
        yield
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)
