package provider

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Function is a function that reads one resource, or all of a template. [Resource] creates it.
type Function struct {
	about     About
	pattern   *PathTemplate
	arguments *arguments
	read      func(config Config, values map[string]string) (any, error)
	list      func(config Config) iter.Seq2[any, error]
	complete  map[string]func(config Config, request CompleteRequest) (Completion, error)
	// fingerprint returns a text that differs when the content does. By default, the content itself is hashed.
	fingerprint func(config Config, values map[string]string) (string, error)
}

// Option is an option of [Resource].
type Option func(function *Function)

// About describes a resource, or all of a template.
type About struct {
	// Name is the name for programs. By default it is made from the template.
	Name        string
	Title       string
	Description string
	// MimeType is the MIME type of the content. By default it follows from the type that the function returns.
	MimeType string
	Audience []Role
	Priority *float64
	Icons    []Icon
	Meta     map[string]any
	// TTL is how long a copy may be used.
	TTL *time.Duration
	// NotSubscribable says that clients cannot subscribe to it.
	NotSubscribable bool
}

// Resource declares the resource of a path, or all of an RFC 6570 template, by the function that reads them:
//
//	type lines struct {
//		Name  provider.FileName
//		Lines int `default:"10"`
//	}
//
//	provider.Resource("first/{name}{?lines}", func(config provider.Config, of lines) (any, error) { … })
//
// The fields of its second parameter are the variables of the template, by their names in lower case, or by the tag `var`. For a path
// without variables it is struct{}. Their types are texts, integers, floats, bool, [FileName], and time.Time (a day, or RFC 3339); the
// tag `oneof:"low,high"` names all values of a text. Variables of the query have the tag `default`, or are pointers, which are nil without
// a value.
//
// The function returns a text, bytes, a [File], [Contents] or several, or anything else, which becomes JSON; nil and a nil pointer are
// not found. A template or a type that cannot be used is a panic when the program starts.
func Resource[A any](template string, read func(config Config, of A) (any, error), options ...Option) *Function {
	pattern, err := ParseTemplate(template)
	if err == nil {
		err = checkLiterals(pattern)
	}
	if err != nil {
		panic(err)
	}
	arguments := argumentsOf[A](pattern)
	function := &Function{pattern: pattern, arguments: arguments}
	function.read = func(config Config, values map[string]string) (any, error) {
		of, err := convert[A](arguments, values)
		if err != nil {
			return nil, err
		}
		return read(config, of)
	}
	function.complete = map[string]func(Config, CompleteRequest) (Completion, error){}
	for _, option := range options {
		option(function)
	}
	if function.about.Name == "" {
		function.about.Name = nameOf(pattern)
	}
	return function
}

// Described describes a resource.
func Described(about About) Option { return func(function *Function) { function.about = about } }

// List lists the resources of a template: values of its variable, for several variables a struct with fields as in [Resource], a [File] or
// an [Item]. They come in any order that stays the same while the data do, and only the items that a page needs are taken.
func List[T any](list func(config Config) iter.Seq2[T, error]) Option {
	return func(function *Function) {
		function.list = func(config Config) iter.Seq2[any, error] {
			return func(yield func(any, error) bool) {
				for value, err := range list(config) {
					if !yield(value, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// Each iterates over a slice, or yields the error: for listings of functions that return both.
func Each[T any](values []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, value := range values {
			if !yield(value, nil) {
				return
			}
		}
	}
}

// Item is an item of a listing, with metadata.
type Item struct {
	// Value is the value of the variable; for several variables, a struct.
	Value any
	// File is a file from which the entry takes its size, MIME type and modification time.
	File File
	// Entry has metadata; fields that are zero are taken from the function.
	Entry Entry
}

// Completes completes a variable: of the values that the function returns, those that begin with what was typed are used. Without it a
// variable is completed by its type, if that has few values, or else by the first listing that has a variable of that name.
func Completes(variable string, values func(config Config, request CompleteRequest) ([]string, error)) Option {
	return func(function *Function) {
		if !slices.Contains(function.pattern.Variables(), variable) {
			panic(fmt.Sprintf("the template %q has no variable %q", function.pattern, variable))
		}
		function.complete[variable] = func(config Config, request CompleteRequest) (Completion, error) {
			found, err := values(config, request)
			return Matching(found, request.Typed), err
		}
	}
}

// Fingerprint sets the function whose result differs when the content does. Without it, changes are found by the size and modification
// time of a file, or by a digest of the content.
func Fingerprint[A any](fingerprint func(config Config, of A) (string, error)) Option {
	return func(function *Function) {
		arguments := argumentsOf[A](function.pattern)
		function.fingerprint = func(config Config, values map[string]string) (string, error) {
			of, err := convert[A](arguments, values)
			if err != nil {
				return "", err
			}
			return fingerprint(config, of)
		}
	}
}

// Functions makes a provider of functions, which [Export] takes. It has pages, templates, completion and changes: Info.Watches is true.
//
//	var open = provider.Functions(
//		provider.Resource("{name}", read, provider.List(list)),
//		provider.Resource("first/{name}{?lines}", first),
//	)
//
//	func init() {
//		provider.Export(provider.Info{Name: "folder", Version: "0.1.0", Watches: true}, open)
//	}
func Functions(functions ...*Function) Open {
	for index, function := range functions {
		for _, other := range functions[:index] {
			if shapeOf(other.pattern) == shapeOf(function.pattern) {
				panic(fmt.Sprintf("the paths of %q are those of %q; give it other text, such as a first segment", function.pattern, other.pattern))
			}
			if other.about.Name == function.about.Name {
				panic(fmt.Sprintf("there is a resource named %q already; describe it by another name", function.about.Name))
			}
		}
	}
	// A path without variables is preferred to templates.
	byPreference := slices.Clone(functions)
	slices.SortStableFunc(byPreference, func(one, other *Function) int {
		return min(len(one.pattern.PathVariables()), 1) - min(len(other.pattern.PathVariables()), 1)
	})
	return func(config Config) (Provider, error) {
		return &ofFunctions{config, functions, byPreference}, nil
	}
}

// ofFunctions is a provider of functions.
type ofFunctions struct {
	config       Config
	functions    []*Function
	byPreference []*Function
}

func (provider *ofFunctions) List(request ListRequest) (Page, error) {
	if request.Parent != nil {
		if _, err := provider.Stat(*request.Parent); err != nil {
			return Page{}, err
		}
		return Page{}, InvalidRequest("expected no parent: this resource has no children")
	}
	var listings []listing
	for _, function := range provider.functions {
		if function.isListed() {
			listings = append(listings, func() iter.Seq2[listed, error] { return provider.values(function) })
		}
	}
	return pageOf(listings, request)
}

func (provider *ofFunctions) Read(path string) ([]Contents, error) {
	function, values, err := provider.find(path)
	if err != nil {
		return nil, err
	}
	body, err := function.read(provider.config, values)
	if err != nil {
		return nil, err
	}
	return contentsOf(function.entry(path, values), body)
}

func (provider *ofFunctions) Stat(path string) (Entry, error) {
	function, values, err := provider.find(path)
	if err != nil {
		return Entry{}, err
	}
	body, err := function.read(provider.config, values)
	if err != nil {
		return Entry{}, err
	}
	entry := function.entry(path, values)
	if file, ok := body.(File); ok {
		return file.entry(entry)
	}
	all, err := contentsOf(entry, body)
	if err != nil {
		return Entry{}, err
	}
	for _, contents := range all {
		if contents.Entry.Path == path {
			return contents.Entry, nil
		}
	}
	return Entry{}, fmt.Errorf("the function of %q returned no content with the path %q", function.pattern, path)
}

func (provider *ofFunctions) Templates() ([]Template, error) {
	var templates []Template
	for _, function := range provider.functions {
		if len(function.pattern.Variables()) > 0 {
			about := function.about
			templates = append(templates, Template{
				PathTemplate: function.pattern.text, Name: about.Name, Title: about.Title, Description: about.Description,
				MimeType: about.MimeType, Audience: about.Audience, Priority: about.Priority, Icons: about.Icons, Meta: about.Meta,
			})
		}
	}
	return templates, nil
}

// Complete completes a variable of a template; both were found to exist.
func (provider *ofFunctions) Complete(request CompleteRequest) (Completion, error) {
	index := slices.IndexFunc(provider.functions, func(one *Function) bool { return one.pattern.text == request.Template })
	if index < 0 {
		return Completion{}, nil
	}
	function := provider.functions[index]
	if complete := function.complete[request.Variable]; complete != nil {
		return complete(provider.config, request)
	}
	if choices := function.arguments.choices(request.Variable); choices != nil {
		return Matching(choices, request.Typed), nil
	}
	for _, one := range append([]*Function{function}, provider.functions...) {
		if one.list != nil && slices.Contains(one.pattern.PathVariables(), request.Variable) {
			return provider.completeFrom(one, request)
		}
	}
	return Completion{}, nil
}

// completeFrom completes a variable with its values in a listing, in items with the known values of the other variables.
func (provider *ofFunctions) completeFrom(function *Function, request CompleteRequest) (Completion, error) {
	var values []string
	for one, err := range provider.values(function) {
		if err != nil {
			return Completion{}, err
		}
		isBeside := true
		for name, known := range request.Known {
			value, found := one.values[name]
			isBeside = isBeside && (name == request.Variable || !found || value == known)
		}
		if isBeside {
			values = append(values, one.values[request.Variable])
		}
	}
	return Matching(values, request.Typed), nil
}

func (provider *ofFunctions) Changes(request ChangesRequest) (Changes, error) {
	var states []string
	for _, function := range provider.functions {
		if !function.isListed() {
			continue
		}
		for one, err := range provider.values(function) {
			if err != nil {
				return Changes{}, err
			}
			state, err := one.state()
			if err != nil {
				return Changes{}, err
			}
			states = append(states, digest(one.path, state))
		}
	}
	slices.Sort(states)
	return CompareChanges(request, digest(states...), provider.state)
}

// state returns what differs when the content of a path does.
func (provider *ofFunctions) state(path string) (string, error) {
	function, values, err := provider.find(path)
	if err == nil && function.fingerprint != nil {
		var state string
		state, err = function.fingerprint(provider.config, values)
		if err == nil {
			return state, nil
		}
	} else if err == nil {
		var body any
		if body, err = function.read(provider.config, values); err == nil {
			return fingerprintOf(body)
		}
	}
	switch failure := asFailure(err); failure.kind {
	case notFound:
		return "", nil
	case invalidRequest, denied:
		return failure.message, nil
	default:
		return "", err
	}
}

// find returns the function of a path, with the values of its variables.
func (provider *ofFunctions) find(path string) (*Function, map[string]string, error) {
	for _, function := range provider.byPreference {
		if values, ok := function.pattern.Match(path); ok {
			return function, values, nil
		}
	}
	return nil, nil, ErrNotFound
}

// isListed returns whether the function is listed: it is one resource, or has a listing.
func (function *Function) isListed() bool {
	return function.list != nil || len(function.pattern.PathVariables()) == 0 && !function.arguments.hasRequired()
}

// values iterates over the resources of a function that are listed. What the template cannot have is left out.
func (provider *ofFunctions) values(function *Function) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		if function.list == nil {
			yield(listed{function: function, path: function.pattern.text[:pathLength(function.pattern)]}, nil)
			return
		}
		for value, err := range function.list(provider.config) {
			if err != nil {
				yield(listed{}, err)
				return
			}
			one, err := function.item(value)
			if err != nil {
				yield(listed{}, err)
				return
			}
			if !one.isReached() {
				slog.Warn("no path has this value, which is left out", "template", function.pattern.text, "value", fmt.Sprint(one.item.Value))
				continue
			}
			if !yield(one, nil) {
				return
			}
		}
	}
}

// item returns what a listing gave as a resource that is listed.
func (function *Function) item(value any) (listed, error) {
	item, isItem := value.(Item)
	if file, isFile := value.(File); isFile {
		item = Item{Value: file, File: file}
	} else if !isItem {
		item = Item{Value: value}
	}
	values, err := function.arguments.texts(item.Value)
	if err != nil {
		return listed{}, fmt.Errorf("the listing of %q gave %v: %w", function.pattern, item.Value, err)
	}
	path, err := function.pattern.Expand(values)
	if err != nil {
		path = ""
	}
	return listed{function, path, values, item}, nil
}

// entry returns the entry of a path, by what is declared. What is declared of a template describes the family.
func (function *Function) entry(path string, values map[string]string) Entry {
	about := function.about
	entry := Entry{
		Path: path, Name: about.Name, MimeType: about.MimeType, Audience: about.Audience, Priority: about.Priority,
		Icons: about.Icons, Meta: about.Meta, TTL: about.TTL, Subscribable: !about.NotSubscribable,
	}
	var names []string
	for _, name := range function.pattern.PathVariables() {
		if value := values[name]; value != "" {
			names = append(names, value)
		}
	}
	if len(names) > 0 {
		entry.Name = strings.Join(names, "/")
	}
	if len(function.pattern.PathVariables()) == 0 {
		entry.Title, entry.Description = about.Title, about.Description
	}
	return entry
}

// pathLength returns the length of a template without its query.
func pathLength(pattern *PathTemplate) int {
	path, _, _ := strings.Cut(pattern.text, "{?")
	return len(path)
}

// shapeOf returns the template without the names of its variables, and without its query.
func shapeOf(pattern *PathTemplate) string {
	var shape strings.Builder
	for _, part := range pattern.parts {
		switch {
		case part.name == "":
			shape.WriteString(part.literal)
		case part.isRest:
			shape.WriteString("{+}")
		default:
			shape.WriteString("{}")
		}
	}
	return shape.String()
}

// nameOf makes a name of the literals of a template, or of its first variable.
func nameOf(pattern *PathTemplate) string {
	var words []string
	for _, part := range pattern.parts {
		words = append(words, strings.FieldsFunc(part.literal, func(c rune) bool { return c == '/' })...)
	}
	if len(words) > 0 {
		return strings.Join(words, "-")
	}
	return append(pattern.Variables(), "resource")[0]
}

// checkLiterals fails unless the text between the variables is in the normal form of paths: the host's are, and would not match.
func checkLiterals(pattern *PathTemplate) error {
	if strings.HasPrefix(pattern.text, "/") {
		return fmt.Errorf("the template %q begins with a slash; write %q", pattern.text, strings.TrimLeft(pattern.text, "/"))
	}
	for segment := range strings.SplitSeq(shapeOf(pattern), "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("the template %q has %q, which no path has", pattern.text, segment)
		}
	}
	for _, part := range pattern.parts {
		for literal := range strings.SplitSeq(part.literal, "/") {
			plain, ok := decodePart(literal)
			if !ok || strings.Contains(literal, "#") {
				return fmt.Errorf("the template %q has %q, which no path has", pattern.text, literal)
			}
			if encoded := EncodeSegment(plain); encoded != literal && literal != "." && literal != ".." {
				return fmt.Errorf("the template %q has %q; paths have %q: write that", pattern.text, literal, encoded)
			}
		}
	}
	return nil
}

// listed is a resource that is listed.
type listed struct {
	function *Function
	path     string
	values   map[string]string
	item     Item
}

// isReached returns whether the path leads to the values that it was made of, and to no other folder.
func (one listed) isReached() bool {
	if one.path == "" {
		return len(one.values) == 0
	}
	found, ok := one.function.pattern.Match(one.path)
	if !ok {
		return false
	}
	for name, value := range one.values {
		if found[name] != value {
			return false
		}
	}
	for segment := range strings.SplitSeq(one.path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// entry returns the entry of a resource that is listed; [ErrNotFound] if its file is gone.
func (one listed) entry() (Entry, error) {
	entry := one.function.entry(one.path, one.values)
	given := one.item.Entry
	entry.Name = first(given.Name, entry.Name)
	entry.Title = first(given.Title, entry.Title)
	entry.Description = first(given.Description, entry.Description)
	entry.MimeType = first(given.MimeType, entry.MimeType)
	entry.Size = first(given.Size, entry.Size)
	entry.Priority = first(given.Priority, entry.Priority)
	entry.LastModified = first(given.LastModified, entry.LastModified)
	entry.TTL = first(given.TTL, entry.TTL)
	if given.Audience != nil {
		entry.Audience = given.Audience
	}
	if given.Icons != nil {
		entry.Icons = given.Icons
	}
	if given.Meta != nil {
		entry.Meta = given.Meta
	}
	if one.item.File == "" {
		return entry, nil
	}
	return one.item.File.entry(entry)
}

// state returns what differs when the entry does.
func (one listed) state() (string, error) {
	entry, err := one.entry()
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return stateOfEntry(entry), nil
}

// first returns the first value that is not zero.
func first[T comparable](values ...T) T {
	var none T
	for _, value := range values {
		if value != none {
			return value
		}
	}
	return none
}
