"""Python's `logging`, written to the host's log."""

from __future__ import annotations

import logging

from wit_world.imports.wasi_logging_logging_0_1_0_draft import Level, log


class HostHandler(logging.Handler):
    """Writes records to the host's log, with the logger's name as the context."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = self.format(record)
        except Exception:  # A record that cannot be formatted must not fail the call.
            self.handleError(record)
            return
        # One line each: the host truncates long ones.
        for line in message.splitlines() or [""]:
            log(_level(record.levelno), record.name, line)


def install() -> None:
    """Adds the handler to the root logger, from level `INFO` up unless the provider has set another."""
    root = logging.getLogger()
    if not any(isinstance(handler, HostHandler) for handler in root.handlers):
        root.addHandler(HostHandler())
        if root.level == logging.WARNING:
            root.setLevel(logging.INFO)


def _level(number: int) -> Level:
    if number >= logging.CRITICAL:
        return Level.CRITICAL
    if number >= logging.ERROR:
        return Level.ERROR
    if number >= logging.WARNING:
        return Level.WARN
    if number >= logging.INFO:
        return Level.INFO
    return Level.DEBUG if number >= logging.DEBUG else Level.TRACE
