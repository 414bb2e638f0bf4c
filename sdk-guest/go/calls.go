package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Open opens a provider with the config of the plugin.
type Open func(config Config) (Provider, error)

// checkWatches fails if a provider declares that it reports changes and has no function that does.
func checkWatches(info Info, provider Provider) error {
	if !info.Watches {
		return nil
	}
	if other, ok := provider.(*prepared); ok {
		provider = other.Provider
	}
	if _, ok := provider.(Watcher); ok {
		return nil
	}
	return fmt.Errorf("Info.Watches is true, and the provider of the type %T is no Watcher: write its method Changes, or leave out Watches. "+
		"A struct that embeds a provider.Provider has the methods List and Read only; provider.Prepared keeps the others", provider)
}

// templates returns the templates of a provider.
func templates(provider Provider) ([]Template, error) {
	if templater, ok := provider.(Templater); ok {
		return templater.Templates()
	}
	return nil, nil
}

// Stat returns the entry of a resource as a host asks for it: by [Stater], or by reading.
func Stat(provider Provider, path string) (Entry, error) {
	if stater, ok := provider.(Stater); ok {
		return stater.Stat(path)
	}
	all, err := provider.Read(path)
	if err != nil {
		return Entry{}, err
	}
	for _, contents := range all {
		if contents.Entry.Path == path {
			return contents.Entry, nil
		}
	}
	return Entry{}, ErrNotFound
}

// Complete completes a variable as a host asks for it: templates and variables that do not exist are refused.
func Complete(provider Provider, request CompleteRequest) (Completion, error) {
	all, err := templates(provider)
	if err != nil {
		return Completion{}, err
	}
	if !slices.ContainsFunc(all, func(one Template) bool { return one.PathTemplate == request.Template }) {
		return Completion{}, InvalidRequest("expected a template as `resources/templates/list` has it, found %q", request.Template)
	}
	names := variables(request.Template)
	if !slices.Contains(names, request.Variable) {
		return Completion{}, InvalidRequest(
			"expected a variable of \"%s\" (%s), found \"%s\"", request.Template, strings.Join(names, ", "), request.Variable)
	}
	completer, ok := provider.(Completer)
	if !ok {
		return Completion{}, nil
	}
	completion, err := completer.Complete(request)
	if len(completion.Values) > MaxCompletions {
		completion.Values, completion.HasMore = completion.Values[:MaxCompletions], true
	}
	return completion, err
}

// changes asks a provider for changes.
func changes(provider Provider, request ChangesRequest) (Changes, error) {
	watcher, ok := provider.(Watcher)
	if !ok {
		return Changes{}, errors.New("the provider does not watch")
	}
	return watcher.Changes(request)
}

// prepare has a provider prepare.
func prepare(provider Provider, token *string) (Progress, error) {
	preparer, ok := provider.(Preparer)
	if !ok {
		return Progress{}, errors.New("the provider does not prepare: it is no Preparer")
	}
	return preparer.Prepare(token)
}

// beingPrepared is the error of a call that needs data that is not prepared yet, by the host's keys of the config.
func beingPrepared(mayPrepare bool, percent string) error {
	if !mayPrepare {
		return Unavailable(0, "it has to be prepared, which the config of the host does not allow")
	}
	if percent != "" {
		percent = ", " + percent + " %"
	}
	return Unavailable(time.Second, "it is being prepared%s", percent)
}

// call runs a function, and turns a panic into an error with the stack in the log.
func call[T any](run func() (T, error), logPanic func(value any)) (result T, err error) {
	defer func() {
		if value := recover(); value != nil {
			logPanic(value)
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return run()
}
