// A folder of CSV files: one resource per file, and a template for rows and columns. The README of examples/csv says exactly what
// it does.
package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mcp-host.example/provider"
)

const rowsTemplate = "{file}/rows{?from,to,columns}"

func init() {
	provider.Export(provider.Info{
		Name:        "csv",
		Version:     "0.1.0",
		Title:       "CSV files",
		Description: "The CSV files of a folder, and rows of them.",
		Watches:     true,
	}, open)
}

func main() {}

// files is the provider.
type files struct {
	folder  folder
	maxRows int
}

func open(config provider.Config) (provider.Provider, error) {
	maxRows, err := config.Int("max-rows", 0, math.MaxInt32, 1000)
	return &files{folder: folder(config.String("dir", "/csv")), maxRows: maxRows}, err
}

func (files *files) List(request provider.ListRequest) (provider.Page, error) {
	var page provider.Page
	if request.Parent != nil {
		if _, err := files.parse(*request.Parent); err != nil {
			return page, err
		}
		return page, provider.InvalidRequest("not a container")
	}
	names, err := files.folder.names()
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
		entry, err := files.folder.entry(name)
		if err == provider.ErrNotFound {
			continue // Deleted in the meantime.
		}
		if err != nil {
			return page, err
		}
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}

func (files *files) Read(path string) ([]provider.Contents, error) {
	resource, err := files.parse(path)
	if err != nil {
		return nil, err
	}
	if !resource.isRows {
		entry, err := files.folder.entry(resource.file)
		if err != nil {
			return nil, err
		}
		bytes, err := files.folder.read(resource.file)
		return []provider.Contents{provider.Bytes(entry, bytes)}, err
	}
	text, err := files.rows(resource)
	entry := provider.Entry{Path: path, Name: "rows of " + resource.file, MimeType: "text/csv", Subscribable: true}
	return []provider.Contents{provider.Text(entry, text)}, err
}

func (files *files) Templates() ([]provider.Template, error) {
	return []provider.Template{{
		PathTemplate: rowsTemplate,
		Name:         "rows",
		Title:        "Rows of a CSV file",
		Description: "Rows from..=to, counted from 1, and columns, separated by commas. By default all columns, and as many rows " +
			"as one read returns.",
		MimeType: "text/csv",
	}}, nil
}

func (files *files) Complete(request provider.CompleteRequest) (provider.Completion, error) {
	switch file := request.Known["file"]; {
	case request.Variable == "file":
		names, err := files.folder.names()
		return provider.Matching(names, request.Typed), err
	case request.Variable == "columns" && files.folder.has(file):
		return files.completeColumns(file, request.Typed)
	default:
		return provider.Completion{}, nil
	}
}

// completeColumns completes the text behind the last comma to columns that are not named before it.
func (files *files) completeColumns(file, typed string) (provider.Completion, error) {
	text, err := files.folder.text(file)
	if err != nil {
		return provider.Completion{}, err
	}
	records := newRecords(text)
	header, ok := records.next()
	if !ok {
		return provider.Completion{}, nil
	}
	kept := typed[:strings.LastIndex(typed, ",")+1]
	before := newRecords(strings.TrimSuffix(kept, ","))
	taken, _ := before.next()
	var candidates []string
	for _, column := range header {
		if !slices.Contains(taken, column) && strings.HasPrefix(column, typed[len(kept):]) {
			candidates = append(candidates, kept+quote(column))
		}
	}
	return provider.Matching(candidates, ""), nil
}

// Changes has a token with one line for the listing, and one for each watched path.
func (files *files) Changes(request provider.ChangesRequest) (provider.Changes, error) {
	names, err := files.folder.names()
	if err != nil {
		return provider.Changes{}, err
	}
	var states []string
	for _, name := range names {
		states = append(states, name, files.folder.state(name))
	}
	lines := []string{fmt.Sprintf("listing %x", digest(states...))}
	for _, path := range request.Watched {
		segment, _, _ := strings.Cut(strings.ReplaceAll(path, "?", "/"), "/")
		name, _ := provider.DecodeSegment(segment)
		lines = append(lines, fmt.Sprintf("%x %s", digest(path), files.folder.state(name)))
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
