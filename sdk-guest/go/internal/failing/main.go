// A provider that fails in every way, for the tests of the host: the path says how.
package main

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"mcp-host.example/provider"
)

func init() {
	provider.Export(provider.Info{Name: "failing", Version: "1.0.0"}, func(config provider.Config) (provider.Provider, error) {
		depth, err := config.Int("depth", 1, 9, 1)
		return failing{depth}, err
	})
}

func main() {}

type failing struct{ depth int }

func (failing) List(provider.ListRequest) (provider.Page, error) { return provider.Page{}, nil }

func (failing failing) Read(path string) ([]provider.Contents, error) {
	switch path {
	case "bug":
		var missing map[string]int
		missing["missing"]++
		return nil, nil
	case "internal":
		return nil, errors.New("the index is corrupt")
	case "not-granted":
		_, err := os.ReadFile("/data/index.json")
		return nil, err
	case "denied":
		return nil, provider.Denied("not for you")
	case "busy":
		return nil, provider.Unavailable(2*time.Second, "locked")
	case "zone":
		place, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			return nil, err
		}
		text := time.Date(2026, 7, 1, 12, 0, 0, 0, place).Format(time.RFC3339)
		return []provider.Contents{provider.Text(provider.Entry{Path: path, Name: path}, text)}, nil
	case "good":
		slog.Info("read, with", "depth", failing.depth)
		return []provider.Contents{provider.Blob(provider.Entry{Path: path, Name: path}, []byte{0xff, 0})}, nil
	default:
		return nil, provider.ErrNotFound
	}
}
