// Package provider is for providers of MCP resources in Go.
//
// A provider implements [Provider], and what it needs of [Stater], [Templater], [Completer] and [Watcher]. A struct that embeds a
// Provider has the methods of that interface only, and loses these. Its package main
// exports it in an init function:
//
//	func init() {
//		provider.Export(provider.Info{Name: "hello", Version: "1.0.0"}, func(config provider.Config) (provider.Provider, error) {
//			return hello{}, nil
//		})
//	}
//
//	func main() {}
//
// It is built by
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags=-w -o hello.core.wasm
//	mcp-host componentize hello.core.wasm
//
// # Errors
//
// A function fails with [ErrNotFound], or with the errors of [InvalidRequest], [Denied] and [Unavailable], wrapped or not.
// fs.ErrNotExist counts as not found, and fs.ErrPermission as denied. Every other error, and a panic, is an internal
// failure: clients get no text, and the text is in the host's log, with the stack of a panic. For a path that is below no
// granted directory, the text says what to add to grants.dirs.
//
// # Instances
//
// Every call may get a fresh instance, in which the provider is opened again. What must last is kept in a granted directory, in
// a cursor or in a token.
//
// # Files, time and the log
//
// Packages os, time and math/rand work: the directories are the plugin's grants. Package log/slog writes to the host's
// log. There is no network.
package provider

import (
	"fmt"
	"strings"
	"time"
)

// Info describes a provider. It must not depend on config or data.
type Info struct {
	// Name is a short name for programs.
	Name string
	// Version is the version of the provider.
	Version string
	// Title is the name for people.
	Title string
	// Description says what is served and how paths are built.
	Description string
	// Watches says whether the provider is a Watcher. If it is not, each call fails.
	Watches bool
}

// Provider answers for its resources.
type Provider interface {
	// List returns one page of the children of a resource, or of the resources that are useful to see first.
	List(request ListRequest) (Page, error)
	// Read returns a resource: at least one content. Several with the same path are several formats.
	Read(path string) ([]Contents, error)
}

// Stater returns entries without reading. By default, the entry of the first content is used.
type Stater interface {
	Stat(path string) (Entry, error)
}

// Templater has templates: families of resources whose paths are built by clients.
type Templater interface {
	Templates() ([]Template, error)
}

// Completer completes variables of the provider's templates. Unknown ones are refused before.
type Completer interface {
	Complete(request CompleteRequest) (Completion, error)
}

// Watcher reports changes. A provider that does not implement it has nothing that can be subscribed to.
type Watcher interface {
	// Changes returns which of the watched paths changed since the token of an earlier result. Without a token nothing has
	// changed. For a token that it does not understand, everything has: see AllChanged.
	Changes(request ChangesRequest) (Changes, error)
}

// Preparer has work that takes longer than a call, such as an index. Where the config has limits.prepare, the host calls Prepare in
// the background, after it has loaded the provider and after changes. Results are kept in a granted directory or in a bucket. The
// component has the function if its main package imports mcp-host.example/provider/prepare. [Prepared] makes a Preparer of another
// provider and a function.
type Preparer interface {
	// Prepare prepares a part of the work: a few hundred milliseconds of it. The token is the NextToken of the call before; nil
	// begins. A call that fails is repeated with the same token.
	Prepare(token *string) (Progress, error)
}

// Progress is the progress of a preparation after a call.
type Progress struct {
	// NextToken is the token of the next call, and never the one of this call; empty when everything is prepared. At most 65536 bytes.
	NextToken string
	// Percent is the part that is prepared, 0 to 100; nil if it is not known.
	Percent *int
	// Message says what has been done, for administrators.
	Message string
	// AgainAfter is the time after which everything is to be prepared again, although no change is reported.
	AgainAfter time.Duration
}

// ProgressOf is the progress of a preparation with this number done: "3000 of 5000 events". If some are left, the
// next call gets the token.
func ProgressOf(prepared, all int, what, token string) Progress {
	percent := 100
	if all > 0 {
		percent = min(prepared*100/all, 100)
	}
	progress := Progress{Percent: &percent, Message: fmt.Sprintf("%d of %d %s", prepared, all, what)}
	if prepared < all {
		progress.NextToken = token
	}
	return progress
}

// ListRequest is a request for one page of a listing.
type ListRequest struct {
	// Parent is the path of the resource whose children are listed; nil for the default listing.
	Parent *string
	// Cursor is the NextCursor of the page before; nil for the first page.
	Cursor *string
	// Limit is the number of entries that can be used, at least 1.
	Limit int
}

// Page is one page of a listing.
type Page struct {
	Entries []Entry
	// NextCursor is the cursor of the next page; empty on the last one. At most 4096 bytes.
	NextCursor string
}

// Role is an audience of a resource.
type Role uint8

// The roles.
const (
	User Role = iota
	Assistant
)

// Theme is the background that an icon is designed for.
type Theme uint8

// The themes.
const (
	AnyTheme Theme = iota
	Light
	Dark
)

// Icon is an icon that clients may show.
type Icon struct {
	// Src is an `https:` or `data:` URI.
	Src      string
	MimeType string
	// Sizes are sizes such as `48x48`, or `any`.
	Sizes []string
	Theme Theme
}

// Entry is one resource without its content. Path and Name are required; the zero value of everything else is none.
type Entry struct {
	// Path is percent-encoded: see EncodeSegment.
	Path        string
	Name        string
	Title       string
	Description string
	MimeType    string
	// Size is the number of bytes of the content: see Size.
	Size     *uint64
	Audience []Role
	// Priority is from 0 to 1.
	Priority     *float64
	LastModified time.Time
	Icons        []Icon
	Listable     bool
	Subscribable bool
	// TTL is how long a copy may be used.
	TTL *time.Duration
	// Meta is metadata for programs, which becomes a JSON object.
	Meta map[string]any
}

// Size returns a size for an Entry.
func Size[N int | int64 | uint64](bytes N) *uint64 {
	size := uint64(bytes)
	return &size
}

// Contents is one content with its resource.
type Contents struct {
	Entry Entry
	// Text is the content, if Blob is nil.
	Text string
	// Blob is a binary content.
	Blob []byte
}

// Text returns a content that is text, with the size of the text.
func Text(entry Entry, text string) Contents {
	entry.Size = Size(len(text))
	return Contents{Entry: entry, Text: text}
}

// Blob returns a binary content, with the size of the bytes.
func Blob(entry Entry, bytes []byte) Contents {
	entry.Size = Size(len(bytes))
	if bytes == nil {
		bytes = []byte{}
	}
	return Contents{Entry: entry, Blob: bytes}
}

// Bytes returns a content of unknown kind: text if it is UTF-8, else binary.
func Bytes(entry Entry, bytes []byte) Contents {
	if text := string(bytes); isUTF8(text) {
		return Text(entry, text)
	}
	return Blob(entry, bytes)
}

// Template is a family of resources.
type Template struct {
	// PathTemplate is an RFC 6570 template for paths, such as `{+file}/rows{?from,to}`.
	PathTemplate string
	Name         string
	Title        string
	Description  string
	MimeType     string
	Audience     []Role
	Priority     *float64
	LastModified time.Time
	Icons        []Icon
	Meta         map[string]any
}

// CompleteRequest is a request for values of a variable.
type CompleteRequest struct {
	// Template is the PathTemplate.
	Template string
	// Variable is the name of the variable.
	Variable string
	// Typed is the prefix that has been typed.
	Typed string
	// Known are variables that have values already.
	Known map[string]string
}

// Completion is a result of Complete. The host leaves out values that the client may not see, and at most 100 of the
// others reach it.
type Completion struct {
	Values []string
	// Total is the number of all matching values, if it is known.
	Total   *int
	HasMore bool
}

// MaxCompletions is the number of values that the host takes. Clients get at most 100 of those that they may see.
const MaxCompletions = 1000

// Matching returns the candidates that begin with the typed text, each once, at most MaxCompletions, with
// their total.
func Matching(candidates []string, typed string) Completion {
	values, total := []string{}, 0
	seen := map[string]bool{}
	for _, candidate := range candidates {
		if seen[candidate] || !strings.HasPrefix(candidate, typed) {
			continue
		}
		seen[candidate] = true
		if total++; total <= MaxCompletions {
			values = append(values, candidate)
		}
	}
	return Completion{Values: values, Total: &total, HasMore: total > len(values)}
}

// ChangesRequest is a request for changes.
type ChangesRequest struct {
	// Watched are the paths with subscribers.
	Watched []string
	// Since is the Token of an earlier result; nil for the first request.
	Since *string
}

// Changes are the changes since a token.
type Changes struct {
	// Token represents the current state. At most 65536 bytes.
	Token string
	// Changed are the watched paths that changed.
	Changed []string
	// ListingChanged says whether the default listing or the templates changed.
	ListingChanged bool
	// PollAfter is a hint when to ask again; 0 is none.
	PollAfter time.Duration
}

// AllChanged reports everything as changed: the answer to a token that is not understood.
func AllChanged(token string, request ChangesRequest) Changes {
	return Changes{Token: token, Changed: request.Watched, ListingChanged: true}
}
