package main

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"mcp-host.example/provider"
)

// headerBytes is the number of bytes of a file that are searched for its header.
const headerBytes = 65536

// folder is a folder of CSV files.
type folder string

// names returns the names of the files, sorted by their bytes.
func (folder folder) names() ([]string, error) {
	entries, err := os.ReadDir(string(folder))
	if err != nil {
		// Not wrapped: a folder that is missing is a fault of the config, and no resource that is not found.
		return nil, fmt.Errorf("cannot read the folder %s: %v; does `grants.dirs` grant it?", folder, err)
	}
	var names []string
	for _, entry := range entries {
		if utf8.ValidString(entry.Name()) && folder.has(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// find returns the file of that name.
func (folder folder) find(name string) (os.FileInfo, bool) {
	if !strings.HasSuffix(name, ".csv") || strings.HasPrefix(name, ".") || strings.Contains(name, "/") {
		return nil, false
	}
	found, err := os.Stat(filepath.Join(string(folder), name))
	return found, err == nil && found.Mode().IsRegular()
}

func (folder folder) has(name string) bool {
	_, ok := folder.find(name)
	return ok
}

func (folder folder) entry(name string) (provider.Entry, error) {
	found, ok := folder.find(name)
	if !ok {
		return provider.Entry{}, provider.ErrNotFound
	}
	file, err := os.Open(filepath.Join(string(folder), name))
	if err != nil {
		return provider.Entry{}, err
	}
	defer file.Close()
	beginning, err := io.ReadAll(io.LimitReader(file, headerBytes))
	entry := provider.Entry{
		Path: provider.EncodeSegment(name), Name: name, MimeType: "text/csv", Size: provider.Size(found.Size()), Subscribable: true,
	}
	if text, ok := withoutIncomplete(beginning); ok {
		records := newRecords(text)
		if header, ok := records.next(); ok {
			entry.Description = "Columns: " + strings.Join(header, ", ") + "."
		}
	}
	return entry, err
}

// withoutIncomplete returns the bytes as text, without an incomplete character at their end.
func withoutIncomplete(bytes []byte) (string, bool) {
	for cut := 0; cut < utf8.UTFMax && cut <= len(bytes); cut++ {
		if rest := bytes[:len(bytes)-cut]; utf8.Valid(rest) && (cut == 0 || !utf8.FullRune(bytes[len(rest):])) {
			return string(rest), true
		}
	}
	return "", false
}

func (folder folder) read(name string) ([]byte, error) {
	if !folder.has(name) {
		return nil, provider.ErrNotFound
	}
	return os.ReadFile(filepath.Join(string(folder), name))
}

func (folder folder) text(name string) (string, error) {
	bytes, err := folder.read(name)
	if err == nil && !utf8.Valid(bytes) {
		err = fmt.Errorf("%s is not UTF-8", name)
	}
	return string(bytes), err
}

// state returns the size and the time of change of a file, or that it is missing.
func (folder folder) state(name string) string {
	found, ok := folder.find(name)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%d.%d", found.Size(), found.ModTime().UnixNano())
}

// digest returns a hash that is the same in every instance.
func digest(texts ...string) uint64 {
	hash := fnv.New64a()
	for _, text := range texts {
		hash.Write([]byte(text))
		hash.Write([]byte{0})
	}
	return hash.Sum64()
}
