// Package export_mcp_host_provider_prepare has the function that the generated code calls. Package prepare sets it before the first
// call.
package export_mcp_host_provider_prepare

import (
	. "mcp-host.example/provider/internal/prepare/imports/mcp_host_provider_prepare"
	"mcp-host.example/provider/internal/wit/types"
)

var hook func(token wit_types.Option[string]) wit_types.Result[Progress, Failure]

// Set is called once, by an init function.
func Set(set func(token wit_types.Option[string]) wit_types.Result[Progress, Failure]) { hook = set }

func Prepare(token wit_types.Option[string]) wit_types.Result[Progress, Failure] { return hook(token) }
