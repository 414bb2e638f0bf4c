package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrNotFound says that there is no such resource.
var ErrNotFound = &Failure{kind: notFound, message: "not found"}

// Failure is an error that the contract defines. It is made by [InvalidRequest], [Denied] and [Unavailable]; compare with
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
		return &Failure{kind: internal, message: err.Error()}
	}
}
