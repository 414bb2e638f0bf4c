package provider

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// CompareChanges compares the state of the watched paths, and of the listing, with that at the token of the request.
//
// state returns what identifies the state of a path, such as the size and modification time of its file ([FileState]), or an empty
// text if there is no such resource. listing identifies the state of the listing. Of both the token has digests.
func CompareChanges(request ChangesRequest, listing string, state func(path string) (string, error)) (Changes, error) {
	lines := []string{digest(listing)}
	for _, path := range request.Watched {
		now, err := state(path)
		if err != nil {
			return Changes{}, err
		}
		lines = append(lines, digest(path)+digest(now))
	}
	changes := Changes{Token: strings.Join(lines, "\n")}
	if request.Since == nil {
		return changes, nil
	}
	then := strings.Split(*request.Since, "\n")
	changes.ListingChanged = then[0] != lines[0]
	for index, path := range request.Watched {
		if !slices.Contains(then[1:], lines[index+1]) {
			changes.Changed = append(changes.Changed, path)
		}
	}
	return changes, nil
}

// digest returns a hash of texts that is the same in every instance: 16 hexadecimal digits.
func digest(texts ...string) string {
	hash := fnv.New64a()
	for _, text := range texts {
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}
