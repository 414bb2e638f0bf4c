"""The component's export `prepare`. Imported in a component only, of a provider that prepares."""

from __future__ import annotations

from componentize_py_types import Err
from wit_world.exports import mcp_host_provider_prepare_0_1_1 as wit
from wit_world.exports import mcp_host_provider_resource_provider_0_1_1 as contract

from . import _convert as convert
from ._component import Instance, failure_of
from ._prepare import Progress
from ._provider import Provider


class Prepare(Instance):
    """The interface `prepare` of the contract."""

    def __init__(self) -> None:
        super().__init__()
        # At build time, so that a missing method is an error of the build.
        if self._class.prepare is Provider.prepare:
            raise TypeError(f"`Progress` is imported, and {self._class.__name__} has no method `prepare(self, token)`")

    def prepare(self, token: str | None) -> wit.Progress:
        try:
            return _progress(self._provider().prepare(token))
        except BaseException as error:  # Nothing may end as a trap without a word.
            failure = _failure(failure_of("prepare", error))
        raise Err(failure)


def _progress(given: object) -> wit.Progress:
    progress = convert.checked(given, Progress, "the progress")
    percent = convert.natural(progress.percent, "percent")
    if percent is not None and percent > 100:
        raise convert.InvalidResult(f"percent: expected 0 to 100, found {percent}")
    return wit.Progress(
        convert.optional(progress.next_token, str, "next_token"),
        percent,
        convert.optional(progress.message, str, "message"),
        convert.milliseconds(progress.again_after, "again_after"),
    )


def _failure(failure: contract.Failure) -> wit.Failure:
    match failure:
        case contract.Failure_Unavailable(value=retry):
            return wit.Failure(retry.reason, retry.after_ms)
        case contract.Failure_NotFound():
            return wit.Failure("something is not found", None)
        case contract.Failure_InvalidRequest(value=text) | contract.Failure_Denied(value=text) | contract.Failure_Internal(value=text):
            return wit.Failure(text, None)
