//go:build wasip1

package keyvalue

import (
	"errors"
	"fmt"

	"mcp-host.example/provider"
	"mcp-host.example/provider/internal/bindings/imports/wasi_keyvalue_atomics"
	"mcp-host.example/provider/internal/bindings/imports/wasi_keyvalue_batch"
	"mcp-host.example/provider/internal/bindings/imports/wasi_keyvalue_store"
	types "mcp-host.example/provider/internal/wit/types"
)

// host is a bucket of the host.
type host struct {
	bucket *wasi_keyvalue_store.Bucket
}

func open(name string) (store, error) {
	bucket, err := result(wasi_keyvalue_store.Open(name))
	if errors.Is(err, errNotGranted) {
		return nil, fmt.Errorf("the bucket `%s` is not granted: add it to `grants.keyvalue`", name)
	}
	return host{bucket}, err
}

// reset has no effect: the buckets of a component are the host's.
func reset() {}

func (host host) get(key string) ([]byte, bool, error) {
	found, err := result(host.bucket.Get(key))
	if err != nil || found.IsNone() {
		return nil, false, err
	}
	return present(found.Some()), true, nil
}

func (host host) set(key string, value []byte) error {
	_, err := result(host.bucket.Set(key, value))
	return err
}

func (host host) delete(key string) error {
	_, err := result(host.bucket.Delete(key))
	return err
}

func (host host) keys(cursor *string) ([]string, *string, error) {
	from := types.None[string]()
	if cursor != nil {
		from = types.Some(*cursor)
	}
	page, err := result(host.bucket.ListKeys(from))
	if err != nil || page.Cursor.IsNone() {
		return page.Keys, nil, err
	}
	next := page.Cursor.Some()
	return page.Keys, &next, nil
}

func (host host) increment(key string, delta int64) (int64, error) {
	return result(wasi_keyvalue_atomics.Increment(host.bucket, key, delta))
}

func (host host) swap(key string, check func(current []byte) bool, value []byte) (bool, error) {
	handle, err := result(wasi_keyvalue_atomics.CasNew(host.bucket, key))
	if err != nil {
		return false, err
	}
	defer handle.Drop()
	found, err := result(handle.Current())
	if err != nil {
		return false, err
	}
	var current []byte
	if found.IsSome() {
		current = present(found.Some())
	}
	if !check(current) {
		return false, nil
	}
	swapped := wasi_keyvalue_atomics.Swap(handle, value)
	if swapped.IsOk() {
		return true, nil
	}
	refused := swapped.Err()
	if refused.Tag() == wasi_keyvalue_atomics.CasError_CasFailed {
		refused.CasFailed().Drop()
		return false, nil
	}
	return false, failure(refused.StoreError())
}

func (host host) getMany(keys []string) (map[string][]byte, error) {
	found, err := result(wasi_keyvalue_batch.GetMany(host.bucket, keys))
	values := make(map[string][]byte, len(found))
	for _, one := range found {
		if one.IsSome() {
			values[one.Some().F0] = present(one.Some().F1)
		}
	}
	return values, err
}

func (host host) setMany(values map[string][]byte) error {
	pairs := make([]types.Tuple2[string, []uint8], 0, len(values))
	for key, value := range values {
		pairs = append(pairs, types.Tuple2[string, []uint8]{F0: key, F1: value})
	}
	_, err := result(wasi_keyvalue_batch.SetMany(host.bucket, pairs))
	return err
}

func (host host) deleteMany(keys []string) error {
	_, err := result(wasi_keyvalue_batch.DeleteMany(host.bucket, keys))
	return err
}

// present returns a value that is not nil.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

var errNotGranted = errors.New("the bucket is not granted")

func result[T any](of types.Result[T, wasi_keyvalue_store.Error]) (T, error) {
	if of.IsErr() {
		var none T
		return none, failure(of.Err())
	}
	return of.Ok(), nil
}

func failure(of wasi_keyvalue_store.Error) error {
	switch of.Tag() {
	case wasi_keyvalue_store.Error_Other:
		return provider.Unavailable(0, "%s", of.Other())
	case wasi_keyvalue_store.Error_NoSuchStore:
		return errNotGranted
	default:
		return errors.New("access to the bucket is denied")
	}
}
