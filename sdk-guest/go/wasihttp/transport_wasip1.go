//go:build wasip1

package wasihttp

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	handler "mcp-host.example/provider/internal/bindings/imports/wasi_http_outgoing_handler"
	wasi "mcp-host.example/provider/internal/bindings/imports/wasi_http_types"
	types "mcp-host.example/provider/internal/wit/types"
)

// maxWrite is what one write to a body may have, by wasi:io.
const maxWrite = 4096

// RoundTrip sends a request and waits for the head of the response.
func (transport Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		defer request.Body.Close()
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	outgoing, err := newRequest(request)
	if err != nil {
		return nil, err
	}
	// The body is taken before the request is sent.
	sent := outgoing.Body()
	if sent.IsErr() {
		return nil, fmt.Errorf("%s: the request has no body", request.URL.Redacted())
	}
	handled := handler.Handle(outgoing, transport.options(request))
	if handled.IsErr() {
		sent.Ok().Drop()
		return nil, failure(request.URL, handled.Err())
	}
	future := handled.Ok()
	defer future.Drop()
	if err := write(sent.Ok(), request.Body); err != nil {
		return nil, err
	}
	settled := future.Subscribe()
	settled.Block()
	settled.Drop()
	result := future.Get()
	if result.IsNone() || result.Some().IsErr() {
		return nil, fmt.Errorf("%s: no response", request.URL.Redacted())
	}
	if result := result.Some().Ok(); result.IsErr() {
		return nil, failure(request.URL, result.Err())
	}
	return newResponse(request, result.Some().Ok().Ok())
}

// newRequest makes the head of a request.
func newRequest(request *http.Request) (*wasi.OutgoingRequest, error) {
	url := request.URL
	if url.Scheme != "http" && url.Scheme != "https" || url.Host == "" {
		return nil, fmt.Errorf("expected an http: or https: URL, found %q", url.Redacted())
	}
	fields := wasi.MakeFields()
	add := func(name, value string) error {
		if fields.Append(name, []byte(value)).IsErr() {
			return fmt.Errorf("the header %q is invalid, or only the host may set it", name)
		}
		return nil
	}
	for name, values := range request.Header {
		for _, value := range values {
			if err := add(name, value); err != nil {
				return nil, err
			}
		}
	}
	if request.Body != nil && request.ContentLength > 0 {
		if err := add("Content-Length", strconv.FormatInt(request.ContentLength, 10)); err != nil {
			return nil, err
		}
	}
	outgoing := wasi.MakeOutgoingRequest(fields)
	scheme := wasi.MakeSchemeHttp()
	if url.Scheme == "https" {
		scheme = wasi.MakeSchemeHttps()
	}
	if outgoing.SetMethod(method(request.Method)).IsErr() || outgoing.SetScheme(types.Some(scheme)).IsErr() ||
		outgoing.SetAuthority(types.Some(url.Host)).IsErr() || outgoing.SetPathWithQuery(types.Some(url.RequestURI())).IsErr() {
		return nil, fmt.Errorf("the method %s or the URL is invalid: %s", request.Method, url.Redacted())
	}
	return outgoing, nil
}

func method(name string) wasi.Method {
	switch name {
	case "", http.MethodGet:
		return wasi.MakeMethodGet()
	case http.MethodHead:
		return wasi.MakeMethodHead()
	case http.MethodPost:
		return wasi.MakeMethodPost()
	case http.MethodPut:
		return wasi.MakeMethodPut()
	case http.MethodDelete:
		return wasi.MakeMethodDelete()
	case http.MethodOptions:
		return wasi.MakeMethodOptions()
	case http.MethodPatch:
		return wasi.MakeMethodPatch()
	default:
		return wasi.MakeMethodOther(name)
	}
}

// options returns the timeouts of a request: the transport's, or what is left until its deadline if that is less.
func (transport Transport) options(request *http.Request) types.Option[*wasi.RequestOptions] {
	timeout := transport.Timeout
	if deadline, ok := request.Context().Deadline(); ok {
		if left := max(time.Until(deadline), 1); timeout <= 0 || left < timeout {
			timeout = left
		}
	}
	if timeout <= 0 {
		return types.None[*wasi.RequestOptions]()
	}
	options, limit := wasi.MakeRequestOptions(), types.Some(uint64(timeout.Nanoseconds()))
	options.SetConnectTimeout(limit)
	options.SetFirstByteTimeout(limit)
	options.SetBetweenBytesTimeout(limit)
	return types.Some(options)
}

// write writes the body of a request and ends it. When the server does not take it, the future of the response has the reason; the
// error is the reader's.
func write(body *wasi.OutgoingBody, from io.Reader) error {
	if from != nil {
		opened := body.Write()
		if opened.IsErr() {
			body.Drop()
			return nil
		}
		stream, buffer := opened.Ok(), make([]byte, maxWrite)
		for {
			count, err := from.Read(buffer)
			isRefused := count > 0 && stream.BlockingWriteAndFlush(buffer[:count]).IsErr()
			if err == nil && !isRefused {
				continue
			}
			stream.Drop()
			if isRefused || err != io.EOF {
				body.Drop()
				if isRefused {
					err = nil
				}
				return err
			}
			break
		}
	}
	wasi.OutgoingBodyFinish(body, types.None[*wasi.Fields]())
	return nil
}
