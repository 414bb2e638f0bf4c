package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// File is a file of a granted directory, by its path. A function returns it as the content of a resource, or in a listing.
type File string

// FileName is an argument of a function: the name of a file, or its path below a folder. One that is hidden, or leads out of a folder
// that it is joined with, is not found.
type FileName string

// In returns the file of that name in a folder.
func (name FileName) In(folder string) File { return File(filepath.Join(folder, string(name))) }

// isFileName returns whether a text leads to no hidden file, and not out of the folder that it is joined with.
func isFileName(text string) bool {
	for segment := range strings.SplitSeq(text, "/") {
		if segment == "" || strings.HasPrefix(segment, ".") || strings.ContainsAny(segment, "\\\x00") {
			return false
		}
	}
	return true
}

// Files iterates over the files of a folder, sorted by name, without hidden ones and folders. A folder that cannot be read is an
// internal failure, as it is the config's.
func Files(folder string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			// Not wrapped: a folder that is missing is a fault of the config, and no resource that is not found.
			yield("", fmt.Errorf("cannot read the folder %s: %v; does `grants.dirs` grant it?", folder, err))
			return
		}
		for _, entry := range entries {
			file := File(filepath.Join(folder, entry.Name()))
			if !isFileName(entry.Name()) || !isUTF8(entry.Name()) {
				continue
			}
			if _, err := file.stat(); err == nil && !yield(file, nil) {
				return
			}
		}
	}
}

// stat returns the status of a file. One that is no regular file is not found; if not even a folder above it is there, that is a
// fault of the config.
func (file File) stat() (fs.FileInfo, error) {
	found, err := os.Stat(string(file))
	if err == nil && !found.Mode().IsRegular() {
		return nil, ErrNotFound
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	for folder := filepath.Dir(string(file)); folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if above, err := os.Stat(folder); err == nil && above.IsDir() {
			return nil, ErrNotFound
		}
	}
	return nil, fmt.Errorf("cannot read %s: there is no folder %s; does `grants.dirs` grant it?", file, filepath.Dir(string(file)))
}

// FileState returns the size and the modification time of a file as a text; an empty one if there is none.
func FileState(file File) (string, error) {
	found, err := file.stat()
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", found.Size(), found.ModTime().UnixNano()), nil
}

// entry adds to an entry what is known of the file.
func (file File) entry(entry Entry) (Entry, error) {
	found, err := file.stat()
	if err != nil {
		return Entry{}, err
	}
	if entry.MimeType == "" {
		entry.MimeType = MimeType(string(file))
	}
	entry.Size = Size(found.Size())
	if entry.LastModified.IsZero() {
		entry.LastModified = found.ModTime()
	}
	return entry, nil
}

// mimeTypes are MIME types by extension. A component has no table of the machine.
var mimeTypes = map[string]string{
	".c": "text/x-c", ".css": "text/css", ".csv": "text/csv", ".gif": "image/gif", ".go": "text/x-go", ".htm": "text/html",
	".html": "text/html", ".ics": "text/calendar", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript",
	".json": "application/json", ".md": "text/markdown", ".pdf": "application/pdf", ".png": "image/png", ".py": "text/x-python",
	".rs": "text/x-rust", ".svg": "image/svg+xml", ".toml": "application/toml", ".ts": "text/x-typescript", ".txt": "text/plain",
	".webp": "image/webp", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip",
}

// MimeType returns the MIME type for the extension of a name; an empty text if it is not known.
func MimeType(name string) string { return mimeTypes[strings.ToLower(filepath.Ext(name))] }

// Memo keeps what was made of a file until the file changes: within a call, and where the host uses instances again, across calls. The
// zero value is empty. It keeps the last file only.
//
//	var calendars provider.Memo[*calendar]
//	…
//	calendar, err := calendars.Get(file, parse)
type Memo[T any] struct {
	file  File
	state string
	value T
}

// Get returns what make makes of the file's bytes, or made of them before.
func (memo *Memo[T]) Get(file File, make func(bytes []byte) (T, error)) (T, error) {
	var none T
	state, err := FileState(file)
	if err != nil {
		return none, err
	}
	if state == "" {
		return none, ErrNotFound
	}
	if memo.state == state && memo.file == file {
		return memo.value, nil
	}
	bytes, err := os.ReadFile(string(file))
	if err != nil {
		return none, err
	}
	value, err := make(bytes)
	if err != nil {
		return none, err
	}
	*memo = Memo[T]{file, state, value}
	return value, nil
}
