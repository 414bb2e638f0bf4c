// Package prepare exports the function prepare of the contract: a component has it if its main package imports this one.
//
//	import _ "mcp-host.example/provider/prepare"
//
// The provider implements [mcp-host.example/provider.Preparer].
package prepare
