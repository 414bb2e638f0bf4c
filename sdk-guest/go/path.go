package provider

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

func isUTF8(text string) bool { return utf8.ValidString(text) }

// EncodeSegment percent-encodes a text as one segment of a path.
func EncodeSegment(text string) string {
	if text == "." || text == ".." {
		return encode(text, "-_~")
	}
	return encode(text, "-._~!$&'()*+,;=:@")
}

// EncodeQuery percent-encodes a text as one value of a query, as a client does that expands {?name}.
func EncodeQuery(text string) string { return encode(text, "-._~!$'()*:@") }

// encode percent-encodes all but letters, digits and those characters.
func encode(text, plain string) string {
	var encoded strings.Builder
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte(plain, c) >= 0 {
			encoded.WriteByte(c)
		} else {
			fmt.Fprintf(&encoded, "%%%02X", c)
		}
	}
	return encoded.String()
}

// DecodeSegment decodes one segment of a path. One that is malformed, not UTF-8, or has a slash or a NUL is not found.
func DecodeSegment(segment string) (string, error) {
	decoded, err := url.PathUnescape(segment)
	if err != nil || !isUTF8(decoded) || strings.ContainsAny(segment, "/?") || strings.ContainsAny(decoded, "/\x00") {
		return "", ErrNotFound
	}
	return decoded, nil
}

// Path is a path in parts, decoded.
type Path struct {
	Segments []string
	// Query has the variables of the query, in order.
	Query []Variable
	// HasQuery says whether there is a `?`.
	HasQuery bool
}

// Variable is a variable of a query.
type Variable struct {
	Name  string
	Value string
}

// ParsePath splits and decodes a path. A malformed one is not found.
func ParsePath(path string) (Path, error) {
	path, query, hasQuery := strings.Cut(path, "?")
	parsed := Path{HasQuery: hasQuery}
	for _, segment := range strings.Split(path, "/") {
		decoded, err := DecodeSegment(segment)
		if err != nil {
			return Path{}, err
		}
		parsed.Segments = append(parsed.Segments, decoded)
	}
	if query == "" {
		return parsed, nil
	}
	for _, pair := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		var variable Variable
		var err error
		if variable.Name, err = url.PathUnescape(name); err == nil {
			variable.Value, err = url.PathUnescape(value)
		}
		if err != nil || !isUTF8(variable.Name) || !isUTF8(variable.Value) {
			return Path{}, ErrNotFound
		}
		parsed.Query = append(parsed.Query, variable)
	}
	return parsed, nil
}

// variables returns the names of a template's variables.
func variables(template string) []string {
	var names []string
	for _, rest := range strings.Split(template, "{")[1:] {
		expression, _, _ := strings.Cut(rest, "}")
		for _, name := range strings.Split(strings.TrimLeft(expression, "+#./;?&"), ",") {
			name, _, _ = strings.Cut(name, ":")
			names = append(names, strings.TrimSuffix(name, "*"))
		}
	}
	return names
}
