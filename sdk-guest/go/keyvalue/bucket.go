// Package keyvalue is for persistent state: buckets of the host, which the administrator grants by name
// (grants.keyvalue = ["visits"]).
//
//	visits, err := keyvalue.Open("visits")
//	if err != nil {
//		return nil, err
//	}
//	count, err := visits.Increment(path, 1)
//
// A bucket is private to the plugin; all its calls share it, concurrent ones, too. Writes are durable. [Bucket.Increment] and
// [Bucket.CompareAndSwap] are atomic; a read that is followed by a write is not. A key is text of 1 to 1024 bytes. A bucket that
// is not granted is an internal failure; a store that fails or is full fails with the error of provider.Unavailable.
//
// In a native test a bucket is a map in memory, empty at first, and the same for all who open it by that name: [Reset] empties it
// for the next test.
//
// A component imports wasi:keyvalue if it uses this package.
package keyvalue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
)

// Bucket is a set of keys with values.
type Bucket struct {
	store store
}

// store is the host, or in native tests a map.
type store interface {
	get(key string) ([]byte, bool, error)
	set(key string, value []byte) error
	delete(key string) error
	// keys returns a page, and the cursor of the next one.
	keys(cursor *string) ([]string, *string, error)
	increment(key string, delta int64) (int64, error)
	// swap sets the value of a key if check returns true of the present one, which is nil if there is no such key, and if it is
	// not written meanwhile.
	swap(key string, check func(current []byte) bool, value []byte) (bool, error)
	getMany(keys []string) (map[string][]byte, error)
	setMany(values map[string][]byte) error
	deleteMany(keys []string) error
}

// Open opens a bucket.
func Open(name string) (*Bucket, error) {
	store, err := open(name)
	if err != nil {
		return nil, err
	}
	return &Bucket{store}, nil
}

// Reset empties all buckets of native tests, also those that are open, so that a test begins without the values of others. In a
// component it has no effect.
//
//	t.Cleanup(keyvalue.Reset)
func Reset() { reset() }

// Get returns the value of a key, and whether there is one.
func (bucket *Bucket) Get(key string) (value []byte, found bool, err error) {
	return bucket.store.get(key)
}

// Set sets the value of a key.
func (bucket *Bucket) Set(key string, value []byte) error { return bucket.store.set(key, value) }

// GetJSON decodes the value of a key, which is JSON, into what target points to, and returns whether there is one. A value that is no
// JSON of that type is an error.
func (bucket *Bucket) GetJSON(key string, target any) (found bool, err error) {
	value, found, err := bucket.Get(key)
	if err != nil || !found {
		return false, err
	}
	if err := json.Unmarshal(value, target); err != nil {
		return false, fmt.Errorf("the value of the key `%s` cannot be read: %w", key, err)
	}
	return true, nil
}

// SetJSON sets the value of a key, as JSON.
func (bucket *Bucket) SetJSON(key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("the value for the key `%s` is no JSON: %w", key, err)
	}
	return bucket.Set(key, text)
}

// Delete deletes a key, if it exists.
func (bucket *Bucket) Delete(key string) error { return bucket.store.delete(key) }

// Keys iterates over the keys, in no particular order. An error is the last that it yields.
func (bucket *Bucket) Keys() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var cursor *string
		for {
			keys, next, err := bucket.store.keys(cursor)
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			cursor = next
		}
	}
}

// Increment adds to the number that is the value of a key, atomically, and returns the sum. A missing key counts as 0.
func (bucket *Bucket) Increment(key string, delta int64) (int64, error) {
	return bucket.store.increment(key, delta)
}

// CompareAndSwap sets the value of a key if it is expected (nil: if there is no such key), atomically, and returns whether it did.
// That may also be false after a concurrent write: get the value again and retry.
func (bucket *Bucket) CompareAndSwap(key string, expected, value []byte) (bool, error) {
	return bucket.store.swap(key, func(current []byte) bool {
		return (current == nil) == (expected == nil) && bytes.Equal(current, expected)
	}, value)
}

// GetMany returns the values of at most 1000 keys, of those that exist.
func (bucket *Bucket) GetMany(keys ...string) (map[string][]byte, error) {
	return bucket.store.getMany(keys)
}

// SetMany sets at most 1000 values: all of them, or none on failure.
func (bucket *Bucket) SetMany(values map[string][]byte) error { return bucket.store.setMany(values) }

// DeleteMany deletes at most 1000 keys, those that exist: all of them, or none on failure.
func (bucket *Bucket) DeleteMany(keys ...string) error { return bucket.store.deleteMany(keys) }
