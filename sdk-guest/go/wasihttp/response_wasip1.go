//go:build wasip1

package wasihttp

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	wasi "mcp-host.example/provider/internal/bindings/imports/wasi_http_types"
	streams "mcp-host.example/provider/internal/bindings/imports/wasi_io_streams"
)

// maxRead is the size of one read of a body.
const maxRead = 64 << 10

func newResponse(request *http.Request, incoming *wasi.IncomingResponse) (*http.Response, error) {
	defer incoming.Drop()
	status := int(incoming.Status())
	response := &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{},
		ContentLength: -1,
		Request:       request,
	}
	fields := incoming.Headers()
	for _, field := range fields.Entries() {
		response.Header.Add(field.F0, string(field.F1))
	}
	fields.Drop()
	if length, err := strconv.ParseInt(response.Header.Get("Content-Length"), 10, 64); err == nil && length >= 0 {
		response.ContentLength = length
	}
	consumed := incoming.Consume()
	if consumed.IsErr() {
		return nil, fmt.Errorf("%s: the response has no body", request.URL.Redacted())
	}
	opened := consumed.Ok().Stream()
	if opened.IsErr() {
		consumed.Ok().Drop()
		return nil, fmt.Errorf("%s: the response has no body", request.URL.Redacted())
	}
	response.Body = &responseBody{url: request.URL, body: consumed.Ok(), stream: opened.Ok()}
	return response, nil
}

// responseBody streams the body of a response. Closing it ends the exchange.
type responseBody struct {
	url    *url.URL
	body   *wasi.IncomingBody
	stream *streams.InputStream
	// err is what ended it.
	err error
}

func (body *responseBody) Read(buffer []byte) (int, error) {
	for body.err == nil && len(buffer) > 0 {
		read := body.stream.BlockingRead(uint64(min(len(buffer), maxRead)))
		if read.IsErr() {
			body.err = body.failure(read.Err())
		} else if chunk := read.Ok(); len(chunk) > 0 {
			return copy(buffer, chunk), nil
		}
	}
	return 0, body.err
}

func (body *responseBody) failure(failed streams.StreamError) error {
	if failed.Tag() == streams.StreamError_Closed {
		return io.EOF
	}
	reason := failed.LastOperationFailed()
	defer reason.Drop()
	if code := wasi.HttpErrorCode(reason); code.IsSome() {
		return failure(body.url, code.Some())
	}
	return lost(body.url)
}

func (body *responseBody) Close() error {
	if body.err != http.ErrBodyReadAfterClose {
		body.err = http.ErrBodyReadAfterClose
		// A stream is dropped before the body that it is of.
		body.stream.Drop()
		body.body.Drop()
	}
	return nil
}
