// A provider that is exported in main, which is never called, for the tests of the host.
package main

import "mcp-host.example/provider"

func main() {
	provider.Export(provider.Info{Name: "unexported", Version: "1.0.0"}, func(provider.Config) (provider.Provider, error) {
		return nil, provider.ErrNotFound
	})
}
