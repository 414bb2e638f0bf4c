//go:build !wasip1

package keyvalue

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"sync"

	"mcp-host.example/provider"
)

// memory is a bucket of native tests.
type memory struct {
	lock   sync.Mutex
	values map[string][]byte
}

var (
	buckets     = map[string]*memory{}
	bucketsLock sync.Mutex
)

func open(name string) (store, error) {
	bucketsLock.Lock()
	defer bucketsLock.Unlock()
	if buckets[name] == nil {
		buckets[name] = &memory{values: map[string][]byte{}}
	}
	return buckets[name], nil
}

func reset() {
	bucketsLock.Lock()
	defer bucketsLock.Unlock()
	for _, bucket := range buckets {
		bucket.lock.Lock()
		clear(bucket.values)
		bucket.lock.Unlock()
	}
}

func (memory *memory) get(key string) ([]byte, bool, error) {
	memory.lock.Lock()
	defer memory.lock.Unlock()
	value, found := memory.values[key]
	return bytes.Clone(value), found, nil
}

func (memory *memory) set(key string, value []byte) error {
	return memory.setMany(map[string][]byte{key: value})
}

func (memory *memory) delete(key string) error { return memory.deleteMany([]string{key}) }

func (memory *memory) keys(*string) ([]string, *string, error) {
	memory.lock.Lock()
	defer memory.lock.Unlock()
	return slices.Collect(maps.Keys(memory.values)), nil, nil
}

func (memory *memory) increment(key string, delta int64) (int64, error) {
	memory.lock.Lock()
	defer memory.lock.Unlock()
	var number int64
	if value, found := memory.values[key]; found {
		var err error
		if number, err = strconv.ParseInt(string(value), 10, 64); err != nil {
			return 0, provider.Unavailable(0, "the value of `%s` is not a number", key)
		}
	}
	memory.values[key] = strconv.AppendInt(nil, number+delta, 10)
	return number + delta, nil
}

func (memory *memory) swap(key string, check func(current []byte) bool, value []byte) (bool, error) {
	memory.lock.Lock()
	defer memory.lock.Unlock()
	if !check(memory.values[key]) {
		return false, nil
	}
	memory.values[key] = copyOf(value)
	return true, nil
}

func (memory *memory) getMany(keys []string) (map[string][]byte, error) {
	memory.lock.Lock()
	defer memory.lock.Unlock()
	values := map[string][]byte{}
	for _, key := range keys {
		if value, found := memory.values[key]; found {
			values[key] = bytes.Clone(value)
		}
	}
	return values, nil
}

func (memory *memory) setMany(values map[string][]byte) error {
	memory.lock.Lock()
	defer memory.lock.Unlock()
	for key, value := range values {
		memory.values[key] = copyOf(value)
	}
	return nil
}

func (memory *memory) deleteMany(keys []string) error {
	memory.lock.Lock()
	defer memory.lock.Unlock()
	for _, key := range keys {
		delete(memory.values, key)
	}
	return nil
}

// copyOf returns a copy that is not nil.
func copyOf(value []byte) []byte { return append([]byte{}, value...) }
