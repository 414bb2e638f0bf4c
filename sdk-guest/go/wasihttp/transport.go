// Package wasihttp sends HTTP requests to the origins that the administrator grants (grants.http = ["https://docs.rs"]), by
// the http.Client of the standard library:
//
//	client := &http.Client{Transport: wasihttp.Transport{}, Timeout: 4 * time.Second}
//	response, err := client.Get("https://docs.rs/serde/")
//	if err != nil {
//		return nil, err
//	}
//	defer response.Body.Close()
//	page, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
//
// The host checks the origin of each request, of a redirect, too, resolves the name, connects and verifies the certificate. A
// request that is not granted fails with the error of [provider.Denied], and a server that does not answer with the error of
// [provider.Unavailable]; http.Client wraps them, and a provider may return its error as it is. The text, with the URL, is shown to
// clients.
//
// A component imports wasi:http if it uses this package, which makes it larger: net/http is 7 MB of WebAssembly.
package wasihttp

import "time"

// Transport is an http.RoundTripper of the host. In a native test it is http.DefaultTransport, so that a server of
// net/http/httptest can be used.
type Transport struct {
	// Timeout is the timeout of the connection, of the first byte of the response, and between bytes of its body. The deadline of the
	// request's context counts as well, http.Client.Timeout among them; keep it below the plugin's deadline. 0 for the host's default.
	Timeout time.Duration
}
