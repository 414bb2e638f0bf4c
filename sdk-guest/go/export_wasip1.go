//go:build wasip1

package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"
	// A component has no files of the system, which time.LoadLocation would read.
	_ "time/tzdata"

	exported "mcp-host.example/provider/internal/bindings/exports/export_mcp_host_provider_resource_provider"
	_ "mcp-host.example/provider/internal/bindings/exports/wit_exports"
	wit "mcp-host.example/provider/internal/bindings/imports/mcp_host_provider_resource_provider"
	store "mcp-host.example/provider/internal/bindings/imports/wasi_config_store"
	logging "mcp-host.example/provider/internal/bindings/imports/wasi_logging_logging"
	"mcp-host.example/provider/internal/hook"
	types "mcp-host.example/provider/internal/wit/types"
)

// Export exports a provider: a component has one. It is called by an init function, because a component's main does not run. The
// provider is opened before the first call of an instance that needs it.
func Export(info Info, open Open) {
	slog.SetDefault(slog.New(&logHandler{}))
	instance := &component{info: info, open: open}
	exported.Set(exported.Hooks{
		Describe:      instance.describe,
		ListEntries:   instance.listEntries,
		ListTemplates: instance.listTemplates,
		Read:          instance.read,
		Stat:          instance.stat,
		Complete:      instance.complete,
		Changes:       instance.changes,
	})
	hook.Prepare = instance.prepare
}

// BeingPrepared is the error of a call that needs data that is not prepared yet. The client gets the progress and a time to
// retry, or the information that the config of the host does not let the provider prepare anything.
func BeingPrepared() error {
	_, mayPrepare := hostValue("mcp-host/limits.prepare.cpu-ms")
	percent, _ := hostValue("mcp-host/prepare.percent")
	return beingPrepared(mayPrepare, percent)
}

// hostValue returns the value of a key of the host.
func hostValue(key string) (string, bool) {
	value := store.Get(key)
	if value.IsErr() || value.Ok().IsNone() {
		return "", false
	}
	return value.Ok().Some(), true
}

// component is the provider of this instance.
type component struct {
	info     Info
	open     Open
	provider Provider
}

// opened returns the provider. One that cannot be opened fails the call, and is tried again by the next.
func (instance *component) opened() (Provider, error) {
	if instance.provider != nil {
		return instance.provider, nil
	}
	settings := Config{}
	if all := store.GetAll(); all.IsOk() {
		for _, pair := range all.Ok() {
			settings[pair.F0] = pair.F1
		}
	}
	provider, err := instance.open(settings)
	if err == nil {
		err = checkWatches(instance.info, provider)
	}
	if err == nil {
		instance.provider = provider
	}
	return provider, err
}

func logPanic(value any) {
	logging.Log(logging.Level_Error, "", fmt.Sprintf("panic: %v\n%s", value, debug.Stack()))
}

// answer makes a call of the contract, and converts the provider's result to the type of the bindings.
func answer[T, W any](instance *component, run func(Provider) (T, error), lower func(T) (W, error)) types.Result[W, wit.Failure] {
	lowered, err := call(func() (W, error) {
		var none W
		provider, err := instance.opened()
		if err != nil {
			return none, err
		}
		result, err := run(provider)
		if err != nil {
			return none, err
		}
		return lower(result)
	}, logPanic)
	if err != nil {
		return types.Err[W, wit.Failure](lowerFailure(err))
	}
	return types.Ok[W, wit.Failure](lowered)
}

func (instance *component) describe() wit.ProviderInfo {
	return wit.ProviderInfo{
		Name:        instance.info.Name,
		Version:     instance.info.Version,
		Title:       optionalText(instance.info.Title),
		Description: optionalText(instance.info.Description),
		Watches:     instance.info.Watches,
	}
}

func (instance *component) listEntries(parent, cursor types.Option[string], limit uint32) types.Result[wit.Page, wit.Failure] {
	request := ListRequest{Parent: pointer(parent), Cursor: pointer(cursor), Limit: int(min(limit, 1<<30))}
	return answer(instance, func(provider Provider) (Page, error) { return provider.List(request) },
		func(page Page) (wit.Page, error) {
			entries, err := lowerAll(page.Entries, lowerEntry)
			return wit.Page{Entries: entries, NextCursor: optionalText(page.NextCursor)}, err
		})
}

func (instance *component) listTemplates(cursor types.Option[string]) types.Result[wit.TemplatePage, wit.Failure] {
	if cursor.IsSome() {
		err := InvalidRequest("expected a cursor that this provider returned")
		return types.Err[wit.TemplatePage, wit.Failure](lowerFailure(err))
	}
	return answer(instance, templates, func(all []Template) (wit.TemplatePage, error) {
		lowered, err := lowerAll(all, lowerTemplate)
		return wit.TemplatePage{Templates: lowered, NextCursor: types.None[string]()}, err
	})
}

func (instance *component) read(path string) types.Result[[]wit.Contents, wit.Failure] {
	return answer(instance, func(provider Provider) ([]Contents, error) { return provider.Read(path) },
		func(all []Contents) ([]wit.Contents, error) { return lowerAll(all, lowerContents) })
}

func (instance *component) stat(path string) types.Result[wit.Entry, wit.Failure] {
	return answer(instance, func(provider Provider) (Entry, error) { return Stat(provider, path) }, lowerEntry)
}

func (instance *component) complete(template string, argument wit.Argument, known []wit.Argument) types.Result[wit.Completion, wit.Failure] {
	request := CompleteRequest{Template: template, Variable: argument.Name, Typed: argument.Value, Known: map[string]string{}}
	for _, one := range known {
		request.Known[one.Name] = one.Value
	}
	return answer(instance, func(provider Provider) (Completion, error) { return Complete(provider, request) },
		func(completion Completion) (wit.Completion, error) {
			total := types.None[uint32]()
			if completion.Total != nil {
				total = types.Some(uint32(*completion.Total))
			}
			return wit.Completion{Values: completion.Values, Total: total, HasMore: completion.HasMore}, nil
		})
}

func (instance *component) changes(watched []string, since types.Option[string]) types.Result[wit.ChangeSet, wit.Failure] {
	request := ChangesRequest{Watched: watched, Since: pointer(since)}
	return answer(instance, func(provider Provider) (Changes, error) { return changes(provider, request) },
		func(all Changes) (wit.ChangeSet, error) {
			after := types.None[uint64]()
			if all.PollAfter > 0 {
				after = types.Some(uint64(all.PollAfter.Milliseconds()))
			}
			return wit.ChangeSet{
				Token: all.Token, Changed: all.Changed, ListingChanged: all.ListingChanged, PollAfterMs: after,
			}, nil
		})
}

func (instance *component) prepare(token *string) (hook.Progress, *hook.Failure) {
	progress, err := call(func() (Progress, error) {
		provider, err := instance.opened()
		if err != nil {
			return Progress{}, err
		}
		return prepare(provider, token)
	}, logPanic)
	if err != nil {
		failure := asFailure(err)
		return hook.Progress{}, &hook.Failure{Reason: failure.Error(), RetryAfter: failure.retryAfter}
	}
	return hook.Progress(progress), nil
}

func lowerAll[T, W any](all []T, lower func(T) (W, error)) ([]W, error) {
	lowered := make([]W, 0, len(all))
	for _, one := range all {
		value, err := lower(one)
		if err != nil {
			return nil, err
		}
		lowered = append(lowered, value)
	}
	return lowered, nil
}

func lowerEntry(entry Entry) (wit.Entry, error) {
	meta, err := lowerMeta(entry.Meta)
	ttl := types.None[uint64]()
	if entry.TTL != nil {
		ttl = types.Some(uint64(max(entry.TTL.Milliseconds(), 0)))
	}
	return wit.Entry{
		Path:         entry.Path,
		Name:         entry.Name,
		Title:        optionalText(entry.Title),
		Description:  optionalText(entry.Description),
		MimeType:     optionalText(entry.MimeType),
		Size:         optional(entry.Size),
		Annotations:  lowerAnnotations(entry.Audience, entry.Priority, entry.LastModified),
		Icons:        lowerIcons(entry.Icons),
		Listable:     entry.Listable,
		Subscribable: entry.Subscribable,
		TtlMs:        ttl,
		Meta:         meta,
	}, err
}

func lowerTemplate(template Template) (wit.EntryTemplate, error) {
	meta, err := lowerMeta(template.Meta)
	return wit.EntryTemplate{
		PathTemplate: template.PathTemplate,
		Name:         template.Name,
		Title:        optionalText(template.Title),
		Description:  optionalText(template.Description),
		MimeType:     optionalText(template.MimeType),
		Annotations:  lowerAnnotations(template.Audience, template.Priority, template.LastModified),
		Icons:        lowerIcons(template.Icons),
		Meta:         meta,
	}, err
}

func lowerContents(contents Contents) (wit.Contents, error) {
	entry, err := lowerEntry(contents.Entry)
	if contents.Blob != nil {
		return wit.Contents{Entry: entry, Body: wit.MakeBodyBlob(contents.Blob)}, err
	}
	return wit.Contents{Entry: entry, Body: wit.MakeBodyText(contents.Text)}, err
}

func lowerAnnotations(audience []Role, priority *float64, modified time.Time) types.Option[wit.Annotations] {
	if len(audience) == 0 && priority == nil && modified.IsZero() {
		return types.None[wit.Annotations]()
	}
	roles := make([]wit.Role, 0, len(audience))
	for _, role := range audience {
		if role == User {
			roles = append(roles, wit.Role_User)
		} else {
			roles = append(roles, wit.Role_Assistant)
		}
	}
	last := types.None[string]()
	if !modified.IsZero() {
		last = types.Some(modified.UTC().Format(time.RFC3339Nano))
	}
	return types.Some(wit.Annotations{Audience: roles, Priority: optional(priority), LastModified: last})
}

func lowerIcons(icons []Icon) []wit.Icon {
	lowered := make([]wit.Icon, 0, len(icons))
	for _, icon := range icons {
		theme := types.None[wit.Theme]()
		switch icon.Theme {
		case Light:
			theme = types.Some(wit.Theme(wit.Theme_Light))
		case Dark:
			theme = types.Some(wit.Theme(wit.Theme_Dark))
		}
		lowered = append(lowered, wit.Icon{
			Src: icon.Src, MimeType: optionalText(icon.MimeType), Sizes: icon.Sizes, Theme: theme,
		})
	}
	return lowered
}

func lowerMeta(meta map[string]any) (types.Option[string], error) {
	if len(meta) == 0 {
		return types.None[string](), nil
	}
	text, err := json.Marshal(meta)
	return types.Some(string(text)), err
}

func lowerFailure(err error) wit.Failure {
	failure := asFailure(err)
	switch failure.kind {
	case notFound:
		return wit.MakeFailureNotFound()
	case invalidRequest:
		return wit.MakeFailureInvalidRequest(failure.message)
	case denied:
		return wit.MakeFailureDenied(failure.message)
	case unavailable:
		after := types.None[uint64]()
		if failure.retryAfter > 0 {
			after = types.Some(uint64(failure.retryAfter.Milliseconds()))
		}
		return wit.MakeFailureUnavailable(wit.Retry{Reason: failure.message, AfterMs: after})
	default:
		return wit.MakeFailureInternal(failure.message)
	}
}

func pointer(option types.Option[string]) *string {
	if option.IsNone() {
		return nil
	}
	value := option.Some()
	return &value
}

func optional[T any](value *T) types.Option[T] {
	if value == nil {
		return types.None[T]()
	}
	return types.Some(*value)
}

func optionalText(text string) types.Option[string] {
	if text == "" {
		return types.None[string]()
	}
	return types.Some(text)
}

// logHandler writes records of log/slog to the host's log.
type logHandler struct {
	attributes string
	group      string
}

func (*logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (handler *logHandler) Handle(_ context.Context, record slog.Record) error {
	var line strings.Builder
	line.WriteString(record.Message)
	line.WriteString(handler.attributes)
	record.Attrs(func(attribute slog.Attr) bool {
		fmt.Fprintf(&line, " %s%s=%v", handler.group, attribute.Key, attribute.Value)
		return true
	})
	level := logging.Level(logging.Level_Debug)
	switch {
	case record.Level >= slog.LevelError:
		level = logging.Level_Error
	case record.Level >= slog.LevelWarn:
		level = logging.Level_Warn
	case record.Level >= slog.LevelInfo:
		level = logging.Level_Info
	}
	logging.Log(level, "", line.String())
	return nil
}

func (handler *logHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	added := *handler
	for _, attribute := range attributes {
		added.attributes += fmt.Sprintf(" %s%s=%v", handler.group, attribute.Key, attribute.Value)
	}
	return &added
}

func (handler *logHandler) WithGroup(name string) slog.Handler {
	added := *handler
	added.group += name + "."
	return &added
}
