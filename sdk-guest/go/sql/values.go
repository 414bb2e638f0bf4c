package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// Types of values that Go has none for. They are texts.
type (
	// Decimal is an exact decimal number: -12.50. Also NaN, Infinity and -Infinity.
	Decimal string
	// Date is such as 2026-11-22.
	Date string
	// TimeOfDay is such as 12:34:56.789, with an offset if the column has one.
	TimeOfDay string
	// Timestamp is a date with a time of day, in no particular time zone: 2026-11-22T12:34:56.789.
	Timestamp string
	// UUID is in lower case.
	UUID string
)

// parameterOf returns a parameter as one of the types of a Row.
func parameterOf(value any) (any, error) {
	switch value := value.(type) {
	case nil, bool, int64, float64, string, []byte, time.Time, Decimal, Date, TimeOfDay, Timestamp, UUID, json.RawMessage:
		return value, nil
	}
	of := reflect.ValueOf(value)
	switch of.Kind() {
	case reflect.Pointer:
		if of.IsNil() {
			return nil, nil
		}
		return parameterOf(of.Elem().Interface())
	case reflect.Bool:
		return of.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return of.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if of.Uint() > math.MaxInt64 {
			return Decimal(strconv.FormatUint(of.Uint(), 10)), nil
		}
		return int64(of.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return of.Float(), nil
	case reflect.String:
		return of.String(), nil
	case reflect.Slice, reflect.Array:
		return listOf(of)
	case reflect.Map, reflect.Struct:
		text, err := json.Marshal(value)
		return json.RawMessage(text), err
	}
	return nil, fmt.Errorf("%T is no type of a parameter", value)
}

// listOf returns bytes, or an array.
func listOf(of reflect.Value) (any, error) {
	if of.Type().Elem().Kind() == reflect.Uint8 {
		bytes := make([]byte, of.Len())
		reflect.Copy(reflect.ValueOf(bytes), of)
		return bytes, nil
	}
	list := make([]any, of.Len())
	for index := range list {
		value, err := parameterOf(of.Index(index).Interface())
		if err != nil {
			return nil, err
		}
		list[index] = value
	}
	_, _, err := flat(list)
	return list, err
}

// flat returns the lengths of the dimensions of nested lists, and their elements in row-major order.
func flat(list []any) (dimensions []uint32, elements []any, err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	var inner []uint32
	_, isNested := list[0].([]any)
	for index, one := range list {
		nested, isList := one.([]any)
		if isList != isNested {
			return nil, nil, errRagged
		}
		if !isList {
			elements = append(elements, one)
			continue
		}
		of, values, err := flat(nested)
		if err != nil {
			return nil, nil, err
		}
		if len(of) == 0 || index > 0 && !reflect.DeepEqual(of, inner) {
			return nil, nil, errRagged
		}
		inner = of
		elements = append(elements, values...)
	}
	return append([]uint32{uint32(len(list))}, inner...), elements, nil
}

var errRagged = errors.New("an array has lists of one length in each dimension")

// nested returns elements in row-major order as lists of lists.
func nested(dimensions []uint32, elements []any) []any {
	for index := len(dimensions) - 1; index >= 1; index-- {
		length := max(int(dimensions[index]), 1)
		lists := make([]any, 0, len(elements)/length)
		for len(elements) > 0 {
			count := min(length, len(elements))
			lists = append(lists, elements[:count:count])
			elements = elements[count:]
		}
		elements = lists
	}
	if elements == nil {
		return []any{}
	}
	return elements
}
