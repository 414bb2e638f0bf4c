package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
)

// contentsOf converts what a function returned.
func contentsOf(entry Entry, body any) ([]Contents, error) {
	switch body := body.(type) {
	case nil:
		return nil, ErrNotFound
	case Contents:
		return []Contents{body}, nil
	case []Contents:
		return body, nil
	case string:
		entry.MimeType = first(entry.MimeType, "text/plain")
		return []Contents{Text(entry, body)}, nil
	case []byte:
		entry.MimeType = first(entry.MimeType, "application/octet-stream")
		return []Contents{Blob(entry, body)}, nil
	case File:
		described, err := body.entry(entry)
		if err != nil {
			return nil, err
		}
		bytes, err := os.ReadFile(string(body))
		if err != nil {
			return nil, err
		}
		return []Contents{Bytes(described, bytes)}, nil
	}
	value := reflect.ValueOf(body)
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return nil, ErrNotFound
		}
	case reflect.Slice:
		if value.IsNil() {
			body = []any{}
		}
	}
	text, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("what was returned is no JSON: %w", err)
	}
	entry.MimeType = first(entry.MimeType, "application/json")
	return []Contents{Text(entry, string(text))}, nil
}

// fingerprintOf returns what differs when a content does: of a file its size and time, of anything else a digest.
func fingerprintOf(body any) (string, error) {
	if file, ok := body.(File); ok {
		return FileState(file)
	}
	all, err := contentsOf(Entry{}, body)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var texts []string
	for _, contents := range all {
		texts = append(texts, stateOfEntry(contents.Entry), contents.Text, string(contents.Blob))
	}
	return digest(texts...), nil
}

// stateOfEntry returns all of an entry as a text.
func stateOfEntry(entry Entry) string {
	text, err := json.Marshal(entry)
	if err != nil {
		return fmt.Sprint(entry.Path, err)
	}
	return string(text)
}
