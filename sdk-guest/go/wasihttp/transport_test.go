package wasihttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestInANativeTestRequestsGoToAServerOfHttptest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		_, _ = io.WriteString(writer, request.URL.Path)
	}))
	defer server.Close()
	client := http.Client{Transport: Transport{}}
	response, err := client.Get(server.URL + "/serde/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "/serde/" || err != nil {
		t.Error(string(body), err)
	}
}
