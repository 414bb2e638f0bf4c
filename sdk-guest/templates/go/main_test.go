package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"mcp-host.example/provider"
)

func TestFilesAreListedReadAndWatched(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.md", "one\ntwo\nthree\n")
	write("b.bin", "\xff\x00")
	opened, err := open(provider.Config{"dir": folder, "lines": "2"})
	if err != nil {
		t.Fatal(err)
	}

	page, err := opened.List(provider.ListRequest{Limit: 10})
	if err != nil || len(page.Entries) != 2 || page.Entries[0].Name != "a.md" {
		t.Errorf("%v, %v", page, err)
	}
	if read, err := opened.Read("b.bin"); err != nil || string(read[0].Blob) != "\xff\x00" {
		t.Errorf("%v, %v", read, err)
	}
	if read, err := opened.Read("first/a.md"); err != nil || read[0].Text != "one\ntwo\n" {
		t.Errorf("%v, %v", read, err)
	}
	if _, err := opened.Read("c.md"); !errors.Is(err, provider.ErrNotFound) {
		t.Error(err)
	}
	request := provider.CompleteRequest{Template: "first/{name}", Variable: "name", Typed: "a"}
	if completion, err := provider.Complete(opened, request); err != nil || !reflect.DeepEqual(completion.Values, []string{"a.md"}) {
		t.Errorf("%v, %v", completion, err)
	}

	watcher := opened.(provider.Watcher)
	watched := []string{"first/a.md", "b.bin"}
	start, err := watcher.Changes(provider.ChangesRequest{Watched: watched})
	if err != nil {
		t.Fatal(err)
	}
	write("a.md", "changed\n")
	later, err := watcher.Changes(provider.ChangesRequest{Watched: watched, Since: &start.Token})
	if err != nil || !later.ListingChanged || !reflect.DeepEqual(later.Changed, []string{"first/a.md"}) {
		t.Errorf("%v, %v", later, err)
	}
}

func TestAFolderThatIsNotGrantedIsAFaultOfTheConfig(t *testing.T) {
	opened, err := open(provider.Config{"dir": filepath.Join(t.TempDir(), "missing")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opened.List(provider.ListRequest{Limit: 10}); err == nil || !strings.Contains(err.Error(), "grants.dirs") {
		t.Error(err)
	}
}
