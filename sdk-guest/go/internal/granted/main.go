// A provider that uses each grant, for the end-to-end tests: `http` sends a request to the URL of the config, `keyvalue` performs every
// operation on the bucket `visits`, `sql` queries the database `shop`, and `env` returns the variable `WHO`. `bucket/SIZE` reads a value of
// that size five times, and `body/SIZE` the body of the response to a request of that path below the URL; both return the number of bytes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-host.example/provider"
	"mcp-host.example/provider/keyvalue"
	"mcp-host.example/provider/sql"
	"mcp-host.example/provider/wasihttp"
)

func init() {
	provider.Export(provider.Info{Name: "granted", Version: "1.0.0"}, func(config provider.Config) (provider.Provider, error) {
		return granted{config.String("url", "")}, nil
	})
}

func main() {}

type granted struct{ url string }

func (granted) List(provider.ListRequest) (provider.Page, error) { return provider.Page{}, nil }

func (granted granted) Read(path string) ([]provider.Contents, error) {
	var text string
	var err error
	switch path {
	case "http":
		text, err = granted.fetched()
	case "keyvalue":
		text, err = operations()
	case "sql":
		text, err = queried()
	case "env":
		text = os.Getenv("WHO")
	case "loop":
		endless()
	default:
		kind, size, _ := strings.Cut(path, "/")
		bytes, failed := strconv.Atoi(size)
		if err = failed; err == nil && kind == "bucket" {
			text, err = valueRead(bytes)
		} else if err == nil && kind == "body" {
			text, err = bodyRead(granted.url + "/" + size)
		} else {
			err = provider.ErrNotFound
		}
	}
	return []provider.Contents{provider.Text(provider.Entry{Path: path, Name: path}, text)}, err
}

func (granted granted) fetched() (string, error) {
	client := http.Client{Transport: wasihttp.Transport{}, Timeout: 10 * time.Second}
	request, err := http.NewRequest(http.MethodPost, granted.url, strings.NewReader("sent"))
	if err != nil {
		return "", err
	}
	request.Header.Set("x-test", "é")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/plain" {
		return "", fmt.Errorf("status %s, type %s", response.Status, kind)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1024))
	return string(body), err
}

func queried() (string, error) {
	var rejected *sql.Rejected
	if _, err := (sql.Database{Name: "shop"}).Query("SELECT 1 FROM missing"); !errors.As(err, &rejected) {
		return "", fmt.Errorf("a table that is missing was queried: %w", err)
	}
	shop := sql.Database{Name: "shop", MaxRows: 2}
	info, err := shop.Describe()
	if err != nil {
		return "", err
	}
	rows, err := shop.Query("SELECT name, price, photo FROM items WHERE price < $1 ORDER BY price", 3)
	if err != nil {
		return "", err
	}
	var columns []string
	for _, column := range rows.Columns {
		columns = append(columns, column.Name)
	}
	var values [][]any
	for _, row := range rows.Rows {
		var name string
		var price float64
		var photo []byte
		if err := row.Scan(&name, &price, &photo); err != nil {
			return "", err
		}
		// As a list of numbers: JSON of bytes is base64.
		var numbers []int
		for _, one := range photo {
			numbers = append(numbers, int(one))
		}
		values = append(values, []any{name, price, numbers})
	}
	text, err := json.Marshal([]any{rejected.SQLState, info.Kind, columns, values, rows.HasMore})
	return string(text), err
}

// endless is ended by the host.
//
//go:noinline
func endless() {
	for count := 0; ; count++ {
		if count < 0 {
			count = 0
		}
	}
}

// valueRead reads a value of that size five times.
func valueRead(size int) (string, error) {
	bucket, err := keyvalue.Open("visits")
	if err != nil {
		return "", err
	}
	if err := bucket.Set("list", make([]byte, size)); err != nil {
		return "", err
	}
	total := 0
	for range 5 {
		value, _, err := bucket.Get("list")
		if err != nil {
			return "", err
		}
		total += len(value)
	}
	return strconv.Itoa(total), nil
}

func bodyRead(url string) (string, error) {
	client := http.Client{Transport: wasihttp.Transport{}, Timeout: time.Minute}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return strconv.Itoa(len(body)), err
}

// operations performs them one by one; the first failure ends it.
func operations() (report string, err error) {
	defer func() {
		if failed, ok := recover().(failed); ok {
			err = failed.error
		}
	}()
	bucket := must(keyvalue.Open("visits"))
	check(bucket.SetJSON("a", map[string][]int{"é": {1}}))
	var decoded map[string][]int
	if !must(bucket.GetJSON("a", &decoded)) || len(decoded["é"]) != 1 {
		check(errors.New("JSON comes back as it was"))
	}
	check(bucket.Set("a", []byte("1")))
	check(bucket.SetMany(map[string][]byte{"b": []byte("2"), "c": []byte("3")}))
	swapped := []int{
		number(must(bucket.CompareAndSwap("a", []byte("0"), []byte("9")))),
		number(must(bucket.CompareAndSwap("a", []byte("1"), []byte("9")))),
	}
	check(bucket.Delete("b"))
	check(bucket.DeleteMany("c"))
	values := must(bucket.GetMany("a", "b"))
	deleted, found := "None", "False"
	if value, ok := values["b"]; ok {
		deleted = string(value)
	}
	if _, ok, err := bucket.Get("b"); ok || err != nil {
		found = "True"
	}
	two, five := must(bucket.Increment("n", 2)), must(bucket.Increment("n", 3))
	var keys []string
	for key, err := range bucket.Keys() {
		check(err)
		keys = append(keys, "'"+key+"'")
	}
	slices.Sort(keys)
	return fmt.Sprintf("%d %d %d %d %s %s %s [%s]",
		two, five, swapped[0], swapped[1], values["a"], deleted, found, strings.Join(keys, ", ")), nil
}

type failed struct{ error }

func check(err error) {
	if err != nil {
		panic(failed{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func number(isTrue bool) int {
	if isTrue {
		return 1
	}
	return 0
}
