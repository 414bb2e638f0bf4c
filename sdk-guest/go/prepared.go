package provider

// Prepared adds work that takes longer than a call to a provider, such as one of [Functions]. The rest of the provider stays: its
// templates, completion and changes.
//
//	var open = provider.Prepared(provider.Functions(provider.Resource("events/{uid}", readEvent)), index)
//
//	func index(config provider.Config, token *string) (provider.Progress, error) { … }
//
// The function is called like Prepare of a [Preparer]. The component exports it if its main package imports
// mcp-host.example/provider/prepare.
func Prepared(open Open, prepare func(config Config, token *string) (Progress, error)) Open {
	return func(config Config) (Provider, error) {
		made, err := open(config)
		if err != nil {
			return nil, err
		}
		return &prepared{made, func(token *string) (Progress, error) { return prepare(config, token) }}, nil
	}
}

// prepared is a provider with a function that prepares. Functions beside List and Read return what a host gets from the other
// provider, if that does not implement it.
type prepared struct {
	Provider
	prepare func(token *string) (Progress, error)
}

func (provider *prepared) Stat(path string) (Entry, error) { return Stat(provider.Provider, path) }

func (provider *prepared) Templates() ([]Template, error) { return templates(provider.Provider) }

func (provider *prepared) Complete(request CompleteRequest) (Completion, error) {
	return Complete(provider.Provider, request)
}

func (provider *prepared) Changes(request ChangesRequest) (Changes, error) {
	return changes(provider.Provider, request)
}

func (provider *prepared) Prepare(token *string) (Progress, error) { return provider.prepare(token) }
