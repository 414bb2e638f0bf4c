// Package hook connects the package prepare with the provider that was exported.
package hook

import "time"

// Progress is how far a preparation is after a call.
type Progress struct {
	NextToken  string
	Percent    *int
	Message    string
	AgainAfter time.Duration
}

// Failure is why a call prepared nothing; the time is zero if none is known.
type Failure struct {
	Reason     string
	RetryAfter time.Duration
}

// Prepare calls the provider that was exported.
var Prepare func(token *string) (Progress, *Failure)
