package main

import "strings"

// records reads the records of a CSV text (RFC 4180), leniently. Empty lines are skipped.
type records struct{ rest string }

func newRecords(text string) records { return records{strings.TrimPrefix(text, "\ufeff")} }

func (records *records) next() ([]string, bool) {
	for end := records.lineEnd(); end > 0; end = records.lineEnd() {
		records.rest = records.rest[end:]
	}
	if records.rest == "" {
		return nil, false
	}
	record := []string{records.field()}
	for strings.HasPrefix(records.rest, ",") {
		records.rest = records.rest[1:]
		record = append(record, records.field())
	}
	records.rest = records.rest[records.lineEnd():]
	return record, true
}

// lineEnd returns the length of the end of a line that is here, 0 if there is none.
func (records *records) lineEnd() int {
	switch {
	case strings.HasPrefix(records.rest, "\n"):
		return 1
	case strings.HasPrefix(records.rest, "\r\n"):
		return 2
	default:
		return 0
	}
}

// field reads a field up to the comma or the end of the line.
func (records *records) field() string {
	var field strings.Builder
	if strings.HasPrefix(records.rest, `"`) {
		records.rest = records.rest[1:]
		for {
			end := strings.IndexByte(records.rest, '"')
			if end < 0 {
				field.WriteString(records.rest)
				records.rest = ""
				break
			}
			field.WriteString(records.rest[:end])
			records.rest = records.rest[end+1:]
			if !strings.HasPrefix(records.rest, `"`) {
				break
			}
			field.WriteByte('"')
			records.rest = records.rest[1:]
		}
	}
	for records.rest != "" && records.rest[0] != ',' && records.lineEnd() == 0 {
		field.WriteByte(records.rest[0])
		records.rest = records.rest[1:]
	}
	return field.String()
}

func writeRecord(text *strings.Builder, record []string) {
	for index, field := range record {
		if index > 0 {
			text.WriteByte(',')
		}
		if len(record) == 1 && field == "" {
			text.WriteString(`""`)
		} else {
			text.WriteString(quote(field))
		}
	}
	text.WriteByte('\n')
}

// quote returns a field, quoted if it has to be.
func quote(field string) string {
	if !strings.ContainsAny(field, ",\"\r\n") {
		return field
	}
	return `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
}
