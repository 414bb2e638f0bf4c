package provider

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// PathTemplate is an RFC 6570 template that can be matched and expanded.
//
// {var} matches at least one character, all in one segment; {+var} any number of segments; {?a,b} a query with any of these
// variables, each at most once, in any order, or none. Values are percent-decoded. The other operators of RFC 6570 are errors.
//
//	log := provider.MustParseTemplate("log/{rev}{?path,limit}")
//	values, ok := log.Match("log/feature%2Fx?limit=3") // map[limit:3 rev:feature/x], true
//	path, err := log.Expand(values)                    // log/feature%2Fx?limit=3
type PathTemplate struct {
	text string
	// parts are the literals and variables before the query.
	parts []templatePart
	query []string
}

// templatePart is a literal, or a variable that has a name.
type templatePart struct {
	literal string
	name    string
	isRest  bool
}

// ParseTemplate parses a template.
func ParseTemplate(text string) (*PathTemplate, error) {
	template := &PathTemplate{text: text}
	for rest := text; rest != ""; {
		literal, behind, found := strings.Cut(rest, "{")
		if err := template.addLiteral(literal); err != nil {
			return nil, err
		}
		if !found {
			break
		}
		content, behind, found := strings.Cut(behind, "}")
		if !found {
			return nil, fmt.Errorf("the template %q is malformed at %q", text, "{"+content)
		}
		if err := template.addExpression(content); err != nil {
			return nil, err
		}
		rest = behind
	}
	return template, nil
}

// MustParseTemplate is like [ParseTemplate], and panics if the template is malformed: for templates that are constants.
func MustParseTemplate(text string) *PathTemplate {
	template, err := ParseTemplate(text)
	if err != nil {
		panic(err)
	}
	return template
}

func (template *PathTemplate) addLiteral(text string) error {
	switch {
	case text == "":
		return nil
	case template.query != nil:
		return fmt.Errorf("the template %q has something behind its query", template.text)
	case strings.ContainsAny(text, "{}?"):
		return fmt.Errorf("the template %q is malformed at %q", template.text, text)
	}
	template.parts = append(template.parts, templatePart{literal: text})
	return nil
}

func (template *PathTemplate) addExpression(content string) error {
	if template.query != nil {
		return fmt.Errorf("the template %q has something behind its query", template.text)
	}
	list, isQuery := strings.CutPrefix(content, "?")
	list, isRest := strings.CutPrefix(list, "+")
	names := strings.Split(list, ",")
	for index, name := range names {
		isTwice := slices.Contains(template.Variables(), name) || slices.Contains(names[:index], name)
		if !isVariableName(name) || isTwice || len(names) > 1 && !isQuery || isQuery && isRest {
			return fmt.Errorf(
				"the template %q has {%s}; supported are {var}, {+var} and {?a,b}, each variable once", template.text, content)
		}
	}
	if isQuery {
		template.query = names
	} else {
		template.parts = append(template.parts, templatePart{name: names[0], isRest: isRest})
	}
	return nil
}

// String returns the text of the template.
func (template *PathTemplate) String() string { return template.text }

// Variables returns the names of the variables: first of the path, then of the query.
func (template *PathTemplate) Variables() []string {
	return append(template.PathVariables(), template.query...)
}

// PathVariables returns the names of the variables before the query.
func (template *PathTemplate) PathVariables() []string {
	var names []string
	for _, part := range template.parts {
		if part.name != "" {
			names = append(names, part.name)
		}
	}
	return names
}

// Match matches a path and returns the values of its variables, decoded, and whether it matches.
func (template *PathTemplate) Match(path string) (values map[string]string, ok bool) {
	path, query, _ := strings.Cut(path, "?")
	found := make([]string, len(template.parts))
	if !split(template.parts, path, found, map[[2]int]bool{}) {
		return nil, false
	}
	values = map[string]string{}
	for index, part := range template.parts {
		if part.name == "" {
			continue
		}
		value, isValid := decodePart(found[index])
		// No name of a file has a slash, so an encoded one is no part of a path of several segments.
		if !isValid || part.isRest && strings.Count(value, "/") != strings.Count(found[index], "/") {
			return nil, false
		}
		values[part.name] = value
	}
	if query == "" {
		return values, true
	}
	for _, pair := range strings.Split(query, "&") {
		name, encoded, _ := strings.Cut(pair, "=")
		value, isValid := decodePart(encoded)
		if _, isTwice := values[name]; isTwice || !isValid || !slices.Contains(template.query, name) {
			return nil, false
		}
		values[name] = value
	}
	return values, true
}

// split splits a text into the parts of a template; earlier variables are greedy. failed has the numbers of parts and bytes that are
// known not to match, so that none is tried twice.
func split(parts []templatePart, text string, found []string, failed map[[2]int]bool) bool {
	if len(parts) == 0 {
		return text == ""
	}
	if literal := parts[0].literal; parts[0].name == "" {
		return strings.HasPrefix(text, literal) && split(parts[1:], text[len(literal):], found[1:], failed)
	}
	at := [2]int{len(parts), len(text)}
	if failed[at] {
		return false
	}
	shortest, longest := 0, len(text)
	if !parts[0].isRest {
		shortest = 1
		if slash := strings.IndexByte(text, '/'); slash >= 0 {
			longest = slash
		}
	}
	for end := longest; end >= shortest; end-- {
		if split(parts[1:], text[end:], found[1:], failed) {
			found[0] = text[:end]
			return true
		}
	}
	failed[at] = true
	return false
}

// Expand expands the template to a path in the host's normal form. Values are not percent-encoded. A variable of the path that is
// missing, or of {var} empty, is an error.
func (template *PathTemplate) Expand(values map[string]string) (string, error) {
	var path strings.Builder
	for _, part := range template.parts {
		value, found := values[part.name]
		switch {
		case part.name == "":
			path.WriteString(part.literal)
		case !found || value == "" && !part.isRest:
			return "", fmt.Errorf("the template %q needs a value for %s", template.text, part.name)
		case part.isRest:
			segments := strings.Split(value, "/")
			for index, segment := range segments {
				segments[index] = EncodeSegment(segment)
			}
			path.WriteString(strings.Join(segments, "/"))
		default:
			path.WriteString(EncodeSegment(value))
		}
	}
	separator := "?"
	for _, name := range template.query {
		if value, found := values[name]; found {
			path.WriteString(separator + name + "=" + EncodeQuery(value))
			separator = "&"
		}
	}
	return path.String(), nil
}

func isVariableName(text string) bool {
	return text != "" && strings.Trim(text, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// decodePart decodes a part of a path, unless it is malformed, not UTF-8, or has a NUL.
func decodePart(text string) (string, bool) {
	decoded, err := url.PathUnescape(text)
	return decoded, err == nil && isUTF8(decoded) && !strings.Contains(decoded, "\x00")
}
