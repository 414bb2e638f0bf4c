package provider

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestATemplateIsMatchedAndExpanded(t *testing.T) {
	for _, one := range []struct {
		template, path string
		values         map[string]string
	}{
		{"log/{rev}{?path,limit}", "log/feature%2Fx?path=a/b&limit=3", map[string]string{"rev": "feature/x", "limit": "3", "path": "a/b"}},
		{"log/{rev}{?path}", "log/main", map[string]string{"rev": "main"}},
		{"{+file}/rows", "a/b%20c/rows", map[string]string{"file": "a/b c"}},
		{"{a}-{b}", "x-y-z", map[string]string{"a": "x-y", "b": "z"}},
		{"{name}", "..", nil},
	} {
		template := MustParseTemplate(one.template)
		values, ok := template.Match(one.path)
		if one.values == nil {
			continue
		}
		if !ok || !reflect.DeepEqual(values, one.values) {
			t.Errorf("%s: %v, %v", one.path, values, ok)
		}
		expanded, err := template.Expand(one.values)
		again, _ := template.Match(expanded)
		if err != nil || !reflect.DeepEqual(again, one.values) {
			t.Errorf("%s: %s, %v", one.path, expanded, err)
		}
	}
	log := MustParseTemplate("log/{rev}{?limit}")
	for _, path := range []string{"log/", "log/a/b", "log/%ff", "log/%00", "log/%", "log/a?x=1", "log/a?limit=1&limit=1", "Log/a"} {
		if values, ok := log.Match(path); ok {
			t.Errorf("%s: %v", path, values)
		}
	}
	if values, ok := MustParseTemplate("{+file}").Match("a%2Fb"); ok {
		t.Error(values)
	}
	if path, err := log.Expand(map[string]string{"rev": "a@b/c?", "limit": "&"}); path != "log/a@b%2Fc%3F?limit=%26" || err != nil {
		t.Error(path, err)
	}
	if _, err := log.Expand(nil); err == nil {
		t.Error("a variable is missing")
	}
	for _, text := range []string{"{a}{a}", "{#a}", "{a,b}", "{?a}/b", "{a", "a?b", "{?a}{?b}", "{}", "{?a,a}", "{+a,b}"} {
		if _, err := ParseTemplate(text); err == nil {
			t.Error(text)
		}
	}
}

func TestAPageIsContinuedWhereItEnded(t *testing.T) {
	keys := []string{"c", "a", "d", "b"}
	entry := func(key string) (Entry, error) {
		if key == "b" {
			return Entry{}, ErrNotFound
		}
		return Entry{Path: key, Name: key}, nil
	}
	page, err := Paginate(keys, ListRequest{Limit: 2}, entry)
	if err != nil || len(page.Entries) != 1 || page.NextCursor != ":b" {
		t.Fatal(page, err)
	}
	page, err = Paginate(keys[:2], ListRequest{Limit: 2, Cursor: &page.NextCursor}, entry)
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Path != "c" || page.NextCursor != "" {
		t.Error(page, err)
	}
	foreign := "b"
	if _, err := Paginate(keys, ListRequest{Limit: 2, Cursor: &foreign}, entry); !IsInvalidRequest(err) {
		t.Error(err)
	}
}

func TestTheConfigIsReadByTypes(t *testing.T) {
	config := Config{"ratio": "1.5", "fast": "true", "tags": `["a","b"]`, "table": `{"a":1}`, "wrong": "much"}
	ratio, err := config.Float("ratio", 0)
	fast, err2 := config.Bool("fast", false)
	tags, err3 := config.Strings("tags", nil)
	if ratio != 1.5 || !fast || !slices.Equal(tags, []string{"a", "b"}) || errors.Join(err, err2, err3) != nil {
		t.Error(ratio, fast, tags, err, err2, err3)
	}
	var table struct{ A int }
	if found, err := config.JSON("table", &table); !found || err != nil || table.A != 1 {
		t.Error(found, err, table)
	}
	if found, err := config.JSON("none", &table); found || err != nil {
		t.Error(found, err)
	}
	_, err = config.Float("wrong", 0)
	_, err2 = config.Bool("wrong", false)
	_, err3 = config.Strings("wrong", nil)
	_, err4 := config.JSON("wrong", &table)
	for _, err := range []error{err, err2, err3, err4} {
		if err == nil || !strings.Contains(err.Error(), "`wrong`") || !strings.Contains(err.Error(), "`much`") {
			t.Error(err)
		}
	}
	if other, err := config.Bool("none", true); !other || err != nil {
		t.Error(other, err)
	}
}

func TestWhatWasMadeOfAFileIsKeptUntilItChanges(t *testing.T) {
	file := File(filepath.Join(t.TempDir(), "a"))
	writeText(t, string(file), "1")
	var memo Memo[string]
	calls := 0
	made := func(bytes []byte) (string, error) { calls++; return string(bytes), nil }
	for range 2 {
		if value, err := memo.Get(file, made); value != "1" || calls != 1 || err != nil {
			t.Error(value, calls, err)
		}
	}
	writeText(t, string(file), "22")
	if value, err := memo.Get(file, made); value != "22" || calls != 2 || err != nil {
		t.Error(value, calls, err)
	}
	if _, err := memo.Get(file+"b", made); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type typedArguments struct {
	Number int
	Ratio  float64 `default:"0.5"`
	Day    *time.Time
	Level  string `default:"low" oneof:"low,high"`
	Flag   bool   `default:"false"`
	Text   string `var:"q" default:"none"`
}

func typed(_ Config, of typedArguments) (any, error) {
	day := "-"
	if of.Day != nil {
		day = of.Day.Format(time.DateOnly)
	}
	return fmt.Sprintf("%d %v %s %s %v %s", of.Number, of.Ratio, day, of.Level, of.Flag, of.Text), nil
}

func opened(t *testing.T, config Config, functions ...*Function) Provider {
	t.Helper()
	made, err := Functions(functions...)(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestArgumentsAreConverted(t *testing.T) {
	made := opened(t, nil,
		Resource("typed/{number}{?ratio,day,level,flag,q}", typed),
		Resource("wanted{?q}", func(_ Config, of string) (any, error) { return of, nil }),
	)
	for path, expected := range map[string]string{
		"typed/7": "7 0.5 - low false none",
		"typed/-7?ratio=2&day=2026-11-28&level=high": "-7 2 2026-11-28 high false none",
		"typed/0?flag=true&q=a%20b&ratio=":           "0 0.5 - low true a b",
		"typed/7?day=2026-11-28T09:00:00Z":           "7 0.5 2026-11-28 low false none",
		"wanted?q=x":                                 "x",
	} {
		contents, err := made.Read(path)
		if err != nil || contents[0].Text != expected || contents[0].Entry.MimeType != "text/plain" {
			t.Errorf("%s: %v, %v", path, contents, err)
		}
	}
	for path, expected := range map[string]string{
		"typed/x":                   "`number` must be an integer, such as 7, found \"x\"",
		"typed/07":                  "`number` must be an integer",
		"typed/9223372036854775808": "`number` must be an integer",
		"typed/1?ratio=1e5":         "`ratio` must be a number",
		"typed/1?ratio=NaN":         "`ratio` must be a number",
		"typed/1?level=mid":         "`level` must be low or high",
		"typed/1?flag=1":            "`flag` must be true or false",
		"typed/1?day=today":         "`day` must be a day or a time",
		"wanted":                    "expected a value of `q`: `?q=…`",
	} {
		if _, err := made.Read(path); !IsInvalidRequest(err) || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: %v", path, err)
		}
	}
	completion, err := Complete(made, CompleteRequest{Template: "typed/{number}{?ratio,day,level,flag,q}", Variable: "level", Typed: "h"})
	if err != nil || !slices.Equal(completion.Values, []string{"high"}) {
		t.Error(completion, err)
	}
}

func TestWhatDoesNotFitATemplateIsAPanicAtTheStart(t *testing.T) {
	text := func(Config, string) (any, error) { return nil, nil }
	none := func(Config, struct{}) (any, error) { return nil, nil }
	for expected, declare := range map[string]func(){
		"write a field for it: `B string`": func() { Resource("{a}{?b}", func(Config, struct{ A string }) (any, error) { return nil, nil }) },
		"has no variable \"b\"":            func() { Resource("{a}", func(Config, struct{ A, B string }) (any, error) { return nil, nil }) },
		"has the type []string":            func() { Resource("{a}", func(Config, []string) (any, error) { return nil, nil }) },
		"has 2 variables":                  func() { Resource("{a}/{b}", text) },
		"begins with a slash":              func() { Resource("/a", none) },
		"paths have \"a%20b\"":             func() { Resource("a b", none) },
		"are those of": func() {
			Functions(Resource("a/{b}", text), Resource("a/{c}{?d}", func(Config, struct{ C, D string }) (any, error) { return nil, nil }))
		},
		"there is a resource named": func() { Functions(Resource("{a}/x", text), Resource("x", none)) },
		"has no variable \"c\"":     func() { Resource("{a}", text, Completes("c", nil)) },
		"the default of b": func() {
			Resource("x{?b}", func(Config, struct {
				B int `default:"x"`
			}) (any, error) {
				return nil, nil
			})
		},
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, expected) {
					t.Errorf("%s: %s", expected, said)
				}
			}()
			declare()
		}()
	}
}

// folderOf is a provider of a folder's files, by functions.
func folderOf(t *testing.T, folder string) Provider {
	dir := func(config Config) string { return config.String("dir", "/data") }
	return opened(t, Config{"dir": folder},
		Resource("{name}", func(config Config, name FileName) (any, error) { return name.In(dir(config)), nil },
			List(func(config Config) iter.Seq2[File, error] { return Files(dir(config)) })),
		Resource("size/{name}", func(config Config, name FileName) (any, error) {
			bytes, err := os.ReadFile(string(name.In(dir(config))))
			return map[string]int{"bytes": len(bytes)}, err
		}),
	)
}

// pathsOf returns the paths of all pages.
func pathsOf(t *testing.T, open func() Provider, limit int) []string {
	t.Helper()
	var paths []string
	request := ListRequest{Limit: limit}
	for {
		page, err := open().List(request)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range page.Entries {
			paths = append(paths, entry.Path)
		}
		if page.NextCursor == "" {
			return paths
		}
		request.Cursor = &page.NextCursor
	}
}

func TestAFolderHasPagesContentsCompletionAndChanges(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"b.md": "b", "a list.txt": "a", ".hidden": "", "c.png": "\xff"} {
		writeText(t, filepath.Join(folder, name), text)
	}
	if err := os.Mkdir(filepath.Join(folder, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	open := func() Provider { return folderOf(t, folder) }
	for _, limit := range []int{1, 2, 10} {
		if paths := pathsOf(t, open, limit); !slices.Equal(paths, []string{"a%20list.txt", "b.md", "c.png"}) {
			t.Error(limit, paths)
		}
	}
	made := open()
	contents, err := made.Read("b.md")
	if err != nil || contents[0].Text != "b" || contents[0].Entry.MimeType != "text/markdown" || contents[0].Entry.Name != "b.md" {
		t.Error(contents, err)
	}
	if contents, err := made.Read("c.png"); err != nil || string(contents[0].Blob) != "\xff" {
		t.Error(contents, err)
	}
	if contents, err := made.Read("size/b.md"); err != nil || contents[0].Text != "{\n  \"bytes\": 1\n}" {
		t.Error(contents, err)
	}
	for _, path := range []string{"d", "e", ".hidden", "..", "..%2Fb.md", "size/e", "x/y/z"} {
		if _, err := made.Read(path); asFailure(err).kind != notFound {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entry, err := Stat(made, "b.md"); err != nil || *entry.Size != 1 || entry.LastModified.IsZero() || !entry.Subscribable {
		t.Error(entry, err)
	}
	parent := "b.md"
	if _, err := made.List(ListRequest{Parent: &parent, Limit: 1}); !IsInvalidRequest(err) {
		t.Error(err)
	}
	for _, template := range []string{"{name}", "size/{name}"} {
		completion, err := Complete(made, CompleteRequest{Template: template, Variable: "name", Typed: "b"})
		if err != nil || !slices.Equal(completion.Values, []string{"b.md"}) {
			t.Error(completion, err)
		}
	}

	watched := []string{"b.md", "size/b.md", "new", "a%20list.txt"}
	start, err := made.(Watcher).Changes(ChangesRequest{Watched: watched})
	if err != nil || start.Changed != nil || start.ListingChanged {
		t.Error(start, err)
	}
	request := ChangesRequest{Watched: watched, Since: &start.Token}
	if quiet, err := open().(Watcher).Changes(request); err != nil || !reflect.DeepEqual(quiet, start) {
		t.Error(quiet, err)
	}
	writeText(t, filepath.Join(folder, "b.md"), "bb")
	writeText(t, filepath.Join(folder, "new"), "")
	later, err := open().(Watcher).Changes(request)
	if err != nil || !slices.Equal(later.Changed, []string{"b.md", "size/b.md", "new"}) || !later.ListingChanged {
		t.Error(later, err)
	}

	gone := folderOf(t, "/not-granted/data")
	_, err = gone.Read("a")
	_, err2 := gone.List(ListRequest{Limit: 1})
	for _, err := range []error{err, err2} {
		if asFailure(err).kind != internal || !strings.Contains(err.Error(), "grants.dirs") {
			t.Error(err)
		}
	}
}

func TestAListingInAnyOrderIsContinuedAfterChanges(t *testing.T) {
	values := []int{5, 3, 9, 1, 7, 2, 8}
	type key struct{ Kind, Number string }
	open := func() Provider {
		return opened(t, nil,
			Resource("n/{number}", func(_ Config, number int) (any, error) { return nil, nil },
				List(func(Config) iter.Seq2[int, error] { return Each(values, nil) })),
			Resource("about", func(Config, struct{}) (any, error) { return "text", nil },
				Described(About{Title: "About", Description: "What it is."})),
			Resource("k/{kind}/{number}", func(_ Config, of key) (any, error) { return []string(nil), nil },
				List(func(Config) iter.Seq2[Item, error] {
					return Each([]Item{{Value: key{"a", "1"}, Entry: Entry{Title: "One"}}, {Value: key{"..", "2"}}, {Value: key{"a/b", "3"}}}, nil)
				})),
		)
	}
	expected := []string{"n/5", "n/3", "n/9", "n/1", "n/7", "n/2", "n/8", "about", "k/a/1", "k/%2E%2E/2", "k/a%2Fb/3"}
	for _, limit := range []int{1, 3, 20} {
		if paths := pathsOf(t, open, limit); !slices.Equal(paths, expected) {
			t.Error(limit, paths)
		}
	}
	page, err := open().List(ListRequest{Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, changed := range [][]int{{4, 5, 3, 9, 1}, {5, 3, 1}, {5, 1}} {
		values = changed
		next, err := open().List(ListRequest{Limit: 1, Cursor: &page.NextCursor})
		if err != nil || len(next.Entries) != 1 || next.Entries[0].Path != "n/1" {
			t.Error(changed, next, err)
		}
	}
	for _, cursor := range []string{"", "x", "9:0:", "0:-1:", "0:0:zz", "0:0:" + strings.Repeat("a", 17*12)} {
		if _, err := open().List(ListRequest{Limit: 1, Cursor: &cursor}); !IsInvalidRequest(err) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
	if entry, err := Stat(open(), "about"); err != nil || entry.Description != "What it is." || entry.Name != "about" {
		t.Error(entry, err)
	}
	if contents, err := open().Read("k/a/9"); err != nil || contents[0].Text != "[]" {
		t.Error(contents, err)
	}
	if _, err := open().Read("n/1"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	completion, err := Complete(open(), CompleteRequest{
		Template: "k/{kind}/{number}", Variable: "number", Known: map[string]string{"kind": "a"},
	})
	if err != nil || !slices.Equal(completion.Values, []string{"1"}) {
		t.Error(completion, err)
	}
}

func TestAFingerprintOrACompletionMayBeAFunction(t *testing.T) {
	state := "1"
	made := opened(t, nil, Resource("{name}", func(Config, string) (any, error) { return nil, errors.New("not read") },
		Fingerprint(func(_ Config, name string) (string, error) { return name + state, nil }),
		Completes("name", func(_ Config, request CompleteRequest) ([]string, error) { return []string{"one", "two"}, nil })))
	watcher := made.(Watcher)
	start, err := watcher.Changes(ChangesRequest{Watched: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	state = "2"
	later, err := watcher.Changes(ChangesRequest{Watched: []string{"a"}, Since: &start.Token})
	if err != nil || !slices.Equal(later.Changed, []string{"a"}) {
		t.Error(later, err)
	}
	completion, err := Complete(made, CompleteRequest{Template: "{name}", Variable: "name", Typed: "t"})
	if err != nil || !slices.Equal(completion.Values, []string{"two"}) {
		t.Error(completion, err)
	}
}

func TestAProviderOfFunctionsIsPreparedAndKeepsTheRest(t *testing.T) {
	folder := t.TempDir()
	writeText(t, filepath.Join(folder, "b.md"), "b")
	open := func(Config) (Provider, error) { return folderOf(t, folder), nil }
	made, err := Prepared(open, func(config Config, token *string) (Progress, error) {
		return ProgressOf(1, 2, "files of "+config["dir"], "1"), nil
	})(Config{"dir": "x"})
	if err != nil {
		t.Fatal(err)
	}
	progress, err := prepare(made, nil)
	if err != nil || progress.NextToken != "1" || progress.Message != "1 of 2 files of x" {
		t.Error(progress, err)
	}
	if all, err := templates(made); err != nil || len(all) != 2 {
		t.Error(all, err)
	}
	if entry, err := Stat(made, "b.md"); err != nil || *entry.Size != 1 {
		t.Error(entry, err)
	}
	completion, err := Complete(made, CompleteRequest{Template: "size/{name}", Variable: "name", Typed: "b"})
	if err != nil || !slices.Equal(completion.Values, []string{"b.md"}) {
		t.Error(completion, err)
	}
	if start, err := changes(made, ChangesRequest{Watched: []string{"b.md"}}); err != nil || start.Token == "" {
		t.Error(start, err)
	}
	if err := checkWatches(Info{Watches: true}, made); err != nil {
		t.Error(err)
	}
	failing := Prepared(func(Config) (Provider, error) { return nil, ErrNotFound }, nil)
	if _, err := failing(nil); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestAProviderThatDeclaresChangesAndLacksThemIsAnError(t *testing.T) {
	embedding := struct{ Provider }{folderOf(t, t.TempDir())}
	for _, lacking := range []Provider{embedding, &prepared{embedding, nil}} {
		err := checkWatches(Info{Watches: true}, lacking)
		if err == nil || !strings.Contains(err.Error(), "is no Watcher") || !strings.Contains(err.Error(), "provider.Prepared") {
			t.Error(err)
		}
		if err := checkWatches(Info{}, lacking); err != nil {
			t.Error(err)
		}
	}
}
