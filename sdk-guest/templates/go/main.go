// The files of a folder: one resource per file, and a template for the first lines of each.
//
// `go generate` builds the component.
package main

//go:generate env GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags=-w -o {{name}}.core.wasm .
//go:generate mcp-host componentize {{name}}.core.wasm --needs needs.json

import (
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"mcp-host.example/provider"
)

const firstLines = "first/{file}"

// types are MIME types by extension.
var types = map[string]string{
	".html": "text/html", ".json": "application/json", ".md": "text/markdown", ".png": "image/png", ".txt": "text/plain",
}

func init() {
	info := provider.Info{Name: "{{name}}", Version: "0.1.0", Description: "The files of a folder.", Watches: true}
	provider.Export(info, open)
}

func main() {}

// files is the provider.
type files struct {
	folder string
	lines  int
}

func open(config provider.Config) (provider.Provider, error) {
	lines, err := config.Int("lines", 0, math.MaxInt32, 10)
	return &files{folder: config.String("dir", "/data"), lines: int(lines)}, err
}

func (files *files) List(request provider.ListRequest) (provider.Page, error) {
	var page provider.Page
	if request.Parent != nil {
		if _, err := files.Read(*request.Parent); err != nil {
			return page, err
		}
		return page, provider.InvalidRequest("expected no parent: a file has no children")
	}
	names, err := files.names()
	if err != nil {
		return page, err
	}
	if request.Cursor != nil {
		last, ok := strings.CutPrefix(*request.Cursor, ":")
		if !ok {
			return page, provider.InvalidRequest("expected a cursor of this provider")
		}
		start, found := slices.BinarySearch(names, last)
		if found {
			start++
		}
		names = names[start:]
	}
	if len(names) > request.Limit {
		names = names[:request.Limit]
		page.NextCursor = ":" + names[len(names)-1]
	}
	for _, name := range names {
		// A file that was deleted in the meantime is left out.
		if found, ok := files.find(name); ok {
			page.Entries = append(page.Entries, entry(name, found))
		}
	}
	return page, nil
}

func (files *files) Read(path string) ([]provider.Contents, error) {
	segment, isTemplate := strings.CutPrefix(path, "first/")
	name, err := provider.DecodeSegment(segment)
	if err != nil {
		return nil, err
	}
	found, ok := files.find(name)
	if !ok {
		return nil, files.missing()
	}
	bytes, err := os.ReadFile(filepath.Join(files.folder, name))
	if err != nil {
		return nil, err
	}
	if !isTemplate {
		return []provider.Contents{provider.Bytes(entry(name, found), bytes)}, nil
	}
	if !utf8.Valid(bytes) {
		return nil, provider.InvalidRequest("expected a text file; %s is not UTF-8", name)
	}
	lines := strings.SplitAfter(string(bytes), "\n")
	text := strings.Join(lines[:min(len(lines), files.lines)], "")
	first := provider.Entry{Path: path, Name: "first lines of " + name, MimeType: "text/plain", Subscribable: true}
	return []provider.Contents{provider.Text(first, text)}, nil
}

func (files *files) Templates() ([]provider.Template, error) {
	return []provider.Template{{
		PathTemplate: firstLines, Name: "first-lines", Title: "First lines of a file", MimeType: "text/plain",
	}}, nil
}

func (files *files) Complete(request provider.CompleteRequest) (provider.Completion, error) {
	names, err := files.names()
	return provider.Matching(names, request.Typed), err
}

// Changes has a token with one line for the listing, and one for each watched path.
func (files *files) Changes(request provider.ChangesRequest) (provider.Changes, error) {
	names, err := files.names()
	if err != nil {
		return provider.Changes{}, err
	}
	var states []string
	for _, name := range names {
		states = append(states, name, files.state(name))
	}
	lines := []string{fmt.Sprintf("listing %x", digest(states...))}
	for _, path := range request.Watched {
		name, _ := provider.DecodeSegment(strings.TrimPrefix(path, "first/"))
		lines = append(lines, fmt.Sprintf("%x %s", digest(path), files.state(name)))
	}
	changes := provider.Changes{Token: strings.Join(lines, "\n")}
	if request.Since == nil {
		return changes, nil
	}
	then := strings.Split(*request.Since, "\n")
	changes.ListingChanged = !slices.Contains(then, lines[0])
	for index, path := range request.Watched {
		if !slices.Contains(then, lines[index+1]) {
			changes.Changed = append(changes.Changed, path)
		}
	}
	return changes, nil
}

// names returns the names of the files, sorted; hidden ones are left out.
func (files *files) names() ([]string, error) {
	entries, err := os.ReadDir(files.folder)
	if err != nil {
		// Not wrapped: a folder that is missing is a fault of the config, and no resource that is not found.
		return nil, fmt.Errorf("cannot read the folder %s: %v; does `grants.dirs` grant it?", files.folder, err)
	}
	var names []string
	for _, entry := range entries {
		if _, ok := files.find(entry.Name()); ok {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// missing returns the error for a file that is not there: another one if the folder is not there, which no client can help.
func (files *files) missing() error {
	if _, err := files.names(); err != nil {
		return err
	}
	return provider.ErrNotFound
}

// find returns the file of that name.
func (files *files) find(name string) (os.FileInfo, bool) {
	if name == "" || strings.HasPrefix(name, ".") || strings.Contains(name, "/") || !utf8.ValidString(name) {
		return nil, false
	}
	found, err := os.Stat(filepath.Join(files.folder, name))
	return found, err == nil && found.Mode().IsRegular()
}

func entry(name string, found os.FileInfo) provider.Entry {
	return provider.Entry{
		Path: provider.EncodeSegment(name), Name: name, MimeType: types[filepath.Ext(name)],
		Size: provider.Size(found.Size()), Subscribable: true,
	}
}

// state returns what changes when a file does.
func (files *files) state(name string) string {
	found, ok := files.find(name)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%d.%d", found.Size(), found.ModTime().UnixNano())
}

// digest returns a hash that is the same in every instance.
func digest(texts ...string) uint64 {
	hash := fnv.New64a()
	for _, text := range texts {
		hash.Write([]byte(text))
		hash.Write([]byte{0})
	}
	return hash.Sum64()
}
