package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"mcp-host.example/provider"
)

func openFolder(t *testing.T, texts map[string]string) (string, provider.Provider) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range texts {
		writeFile(t, folder, name, text)
	}
	opened, err := open(provider.Config{"dir": folder, "max-rows": "2"})
	if err != nil {
		t.Fatal(err)
	}
	return folder, opened
}

func writeFile(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRowsAndColumnsOfAFileAreRead(t *testing.T) {
	_, csv := openFolder(t, map[string]string{"a.csv": "x,y\n1,2\n3,4\n5,6\n"})
	for path, expected := range map[string]string{
		"a.csv/rows":                        "x,y\n1,2\n3,4\n",
		"a.csv/rows?from=2&columns=y,x":     "y,x\n4,3\n6,5\n",
		"a.csv/rows?from=&to=1&columns=x":   "x\n1\n",
		"a.csv":                             "x,y\n1,2\n3,4\n5,6\n",
		"a.csv/rows?from=9&columns=\"x\",y": "x,y\n",
	} {
		contents, err := csv.Read(path)
		if err != nil || contents[0].Text != expected {
			t.Errorf("%s: %v, %v", path, contents, err)
		}
	}
	for _, path := range []string{"b.csv", "a.csv/row", "a.csv/rows?x=1", "a.csv/rows?to=1&to=2", "..%2Fa.csv", "a.csv?to=1"} {
		if _, err := csv.Read(path); !errors.Is(err, provider.ErrNotFound) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"a.csv/rows?from=0", "a.csv/rows?from=2&to=1", "a.csv/rows?columns=z", "a.csv/rows?to=01"} {
		if _, err := csv.Read(path); !provider.IsInvalidRequest(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestCsvIsReadLeniently(t *testing.T) {
	for text, expected := range map[string][][]string{
		"\ufeffa\n\n\r\nb":            {{"a"}, {"b"}},
		"\"a\"b,c\"d\"":               {{"ab", "c\"d\""}},
		"a,\"b":                       {{"a", "b"}},
		"a,\n":                        {{"a", ""}},
		"a\rb":                        {{"a\rb"}},
		"a,b\r\n1,\"x, \"\"y\"\"\"\n": {{"a", "b"}, {"1", "x, \"y\""}},
	} {
		records, found := newRecords(text), [][]string(nil)
		for record, ok := records.next(); ok; record, ok = records.next() {
			found = append(found, record)
		}
		if !reflect.DeepEqual(found, expected) {
			t.Errorf("%q: %q", text, found)
		}
	}
}

func TestColumnsCompleteBehindTheLastComma(t *testing.T) {
	_, csv := openFolder(t, map[string]string{"p.csv": "name,age,city\n"})
	request := provider.CompleteRequest{
		Template: rowsTemplate, Variable: "columns", Typed: "name,ci", Known: map[string]string{"file": "p.csv"},
	}
	completion, err := provider.Complete(csv, request)
	if err != nil || !reflect.DeepEqual(completion.Values, []string{"name,city"}) {
		t.Errorf("%v, %v", completion, err)
	}
	request.Variable = "x"
	if _, err := provider.Complete(csv, request); !provider.IsInvalidRequest(err) {
		t.Error(err)
	}
}

func TestAFileThatIsWrittenIsReported(t *testing.T) {
	folder, csv := openFolder(t, map[string]string{"a.csv": "x\n", "b.csv": "x\n"})
	watcher := csv.(provider.Watcher)
	watched := []string{"a.csv", "b.csv/rows"}
	start, err := watcher.Changes(provider.ChangesRequest{Watched: watched})
	if err != nil {
		t.Fatal(err)
	}
	request := provider.ChangesRequest{Watched: watched, Since: &start.Token}
	if quiet, err := watcher.Changes(request); err != nil || !reflect.DeepEqual(quiet, start) {
		t.Errorf("%v, %v", quiet, err)
	}
	writeFile(t, folder, "b.csv", "x\n1\n")
	later, err := watcher.Changes(request)
	if err != nil || !reflect.DeepEqual(later.Changed, []string{"b.csv/rows"}) || !later.ListingChanged {
		t.Errorf("%v, %v", later, err)
	}
}
