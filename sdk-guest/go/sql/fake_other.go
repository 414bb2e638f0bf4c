//go:build !wasip1

package sql

import (
	"maps"
	"slices"
	"sync"
)

// native is a database of native tests.
type native struct {
	info   Info
	answer func(statement string, parameters []any) (*Rows, error)
}

var (
	natives     = map[string]native{}
	nativesLock sync.Mutex
)

func fake(name string, info Info, answer func(string, []any) (*Rows, error)) {
	nativesLock.Lock()
	defer nativesLock.Unlock()
	natives[name] = native{info, answer}
}

func find(name string) (native, error) {
	nativesLock.Lock()
	defer nativesLock.Unlock()
	if found, isFaked := natives[name]; isFaked {
		return found, nil
	}
	return native{}, notGranted(name)
}

func granted() []string {
	nativesLock.Lock()
	defer nativesLock.Unlock()
	return slices.Sorted(maps.Keys(natives))
}

func describe(name string) (Info, error) {
	found, err := find(name)
	return found.info, err
}

func query(database Database, statement string, parameters []any) (*Rows, error) {
	found, err := find(database.Name)
	if err != nil {
		return nil, err
	}
	rows, err := found.answer(statement, parameters)
	if err != nil || rows == nil || database.MaxRows == 0 || len(rows.Rows) <= int(database.MaxRows) {
		return rows, err
	}
	return &Rows{Columns: rows.Columns, Rows: rows.Rows[:database.MaxRows], HasMore: true}, nil
}
