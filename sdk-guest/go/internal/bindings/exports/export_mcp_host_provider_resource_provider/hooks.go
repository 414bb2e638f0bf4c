// Package export_mcp_host_provider_resource_provider has the functions that the generated code calls. Package provider sets
// them before the first call.
package export_mcp_host_provider_resource_provider

import (
	. "mcp-host.example/provider/internal/bindings/imports/mcp_host_provider_resource_provider"
	"mcp-host.example/provider/internal/wit/types"
)

// Hooks are the functions of the contract.
type Hooks struct {
	Describe      func() ProviderInfo
	ListEntries   func(parent, cursor wit_types.Option[string], limit uint32) wit_types.Result[Page, Failure]
	ListTemplates func(cursor wit_types.Option[string]) wit_types.Result[TemplatePage, Failure]
	Read          func(path string) wit_types.Result[[]Contents, Failure]
	Stat          func(path string) wit_types.Result[Entry, Failure]
	Complete      func(template string, argument Argument, known []Argument) wit_types.Result[Completion, Failure]
	Changes       func(watched []string, since wit_types.Option[string]) wit_types.Result[ChangeSet, Failure]
}

// Set is called once, by an init function.
func Set(set Hooks) { hooks = set }

var hooks Hooks

func Describe() ProviderInfo { return hooks.Describe() }

func ListEntries(parent, cursor wit_types.Option[string], limit uint32) wit_types.Result[Page, Failure] {
	return hooks.ListEntries(parent, cursor, limit)
}

func ListTemplates(cursor wit_types.Option[string]) wit_types.Result[TemplatePage, Failure] {
	return hooks.ListTemplates(cursor)
}

func Read(path string) wit_types.Result[[]Contents, Failure] { return hooks.Read(path) }

func Stat(path string) wit_types.Result[Entry, Failure] { return hooks.Stat(path) }

func Complete(template string, argument Argument, known []Argument) wit_types.Result[Completion, Failure] {
	return hooks.Complete(template, argument, known)
}

func Changes(watched []string, since wit_types.Option[string]) wit_types.Result[ChangeSet, Failure] {
	return hooks.Changes(watched, since)
}
