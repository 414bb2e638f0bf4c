//go:build wasip1

package prepare

import (
	exported "mcp-host.example/provider/internal/prepare/exports/export_mcp_host_provider_prepare"
	_ "mcp-host.example/provider/internal/prepare/exports/wit_exports"
	wit "mcp-host.example/provider/internal/prepare/imports/mcp_host_provider_prepare"

	"mcp-host.example/provider/internal/hook"
	types "mcp-host.example/provider/internal/wit/types"
	"time"
)

func init() {
	exported.Set(prepare)
}

func prepare(token types.Option[string]) types.Result[wit.Progress, wit.Failure] {
	var given *string
	if token.IsSome() {
		text := token.Some()
		given = &text
	}
	if hook.Prepare == nil {
		return types.Err[wit.Progress](wit.Failure{Reason: "no provider is exported", RetryAfterMs: types.None[uint64]()})
	}
	progress, failure := hook.Prepare(given)
	if failure != nil {
		return types.Err[wit.Progress](wit.Failure{Reason: failure.Reason, RetryAfterMs: milliseconds(failure.RetryAfter)})
	}
	percent := types.None[uint8]()
	if progress.Percent != nil {
		percent = types.Some(uint8(min(max(*progress.Percent, 0), 100)))
	}
	return types.Ok[wit.Progress, wit.Failure](wit.Progress{
		NextToken:    text(progress.NextToken),
		Percent:      percent,
		Message:      text(progress.Message),
		AgainAfterMs: milliseconds(progress.AgainAfter),
	})
}

func text(given string) types.Option[string] {
	if given == "" {
		return types.None[string]()
	}
	return types.Some(given)
}

func milliseconds(given time.Duration) types.Option[uint64] {
	if given <= 0 {
		return types.None[uint64]()
	}
	return types.Some(uint64(max(given.Milliseconds(), 1)))
}
