// A provider that prepares an index of a file in a bucket, a part per call, for a test of the host.
package main

import (
	"os"
	"strconv"
	"time"

	"mcp-host.example/provider"
	"mcp-host.example/provider/keyvalue"
	_ "mcp-host.example/provider/prepare"
)

const parts = 3

func init() {
	open := provider.Functions(provider.Resource("index", read))
	provider.Export(provider.Info{Name: "preparing", Version: "1.0.0", Watches: true}, provider.Prepared(open, prepare))
}

func main() {}

func prepare(_ provider.Config, token *string) (provider.Progress, error) {
	source, err := os.ReadFile("/data/source")
	if err != nil {
		return provider.Progress{}, err
	}
	part := 0
	if token != nil {
		part, _ = strconv.Atoi(*token)
	}
	if _, err := os.Stat("/data/fault"); err == nil && part == 1 {
		return provider.Progress{}, provider.Unavailable(time.Millisecond, "the source is locked")
	}
	if _, err := os.Stat("/data/bug"); err == nil && part == 2 {
		panic("a bug")
	}
	if part+1 == parts {
		bucket, err := keyvalue.Open("index")
		if err != nil {
			return provider.Progress{}, err
		}
		if err := bucket.Set("source", source); err != nil {
			return provider.Progress{}, err
		}
	}
	return provider.ProgressOf(part+1, parts, "parts", strconv.Itoa(part+1)), nil
}

func read(provider.Config, struct{}) (any, error) {
	bucket, err := keyvalue.Open("index")
	if err != nil {
		return nil, err
	}
	source, found, err := bucket.Get("source")
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, provider.BeingPrepared()
	}
	return string(source), nil
}
