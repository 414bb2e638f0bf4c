package sql

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// Scan converts the values into what the targets point to, one for each column: a bool, a number, a string of any kind of text, bytes, a
// time.Time, a slice for an array, whatever JSON decodes to, and a pointer to any of these, which is nil for NULL. A value that does not
// fit is an error.
func (row Row) Scan(targets ...any) error {
	if len(targets) != len(row) {
		return fmt.Errorf("the row has %d values: expected as many targets, found %d", len(row), len(targets))
	}
	for index, target := range targets {
		pointer := reflect.ValueOf(target)
		if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
			return fmt.Errorf("target %d must be a pointer, found %T", index+1, target)
		}
		if err := assign(pointer.Elem(), row[index]); err != nil {
			return fmt.Errorf("value %d of the row: %w", index+1, err)
		}
	}
	return nil
}

func assign(target reflect.Value, value any) error {
	if value == nil {
		switch target.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
			target.SetZero()
			return nil
		}
		return fmt.Errorf("it is NULL: scan into a pointer to a %s", target.Type())
	}
	from := reflect.ValueOf(value)
	if from.Type().AssignableTo(target.Type()) {
		target.Set(from)
		return nil
	}
	if target.Kind() == reflect.Pointer {
		made := reflect.New(target.Type().Elem())
		if err := assign(made.Elem(), value); err != nil {
			return err
		}
		target.Set(made)
		return nil
	}
	if text, isJSON := value.(json.RawMessage); isJSON && target.Kind() != reflect.String {
		return json.Unmarshal(text, target.Addr().Interface())
	}
	if !convert(target, from) {
		return fmt.Errorf("expected %s, found the %T %v", target.Type(), value, value)
	}
	return nil
}

// convert sets the target, if the value fits.
func convert(target, from reflect.Value) bool {
	switch target.Kind() {
	case reflect.Bool:
		if from.Kind() == reflect.Bool {
			target.SetBool(from.Bool())
			return true
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if from.CanInt() && !target.OverflowInt(from.Int()) {
			target.SetInt(from.Int())
			return true
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if from.CanInt() && from.Int() >= 0 && !target.OverflowUint(uint64(from.Int())) {
			target.SetUint(uint64(from.Int()))
			return true
		}
	case reflect.Float32, reflect.Float64:
		number, isNumber := floatOf(from)
		if isNumber {
			target.SetFloat(number)
		}
		return isNumber
	case reflect.String:
		switch text := from.Interface().(type) {
		case json.RawMessage:
			target.SetString(string(text))
			return true
		}
		if from.Kind() == reflect.String {
			target.SetString(from.String())
			return true
		}
	case reflect.Slice:
		elements, isArray := from.Interface().([]any)
		if !isArray {
			return false
		}
		made := reflect.MakeSlice(target.Type(), len(elements), len(elements))
		for index, element := range elements {
			if assign(made.Index(index), element) != nil {
				return false
			}
		}
		target.Set(made)
		return true
	case reflect.Struct:
		point, isTime := timeOf(from)
		if isTime && target.Type() == reflect.TypeFor[time.Time]() {
			target.Set(reflect.ValueOf(point))
			return true
		}
	}
	return false
}

func floatOf(from reflect.Value) (float64, bool) {
	switch {
	case from.CanInt():
		return float64(from.Int()), true
	case from.CanFloat():
		return from.Float(), true
	}
	text, isDecimal := from.Interface().(Decimal)
	number, err := strconv.ParseFloat(string(text), 64)
	return number, isDecimal && err == nil
}

// timeOf returns a date, with or without a time of day, in UTC.
func timeOf(from reflect.Value) (time.Time, bool) {
	layout := ""
	switch from.Interface().(type) {
	case Date:
		layout = time.DateOnly
	case Timestamp:
		layout = "2006-01-02T15:04:05"
	default:
		return time.Time{}, false
	}
	point, err := time.Parse(layout, from.String())
	return point, err == nil
}
