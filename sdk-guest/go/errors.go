package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrNotFound says that there is no such resource.
var ErrNotFound = &Failure{kind: notFound, message: "not found"}

// Failure is an error that the contract defines. [InvalidRequest], [Denied] and [Unavailable] create it; compare with
// [ErrNotFound] by errors.Is.
type Failure struct {
	kind       failureKind
	message    string
	retryAfter time.Duration
}

type failureKind uint8

const (
	notFound failureKind = iota
	invalidRequest
	denied
	unavailable
	internal
)

// Error returns the message.
func (failure *Failure) Error() string { return failure.message }

// InvalidRequest says that a request makes no sense: a path of an unknown form, a foreign cursor. The client sees the message.
func InvalidRequest(format string, arguments ...any) error {
	return &Failure{kind: invalidRequest, message: fmt.Sprintf(format, arguments...)}
}

// Denied says that the owner of the data denies access. The client sees the message.
func Denied(format string, arguments ...any) error {
	return &Failure{kind: denied, message: fmt.Sprintf(format, arguments...)}
}

// Unavailable says that it cannot be answered now, and when a retry makes sense: 0 if that is not known. The client sees the
// message.
func Unavailable(retryAfter time.Duration, format string, arguments ...any) error {
	return &Failure{kind: unavailable, message: fmt.Sprintf(format, arguments...), retryAfter: retryAfter}
}

// IsInvalidRequest returns whether an error is one of [InvalidRequest].
func IsInvalidRequest(err error) bool { return asFailure(err).kind == invalidRequest }

// asFailure classifies an error.
func asFailure(err error) *Failure {
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		return &Failure{kind: denied, message: "the file system denies access to it"}
	default:
		return &Failure{kind: internal, message: err.Error() + grantHint(err)}
	}
}

// pathOperations are the operations of package os that look a path up. Those on an open file have other reasons for EBADF.
var pathOperations = []string{"open", "stat", "lstat", "readlink", "mkdir", "unlink", "remove", "chtimes", "truncate"}

// grantHint says what to grant if a path is below no granted directory. For that, Go's runtime has the number EBADF of WASI, whose
// text, "Bad file number", says nothing about it.
func grantHint(err error) string {
	var failed *fs.PathError
	if !errors.As(err, &failed) || failed.Err != syscall.EBADF || !slices.Contains(pathOperations, failed.Op) {
		return ""
	}
	directory, _, _ := strings.Cut(strings.TrimPrefix(path.Join("/", failed.Path), "/"), "/")
	return fmt.Sprintf("; this path is below no directory that the plugin is granted: add one to its `grants.dirs`, "+
		"such as { host = \"…\", guest = %q }", "/"+directory)
}
