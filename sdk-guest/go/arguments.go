package provider

import (
	"encoding"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// arguments are the parameters of a function: which variable each is, and how it is converted.
type arguments struct {
	pattern *PathTemplate
	fields  []argument
	// isStruct says whether the parameter is a struct with a field for each variable, not the only variable itself.
	isStruct bool
}

// argument is a variable of a template.
type argument struct {
	variable  string
	index     int
	kind      reflect.Type
	isPointer bool
	otherwise string
	// isRequired says whether it is a variable of the query that has no default.
	isRequired bool
	oneOf      []string
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	fileNameType = reflect.TypeFor[FileName]()
)

// argumentsOf returns the arguments of a function with that parameter. One that does not fit the template is a panic.
func argumentsOf[A any](pattern *PathTemplate) *arguments {
	kind := reflect.TypeFor[A]()
	all := &arguments{pattern: pattern, isStruct: kind.Kind() == reflect.Struct && kind != timeType}
	variables := pattern.Variables()
	if !all.isStruct {
		if len(variables) != 1 {
			panic(fmt.Sprintf("the template %q has %d variables; a function of it has a struct with a field for each", pattern, len(variables)))
		}
		all.add(reflect.StructField{Name: variables[0], Type: kind}, variables[0])
		return all
	}
	for _, field := range reflect.VisibleFields(kind) {
		name, found := field.Tag.Lookup("var")
		if !found {
			name = strings.ToLower(field.Name)
		}
		if !field.IsExported() || !slices.Contains(variables, name) {
			panic(fmt.Sprintf("the template %q has no variable %q for the field %s; its variables: %s",
				pattern, name, field.Name, strings.Join(variables, ", ")))
		}
		all.add(field, name)
	}
	for _, name := range variables {
		if all.find(name) == nil {
			panic(fmt.Sprintf("the template %q has the variable %q; write a field for it: `%s string`",
				pattern, name, strings.ToUpper(name[:1])+name[1:]))
		}
	}
	return all
}

// add adds a field.
func (all *arguments) add(field reflect.StructField, name string) {
	one := argument{variable: name, kind: field.Type}
	if len(field.Index) > 0 {
		one.index = field.Index[0]
	}
	if one.isPointer = one.kind.Kind() == reflect.Pointer; one.isPointer {
		one.kind = one.kind.Elem()
	}
	var hasDefault bool
	one.otherwise, hasDefault = field.Tag.Lookup("default")
	if values := field.Tag.Get("oneof"); values != "" {
		one.oneOf = strings.Split(values, ",")
	} else if one.kind.Kind() == reflect.Bool {
		one.oneOf = []string{"true", "false"}
	}
	one.isRequired = slices.Contains(all.pattern.query, name) && !hasDefault && !one.isPointer
	if hasDefault {
		if _, err := one.convert(one.otherwise); err != nil {
			panic(fmt.Sprintf("the template %q: the default of %s: %v", all.pattern, name, err))
		}
	} else if _, err := one.convert(""); err == errUnsupported {
		panic(fmt.Sprintf("the template %q: the variable %s has the type %v; supported are texts, integers, floats, bool, FileName, time.Time",
			all.pattern, name, one.kind))
	}
	all.fields = append(all.fields, one)
}

func (all *arguments) find(variable string) *argument {
	for index := range all.fields {
		if all.fields[index].variable == variable {
			return &all.fields[index]
		}
	}
	return nil
}

// hasRequired returns whether the function cannot be called without variables of the query.
func (all *arguments) hasRequired() bool {
	return slices.ContainsFunc(all.fields, func(one argument) bool { return one.isRequired })
}

// choices returns the values that a variable may have, if its type has few.
func (all *arguments) choices(variable string) []string {
	if one := all.find(variable); one != nil {
		return one.oneOf
	}
	return nil
}

// convert converts the values of a path. A missing or empty one of the query is the default.
func convert[A any](all *arguments, values map[string]string) (of A, err error) {
	target := reflect.ValueOf(&of).Elem()
	for _, one := range all.fields {
		text := values[one.variable]
		if text == "" && slices.Contains(all.pattern.query, one.variable) {
			if one.isRequired {
				return of, InvalidRequest("expected a value of `%s`: `?%s=…`", one.variable, one.variable)
			}
			if text = one.otherwise; text == "" {
				continue
			}
		}
		value, err := one.convert(text)
		if err != nil {
			return of, err
		}
		field := target
		if all.isStruct {
			field = target.Field(one.index)
		}
		if one.isPointer {
			field.Set(reflect.New(one.kind))
			field = field.Elem()
		}
		field.Set(value)
	}
	return of, nil
}

var errUnsupported = fmt.Errorf("unsupported")

// convert converts a text to the type of the field. A number has one spelling only, so that one resource has one path.
func (one *argument) convert(text string) (reflect.Value, error) {
	value := reflect.New(one.kind).Elem()
	expected := ""
	switch kind := value.Kind(); {
	case len(one.oneOf) > 0 && !slices.Contains(one.oneOf, text):
		expected = strings.Join(one.oneOf, " or ")
	case one.kind == timeType:
		found, err := time.Parse(time.DateOnly, text)
		if err != nil {
			found, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			expected = "a day or a time, such as 2026-11-28 or 2026-11-28T09:00:00Z"
		}
		value.Set(reflect.ValueOf(found))
	case one.kind == fileNameType && !isFileName(text):
		return value, ErrNotFound
	case kind == reflect.String:
		value.SetString(text)
	case kind == reflect.Bool:
		value.SetBool(text == "true")
	case value.CanInt():
		number, err := strconv.ParseInt(text, 10, one.kind.Bits())
		if err != nil || strconv.FormatInt(number, 10) != text {
			expected = "an integer, such as 7"
		}
		value.SetInt(number)
	case value.CanUint():
		number, err := strconv.ParseUint(text, 10, one.kind.Bits())
		if err != nil || strconv.FormatUint(number, 10) != text {
			expected = "an integer from 0, such as 7"
		}
		value.SetUint(number)
	case value.CanFloat():
		number, err := strconv.ParseFloat(text, one.kind.Bits())
		if err != nil || strings.Trim(text, "-.0123456789") != "" {
			expected = "a number, such as 0.5"
		}
		value.SetFloat(number)
	default:
		return value, errUnsupported
	}
	if expected != "" {
		if len(text) > 100 {
			text = strings.ToValidUTF8(text[:100], "") + "…"
		}
		return value, InvalidRequest("`%s` must be %s, found \"%s\"", one.variable, expected, text)
	}
	return value, nil
}

// texts returns the variables of the path for a value that a listing gave, as clients write them.
func (all *arguments) texts(given any) (map[string]string, error) {
	names := all.pattern.PathVariables()
	value := reflect.ValueOf(given)
	texts := map[string]string{}
	if value.Kind() == reflect.Struct && value.Type() != timeType {
		for _, field := range reflect.VisibleFields(value.Type()) {
			name, found := field.Tag.Lookup("var")
			if !found {
				name = strings.ToLower(field.Name)
			}
			if field.IsExported() && slices.Contains(names, name) {
				texts[name] = textOf(value.FieldByIndex(field.Index))
			}
		}
	} else if len(names) == 1 && value.IsValid() {
		texts[names[0]] = textOf(value)
	}
	if len(texts) != len(names) {
		return nil, fmt.Errorf("expected values of %s, of several a struct with these fields", strings.Join(names, ", "))
	}
	return texts, nil
}

// textOf returns a value as a client writes it.
func textOf(value reflect.Value) string {
	switch given := value.Interface().(type) {
	case File:
		return filepath.Base(string(given))
	case time.Time:
		if given.Equal(given.Truncate(24 * time.Hour)) {
			return given.UTC().Format(time.DateOnly)
		}
		return given.Format(time.RFC3339)
	case encoding.TextMarshaler:
		if text, err := given.MarshalText(); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(value.Interface())
}
