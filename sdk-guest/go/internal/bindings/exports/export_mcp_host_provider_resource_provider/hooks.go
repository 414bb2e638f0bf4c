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
func Set(set Hooks) { hooks = &set }

var hooks *Hooks

// exported returns the functions. It panics if there are none, which would be a nil pointer without any hint otherwise.
func exported() *Hooks {
	if hooks == nil {
		panic("no provider is exported: call provider.Export in an init function; the main function of a component is never called")
	}
	return hooks
}

func Describe() ProviderInfo { return exported().Describe() }

func ListEntries(parent, cursor wit_types.Option[string], limit uint32) wit_types.Result[Page, Failure] {
	return exported().ListEntries(parent, cursor, limit)
}

func ListTemplates(cursor wit_types.Option[string]) wit_types.Result[TemplatePage, Failure] {
	return exported().ListTemplates(cursor)
}

func Read(path string) wit_types.Result[[]Contents, Failure] { return exported().Read(path) }

func Stat(path string) wit_types.Result[Entry, Failure] { return exported().Stat(path) }

func Complete(template string, argument Argument, known []Argument) wit_types.Result[Completion, Failure] {
	return exported().Complete(template, argument, known)
}

func Changes(watched []string, since wit_types.Option[string]) wit_types.Result[ChangeSet, Failure] {
	return exported().Changes(watched, since)
}
