// The files of a folder, and the first lines of each.
package main

import (
	"bufio"
	"iter"
	"os"
	"strings"

	"mcp-host.example/provider"
)

var open = provider.Functions(
	provider.Resource("{name}", file, provider.List(files),
		provider.Described(provider.About{Name: "file", Description: "A file of the folder."})),
	provider.Resource("first/{name}{?lines}", firstLines,
		provider.Described(provider.About{Name: "first-lines", Description: "The first lines of a text file."})),
)

func init() {
	provider.Export(provider.Info{Name: "folder", Version: "0.1.0", Description: "The files of a folder.", Watches: true}, open)
}

func main() {}

func file(config provider.Config, name provider.FileName) (any, error) {
	return name.In(config.String("dir", "/data")), nil
}

func files(config provider.Config) iter.Seq2[provider.File, error] {
	return provider.Files(config.String("dir", "/data"))
}

type first struct {
	Name  provider.FileName
	Lines int `default:"10"`
}

func firstLines(config provider.Config, of first) (any, error) {
	file, err := os.Open(string(of.Name.In(config.String("dir", "/data"))))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var text strings.Builder
	for lines := bufio.NewReader(file); of.Lines > 0; of.Lines-- {
		line, err := lines.ReadString('\n')
		text.WriteString(strings.ToValidUTF8(line, "\uFFFD"))
		if err != nil {
			break // The end of the file.
		}
	}
	return text.String(), nil
}
