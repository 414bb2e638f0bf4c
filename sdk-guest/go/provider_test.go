package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestASegmentIsEncodedAndDecoded(t *testing.T) {
	for text, encoded := range map[string]string{
		"a b":    "a%20b",
		"東":      "%E6%9D%B1",
		"..":     "%2E%2E",
		"a.b~c":  "a.b~c",
		"x/y?z%": "x%2Fy%3Fz%25",
	} {
		if found := EncodeSegment(text); found != encoded {
			t.Errorf("%q: %q", text, found)
		}
	}
	if found := EncodeQuery("a&b=c+d,e;f/g?h @:"); found != "a%26b%3Dc%2Bd%2Ce%3Bf%2Fg%3Fh%20@:" {
		t.Error(found)
	}
	if decoded, err := DecodeSegment("a%20b"); decoded != "a b" || err != nil {
		t.Error(decoded, err)
	}
	for _, segment := range []string{"a%2Fb", "%", "%zz", "%ff", "%00", "a/b"} {
		if _, err := DecodeSegment(segment); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", segment, err)
		}
	}
}

func TestAPathIsSplit(t *testing.T) {
	path, err := ParsePath("a%20b/rows?from=1&to=&x")
	expected := Path{
		Segments: []string{"a b", "rows"}, HasQuery: true, Query: []Variable{{"from", "1"}, {"to", ""}, {"x", ""}},
	}
	if err != nil || !reflect.DeepEqual(path, expected) {
		t.Errorf("%v, %v", path, err)
	}
}

func TestErrorsAreClassified(t *testing.T) {
	for err, kind := range map[error]failureKind{
		ErrNotFound:                            notFound,
		fmt.Errorf("opening: %w", ErrNotFound): notFound,
		&fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrNotExist}:   notFound,
		&fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrPermission}: denied,
		InvalidRequest("expected %d", 1):                                  invalidRequest,
		Unavailable(time.Second, "locked"):                                unavailable,
		errors.New("anything"):                                            internal,
	} {
		if found := asFailure(err).kind; found != kind {
			t.Errorf("%v: %d", err, found)
		}
	}
}

func TestAPathThatIsNotGrantedSaysWhatToGrant(t *testing.T) {
	notGranted := func(operation, path string) error {
		return &fs.PathError{Op: operation, Path: path, Err: syscall.EBADF}
	}
	for path, guest := range map[string]string{"/data/a/b.csv": "/data", "/data": "/data", "data/../x": "/x", "/": "/"} {
		failure := asFailure(fmt.Errorf("loading the index: %w", notGranted("open", path)))
		hint := fmt.Sprintf("add one to its `grants.dirs`, such as { host = \"…\", guest = %q }", guest)
		if failure.kind != internal || !strings.HasSuffix(failure.message, hint) ||
			!strings.HasPrefix(failure.message, "loading the index: open "+path) {
			t.Errorf("%q: %v", path, failure)
		}
	}
	for _, err := range []error{notGranted("write", "/data/a"), errors.New("grants"), syscall.EBADF} {
		if failure := asFailure(err); failure.message != err.Error() {
			t.Errorf("%v: %v", err, failure)
		}
	}
}

type withTemplate struct{ Provider }

func (withTemplate) Templates() ([]Template, error) {
	return []Template{{PathTemplate: "{+file}/rows{?from:3,to*}"}}, nil
}

func TestUnknownVariablesAreRefused(t *testing.T) {
	request := CompleteRequest{Template: "{+file}/rows{?from:3,to*}", Variable: "to"}
	if _, err := Complete(withTemplate{}, request); err != nil {
		t.Error(err)
	}
	request.Variable = "x"
	expected := "expected a variable of \"{+file}/rows{?from:3,to*}\" (file, from, to), found \"x\""
	if _, err := Complete(withTemplate{}, request); !IsInvalidRequest(err) || err.Error() != expected {
		t.Error(err)
	}
	if _, err := Complete(withTemplate{}, CompleteRequest{Template: "x"}); !IsInvalidRequest(err) {
		t.Error(err)
	}
}

func TestAsManyValuesAreGivenAsTheHostChoosesFrom(t *testing.T) {
	candidates := make([]string, 2500)
	for number := range candidates {
		candidates[number] = fmt.Sprintf("v%d", number)
	}
	if all := Matching(candidates[:1000], "v"); len(all.Values) != 1000 || *all.Total != 1000 || all.HasMore {
		t.Error(len(all.Values), *all.Total, all.HasMore)
	}
	if first := Matching(candidates, "v"); len(first.Values) != 1000 || *first.Total != 2500 || !first.HasMore {
		t.Error(len(first.Values), *first.Total, first.HasMore)
	}
}

func TestAPanicIsAnErrorAndIsLogged(t *testing.T) {
	var logged any
	_, err := call(func() (int, error) { panic("lost") }, func(value any) { logged = value })
	if err == nil || logged != "lost" || asFailure(err).kind != internal {
		t.Error(err, logged)
	}
}

func TestProgressCountsToAHundredAndEndsThere(t *testing.T) {
	if half := ProgressOf(1, 2, "files", "t"); half.NextToken != "t" || *half.Percent != 50 || half.Message != "1 of 2 files" {
		t.Errorf("half: %+v", half)
	}
	for _, done := range []Progress{ProgressOf(2, 2, "files", "t"), ProgressOf(0, 0, "files", "t")} {
		if done.NextToken != "" || *done.Percent != 100 {
			t.Errorf("done: %+v", done)
		}
	}
}

func TestWhatIsBeingPreparedSaysHowFarItIs(t *testing.T) {
	if got := beingPrepared(true, "40").Error(); got != "it is being prepared, 40 %" {
		t.Error(got)
	}
	if got := beingPrepared(false, "").Error(); !strings.Contains(got, "does not allow") {
		t.Error(got)
	}
}
