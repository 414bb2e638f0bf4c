package provider

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Pages of iterators, whose cursors are data: another instance continues where the last page ended.
//
// A cursor has the number of the iterator, the position in it, and digests of the last paths before that position. The next page
// starts behind the last of these that the iterator still gives, wherever it is now. So the order may be any, as long as it is the
// same while the data are; entries that are added or removed meanwhile neither repeat nor hide others, unless all of the anchors are
// gone: then some entries may come twice.

const (
	anchorCount  = 16
	anchorLength = 12
)

// listing is what is iterated over.
type listing func() iter.Seq2[listed, error]

// position is where a page begins.
type position struct {
	listing, index int
	anchors        []string
}

// pageOf returns the requested page of all iterators, one after the other.
func pageOf(listings []listing, request ListRequest) (Page, error) {
	at, err := parsePosition(request.Cursor, len(listings))
	if err != nil {
		return Page{}, err
	}
	var page Page
	for ; at.listing < len(listings); at = (position{listing: at.listing + 1}) {
		if at, err = resume(listings[at.listing], at); err != nil {
			return Page{}, err
		}
		index := 0
		for one, err := range listings[at.listing]() {
			if err != nil {
				return Page{}, err
			}
			if index++; index <= at.index {
				continue
			}
			if len(page.Entries) >= max(request.Limit, 1) {
				page.NextCursor = at.String()
				return page, nil
			}
			at.index, at.anchors = index, append(at.anchors, anchor(one.path))
			at.anchors = at.anchors[max(len(at.anchors)-anchorCount, 0):]
			entry, err := one.entry()
			if errors.Is(err, ErrNotFound) {
				continue // Deleted in the meantime.
			}
			if err != nil {
				return Page{}, err
			}
			page.Entries = append(page.Entries, entry)
		}
	}
	return page, nil
}

// resume returns where the iterator has to be continued now.
func resume(listing listing, at position) (position, error) {
	if len(at.anchors) == 0 {
		return position{listing: at.listing}, nil
	}
	last := at.anchors[len(at.anchors)-1]
	seen, index := map[string]int{}, 0
	for one, err := range listing() {
		if err != nil {
			return position{}, err
		}
		index++
		if mark := anchor(one.path); slices.Contains(at.anchors, mark) {
			if seen[mark] = index; mark == last {
				break
			}
		}
	}
	for count := len(at.anchors); count > 0; count-- {
		if index, found := seen[at.anchors[count-1]]; found {
			return position{at.listing, index, slices.Clone(at.anchors[:count])}, nil
		}
	}
	return position{listing: at.listing, index: max(at.index-len(at.anchors), 0)}, nil
}

func anchor(path string) string { return digest(path)[:anchorLength] }

func (at position) String() string {
	return fmt.Sprintf("%d:%d:%s", at.listing, at.index, strings.Join(at.anchors, ""))
}

func parsePosition(cursor *string, listings int) (position, error) {
	if cursor == nil {
		return position{}, nil
	}
	parts := strings.Split(*cursor, ":")
	if len(parts) != 3 || len(parts[2])%anchorLength != 0 || len(parts[2]) > anchorCount*anchorLength {
		return position{}, errForeignCursor
	}
	listing, err := strconv.Atoi(parts[0])
	if err != nil || listing < 0 || listing >= listings {
		return position{}, errForeignCursor
	}
	index, err := strconv.Atoi(parts[1])
	if err != nil || index < 0 || strings.Trim(parts[2], "0123456789abcdef") != "" {
		return position{}, errForeignCursor
	}
	at := position{listing: listing, index: index}
	for marks := range slices.Chunk([]byte(parts[2]), anchorLength) {
		at.anchors = append(at.anchors, string(marks))
	}
	return at, nil
}
