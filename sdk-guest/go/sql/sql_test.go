package sql

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestADatabaseOfANativeTestIsAFunction(t *testing.T) {
	if _, err := (Database{Name: "none"}).Query("SELECT 1"); err == nil || !strings.Contains(err.Error(), "grants.sql") {
		t.Error(err)
	}
	Fake("shop", Info{Kind: SQLite}, func(statement string, parameters []any) (*Rows, error) {
		if statement == "SELECT" {
			return nil, &Rejected{SQLState: "42601", Message: "syntax error", Position: 7}
		}
		if !reflect.DeepEqual(parameters, []any{int64(3)}) {
			t.Error(parameters)
		}
		return &Rows{Columns: []Column{{"name", "text"}, {"name", "text"}}, Rows: []Row{{"x", "pear"}, {"y", "fig"}}}, nil
	})
	shop := Database{Name: "shop", MaxRows: 1}
	if info, err := shop.Describe(); info.Kind != SQLite || err != nil {
		t.Error(info, err)
	}
	if names := Granted(); !reflect.DeepEqual(names, []string{"shop"}) {
		t.Error(names)
	}
	rows, err := shop.Query("SELECT name, name FROM items WHERE price < $1", 3)
	if err != nil || len(rows.Rows) != 1 || !rows.HasMore || !reflect.DeepEqual(rows.Maps(), []map[string]any{{"name": "pear"}}) {
		t.Error(rows, err)
	}
	rows, err = Database{Name: "shop"}.Query("SELECT …", int8(3))
	if err != nil || len(rows.Rows) != 2 || rows.HasMore {
		t.Error(rows, err)
	}
	var rejected *Rejected
	if _, err := shop.Query("SELECT"); !errors.As(err, &rejected) || rejected.SQLState != "42601" || rejected.Position != 7 {
		t.Error(err)
	}
	if _, err := shop.Query("SELECT $1", func() {}); err == nil || !strings.Contains(err.Error(), "parameter $1: func() is no type") {
		t.Error(err)
	}
}

func TestParametersAreOfTheTypesOfARow(t *testing.T) {
	type name string
	text, point := "text", time.Unix(0, 0)
	var none *string
	for _, one := range []struct{ given, expected any }{
		{nil, nil},
		{none, nil},
		{&text, "text"},
		{name("n"), "n"},
		{uint8(1), int64(1)},
		{uint64(math.MaxUint64), Decimal("18446744073709551615")},
		{float32(0.5), 0.5},
		{[]byte{1}, []byte{1}},
		{[2]byte{1, 2}, []byte{1, 2}},
		{point, point},
		{Date("2026-11-22"), Date("2026-11-22")},
		{map[string]int{"a": 1}, json.RawMessage(`{"a":1}`)},
		{[]string{"a", "b"}, []any{"a", "b"}},
		{[][]int{{1, 2}, {3, 4}}, []any{[]any{int64(1), int64(2)}, []any{int64(3), int64(4)}}},
	} {
		if found, err := parameterOf(one.given); err != nil || !reflect.DeepEqual(found, one.expected) {
			t.Errorf("%T: %#v, %v", one.given, found, err)
		}
	}
	for _, ragged := range []any{[][]int{{1, 2}, {3}}, [][]int{{1}, {}}, []any{1, []int{2}}, []any{[]int{2}, 1}} {
		if found, err := parameterOf(ragged); err == nil {
			t.Errorf("%v: %v", ragged, found)
		}
	}
}

func TestArraysAreNestedByTheirDimensions(t *testing.T) {
	elements := []any{1, 2, 3, 4, 5, 6}
	for _, one := range []struct {
		dimensions []uint32
		expected   []any
	}{
		{nil, []any{}},
		{[]uint32{6}, elements},
		{[]uint32{3, 2}, []any{[]any{1, 2}, []any{3, 4}, []any{5, 6}}},
		{[]uint32{1, 2, 3}, []any{[]any{[]any{1, 2, 3}, []any{4, 5, 6}}}},
	} {
		given := elements
		if one.dimensions == nil {
			given = nil
		}
		list := nested(one.dimensions, given)
		if !reflect.DeepEqual(list, one.expected) {
			t.Error(one.dimensions, list)
		}
		if dimensions, flattened, err := flat(list); err != nil || !reflect.DeepEqual(dimensions, one.dimensions) || len(flattened) != len(given) {
			t.Error(dimensions, flattened, err)
		}
	}
}

func TestValuesAreScanned(t *testing.T) {
	var (
		flag    bool
		number  uint8
		price   float64
		name    string
		id      UUID
		photo   []byte
		maybe   *string
		none    *int
		day     time.Time
		tags    []string
		options struct{ Size int }
		value   any
	)
	row := Row{true, int64(200), Decimal("-1.50"), Date("2026-11-22"), "id", []byte{255}, "there", nil,
		Timestamp("2026-11-22T12:34:56.789"), []any{"a", "b"}, json.RawMessage(`{"Size": 3}`), int64(7)}
	err := row.Scan(&flag, &number, &price, &name, &id, &photo, &maybe, &none, &day, &tags, &options, &value)
	if err != nil {
		t.Fatal(err)
	}
	found := []any{flag, number, price, name, id, photo[0], *maybe, none == nil, day.Format(time.RFC3339Nano), tags[1], options.Size, value}
	expected := []any{true, uint8(200), -1.5, "2026-11-22", UUID("id"), byte(255), "there", true, "2026-11-22T12:34:56.789Z", "b", 3, int64(7)}
	if !reflect.DeepEqual(found, expected) {
		t.Error(found)
	}
	var small int8
	for _, one := range []struct {
		row     Row
		target  any
		message string
	}{
		{Row{nil}, &name, "value 1 of the row: it is NULL: scan into a pointer to a string"},
		{Row{int64(200)}, &small, "expected int8, found the int64 200"},
		{Row{int64(-1)}, &number, "expected uint8, found the int64 -1"},
		{Row{"1"}, &price, "expected float64, found the string 1"},
		{Row{[]any{"a", int64(1)}}, &tags, "expected []string"},
		{Row{json.RawMessage("[")}, &options, "unexpected end of JSON"},
		{Row{Date("2026-13-01")}, &day, "expected time.Time"},
		{Row{"a"}, name, "target 1 must be a pointer, found string"},
		{Row{"a", "b"}, &name, "the row has 2 values: expected as many targets, found 1"},
	} {
		if err := one.row.Scan(one.target); err == nil || !strings.Contains(err.Error(), one.message) {
			t.Errorf("%v: %v", one.row, err)
		}
	}
}
