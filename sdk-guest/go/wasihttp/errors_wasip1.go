//go:build wasip1

package wasihttp

import (
	"fmt"
	"net/url"

	"mcp-host.example/provider"
	wasi "mcp-host.example/provider/internal/bindings/imports/wasi_http_types"
)

// failure returns the failure that a client can act on. Everything but a missing grant and a request that is invalid may pass.
func failure(of *url.URL, code wasi.ErrorCode) error {
	switch code.Tag() {
	case wasi.ErrorCode_HttpRequestDenied, wasi.ErrorCode_DestinationIpProhibited:
		return provider.Denied("requests to %s are not granted", of.Redacted())
	case wasi.ErrorCode_HttpRequestMethodInvalid, wasi.ErrorCode_HttpRequestUriInvalid, wasi.ErrorCode_HttpRequestUriTooLong,
		wasi.ErrorCode_HttpRequestLengthRequired, wasi.ErrorCode_HttpRequestHeaderSectionSize, wasi.ErrorCode_HttpRequestHeaderSize:
		return fmt.Errorf("%s: the method, the URL or the headers are invalid or too large", of.Redacted())
	default:
		return provider.Unavailable(0, "%s: %s", of.Redacted(), reason(code.Tag()))
	}
}

// lost is the failure of a body that breaks off.
func lost(of *url.URL) error {
	return provider.Unavailable(0, "%s: the connection was lost within the body", of.Redacted())
}

func reason(code uint8) string {
	switch code {
	case wasi.ErrorCode_DnsTimeout, wasi.ErrorCode_ConnectionTimeout, wasi.ErrorCode_ConnectionReadTimeout,
		wasi.ErrorCode_ConnectionWriteTimeout, wasi.ErrorCode_HttpResponseTimeout:
		return "the server did not respond in time"
	case wasi.ErrorCode_DnsError, wasi.ErrorCode_DestinationNotFound:
		return "the name of the server does not resolve"
	case wasi.ErrorCode_DestinationUnavailable, wasi.ErrorCode_DestinationIpUnroutable, wasi.ErrorCode_ConnectionRefused:
		return "the server cannot be reached"
	case wasi.ErrorCode_ConnectionTerminated:
		return "the connection was closed"
	case wasi.ErrorCode_TlsCertificateError:
		return "the certificate of the server is not trusted"
	case wasi.ErrorCode_TlsProtocolError, wasi.ErrorCode_TlsAlertReceived:
		return "there is no common TLS version or cipher"
	case wasi.ErrorCode_ConnectionLimitReached:
		return "there are too many requests"
	case wasi.ErrorCode_HttpRequestBodySize:
		return "the body of the request is too large"
	case wasi.ErrorCode_HttpResponseBodySize:
		return "the body of the response is too large"
	case wasi.ErrorCode_HttpResponseIncomplete:
		return "the response is truncated"
	default:
		return "the request failed"
	}
}
