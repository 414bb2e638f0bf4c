package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mcp-host.example/provider"
)

func openFolder(t *testing.T) (string, provider.Provider) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"a b.md", "b.txt", "c.bin"} {
		write(t, folder, name, "1\n2\n3\n")
	}
	opened, err := open(provider.Config{"dir": folder})
	if err != nil {
		t.Fatal(err)
	}
	return folder, opened
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreListedByPagesAndRead(t *testing.T) {
	_, folder := openFolder(t)
	first, err := folder.List(provider.ListRequest{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	second, err := folder.List(provider.ListRequest{Limit: 2, Cursor: &first.NextCursor})
	if err != nil || second.NextCursor != "" {
		t.Fatal(second, err)
	}
	var paths []string
	for _, entry := range append(first.Entries, second.Entries...) {
		paths = append(paths, entry.Path)
	}
	if !slices.Equal(paths, []string{"a%20b.md", "b.txt", "c.bin"}) {
		t.Error(paths)
	}
	contents, err := folder.Read("first/a%20b.md?lines=2")
	if err != nil || contents[0].Text != "1\n2\n" {
		t.Error(contents, err)
	}
	for _, path := range []string{"missing", "first/..%2Fsecret"} {
		if _, err := folder.Read(path); !errors.Is(err, provider.ErrNotFound) {
			t.Error(path, err)
		}
	}
	if _, err := folder.Read("first/missing"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestNamesAreCompletedAndChangesReported(t *testing.T) {
	dir, folder := openFolder(t)
	request := provider.CompleteRequest{Template: "first/{name}{?lines}", Variable: "name", Typed: "a"}
	if completion, err := provider.Complete(folder, request); err != nil || !slices.Equal(completion.Values, []string{"a b.md"}) {
		t.Error(completion, err)
	}
	watched := []string{"b.txt", "first/b.txt?lines=1", "c.bin"}
	start, err := folder.(provider.Watcher).Changes(provider.ChangesRequest{Watched: watched})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "b.txt", "changed\n")
	later, err := folder.(provider.Watcher).Changes(provider.ChangesRequest{Watched: watched, Since: &start.Token})
	if err != nil || !slices.Equal(later.Changed, []string{"b.txt", "first/b.txt?lines=1"}) || !later.ListingChanged {
		t.Error(later, err)
	}
}
