package main

import (
	"math"
	"strconv"
	"strings"

	"mcp-host.example/provider"
)

// resource is a parsed path: a file, or rows of it.
type resource struct {
	file     string
	isRows   bool
	from, to int
	columns  string
}

func (files *files) parse(path string) (resource, error) {
	parsed, err := provider.ParsePath(path)
	if err != nil || !files.folder.has(parsed.Segments[0]) {
		return resource{}, provider.ErrNotFound
	}
	found := resource{file: parsed.Segments[0], from: 1, to: math.MaxInt}
	if len(parsed.Segments) == 1 && !parsed.HasQuery {
		return found, nil
	}
	if len(parsed.Segments) != 2 || parsed.Segments[1] != "rows" {
		return resource{}, provider.ErrNotFound
	}
	found.isRows = true
	values := map[string]string{}
	for _, variable := range parsed.Query {
		_, isRepeated := values[variable.Name]
		if isRepeated || !strings.Contains("|from|to|columns|", "|"+variable.Name+"|") {
			return resource{}, provider.ErrNotFound
		}
		values[variable.Name] = variable.Value
	}
	if err := rowNumber("from", values["from"], &found.from); err != nil {
		return resource{}, err
	}
	if err := rowNumber("to", values["to"], &found.to); err != nil {
		return resource{}, err
	}
	if found.from > found.to {
		return resource{}, provider.InvalidRequest(
			"`from` must not be greater than `to`, found %d and %d", found.from, found.to)
	}
	found.columns = values["columns"]
	return found, nil
}

func rowNumber(name, text string, number *int) error {
	if text == "" {
		return nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || len(text) > 9 || text[0] < '1' || text[0] > '9' {
		return provider.InvalidRequest("`%s` must be a row number from 1 on, found \"%s\"", name, text)
	}
	*number = value
	return nil
}

// rows returns rows of a file as CSV.
func (files *files) rows(wanted resource) (string, error) {
	text, err := files.folder.text(wanted.file)
	if err != nil {
		return "", err
	}
	records := newRecords(text)
	header, ok := records.next()
	if !ok {
		return "", nil
	}
	positions, err := findColumns(wanted, header)
	if err != nil {
		return "", err
	}
	var result strings.Builder
	write := func(record []string) {
		fields := make([]string, len(positions))
		for index, position := range positions {
			if position < len(record) {
				fields[index] = record[position]
			}
		}
		writeRecord(&result, fields)
	}
	write(header)
	left := files.maxRows
	for number := 1; number <= wanted.to && left > 0; number++ {
		record, ok := records.next()
		if !ok {
			break
		}
		if number >= wanted.from {
			write(record)
			left--
		}
	}
	return result.String(), nil
}

// findColumns returns the positions of the wanted columns in the header.
func findColumns(wanted resource, header []string) ([]int, error) {
	selection := newRecords(wanted.columns)
	columns, isSelected := selection.next()
	if !isSelected {
		positions := make([]int, len(header))
		for index := range positions {
			positions[index] = index
		}
		return positions, nil
	}
	var positions []int
	for _, column := range columns {
		position := -1
		for index := len(header) - 1; index >= 0; index-- {
			if header[index] == column {
				position = index
			}
		}
		if position < 0 {
			return nil, provider.InvalidRequest(
				"no column \"%s\" in %s; its columns are %s", column, wanted.file, strings.Join(header, ", "))
		}
		positions = append(positions, position)
	}
	return positions, nil
}
