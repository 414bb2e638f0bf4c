// The files of a folder: one resource per file, and a template for the first lines of each.
//
// `go generate` builds the component.
package main

//go:generate env GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags=-w -o {{name}}.core.wasm .
//go:generate mcp-host componentize {{name}}.core.wasm --needs needs.json

import (
	"bufio"
	"iter"
	"math"
	"os"
	"strings"

	"mcp-host.example/provider"
)

var open = provider.Functions(
	provider.Resource("{name}", file, provider.List(files), provider.Described(provider.About{
		Name: "file", Description: "A file of the folder.",
	})),
	provider.Resource("first/{name}", firstLines, provider.Described(provider.About{
		Name: "first-lines", Title: "First lines of a file", Description: "The first lines of a text file.",
	})),
)

func init() {
	provider.Export(provider.Info{Name: "{{name}}", Version: "0.1.0", Description: "The files of a folder.", Watches: true}, open)
}

func main() {}

func folder(config provider.Config) string { return config.String("dir", "/data") }

func file(config provider.Config, name provider.FileName) (any, error) {
	return name.In(folder(config)), nil
}

func files(config provider.Config) iter.Seq2[provider.File, error] {
	return provider.Files(folder(config))
}

func firstLines(config provider.Config, name provider.FileName) (any, error) {
	count, err := config.Int("lines", 0, math.MaxInt32, 10)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(string(name.In(folder(config))))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var text strings.Builder
	for lines := bufio.NewReader(file); count > 0; count-- {
		line, err := lines.ReadString('\n')
		text.WriteString(strings.ToValidUTF8(line, "\uFFFD"))
		if err != nil {
			break // The end of the file.
		}
	}
	return text.String(), nil
}
