package provider

import (
	"errors"
	"slices"
	"strings"
)

// Paginate returns the requested page of a listing. The keys, each of at most 4000 bytes, may be in any order; pages are
// sorted by key. A cursor has the last key of the page before: it needs no state, and stays valid while keys are added and removed.
//
// entry makes the entry of a key of this page. One that fails with [ErrNotFound], as it was removed in the meantime, is left out.
func Paginate(keys []string, request ListRequest, entry func(key string) (Entry, error)) (Page, error) {
	rest := slices.Sorted(slices.Values(keys))
	if request.Cursor != nil {
		last, ok := strings.CutPrefix(*request.Cursor, ":")
		if !ok {
			return Page{}, errForeignCursor
		}
		start, found := slices.BinarySearch(rest, last)
		for ; found && start < len(rest) && rest[start] == last; start++ {
		}
		rest = rest[start:]
	}
	var page Page
	if limit := max(request.Limit, 1); len(rest) > limit {
		rest = rest[:limit]
		page.NextCursor = ":" + rest[limit-1]
	}
	for _, key := range rest {
		made, err := entry(key)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return Page{}, err
		}
		page.Entries = append(page.Entries, made)
	}
	return page, nil
}

var errForeignCursor = InvalidRequest("expected a cursor that this provider returned")
