//go:build !wasip1

package wasihttp

import "net/http"

// RoundTrip sends a request by http.DefaultTransport.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	return http.DefaultTransport.RoundTrip(request)
}
