package keyvalue

import (
	"testing"
)

func TestABucketOfANativeTestBehavesAsThatOfTheHost(t *testing.T) {
	bucket, err := Open("visits")
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.SetMany(map[string][]byte{"a": []byte("1"), "b": nil}); err != nil {
		t.Error(err)
	}
	if value, found, err := bucket.Get("b"); value == nil || len(value) != 0 || !found || err != nil {
		t.Error(value, found, err)
	}
	for _, one := range []struct {
		key             string
		expected, value []byte
		isSet           bool
	}{
		{"a", []byte("0"), []byte("9"), false},
		{"a", nil, []byte("9"), false},
		{"a", []byte("1"), []byte("9"), true},
		{"new", []byte{}, []byte("9"), false},
		{"new", nil, []byte("9"), true},
	} {
		if isSet, err := bucket.CompareAndSwap(one.key, one.expected, one.value); isSet != one.isSet || err != nil {
			t.Error(one, isSet, err)
		}
	}
	if sum, err := bucket.Increment("a", -4); sum != 5 || err != nil {
		t.Error(sum, err)
	}
	if _, err := bucket.Increment("b", 1); err == nil {
		t.Error("a value that is no number was incremented")
	}
	if err := bucket.DeleteMany("b", "new", "missing"); err != nil {
		t.Error(err)
	}
	again, err := Open("visits")
	if err != nil {
		t.Fatal(err)
	}
	for key, err := range again.Keys() {
		if key != "a" || err != nil {
			t.Error(key, err)
		}
	}
	if values, err := again.GetMany("a", "b"); len(values) != 1 || string(values["a"]) != "5" || err != nil {
		t.Error(values, err)
	}
}

func TestValuesOfABucketMayBeJSON(t *testing.T) {
	bucket, err := Open("json")
	if err != nil {
		t.Fatal(err)
	}
	type index struct{ Names []string }
	if err := bucket.SetJSON("index", index{[]string{"a"}}); err != nil {
		t.Error(err)
	}
	var found index
	if ok, err := bucket.GetJSON("index", &found); !ok || err != nil || len(found.Names) != 1 {
		t.Error(ok, found, err)
	}
	if ok, err := bucket.GetJSON("none", &found); ok || err != nil {
		t.Error(ok, err)
	}
	if err := bucket.Set("text", []byte("text")); err != nil {
		t.Error(err)
	}
	if _, err := bucket.GetJSON("text", &found); err == nil {
		t.Error("a text is no JSON")
	}
	if err := bucket.SetJSON("wrong", make(chan int)); err == nil {
		t.Error("a channel is no JSON")
	}
}

func TestAResetEmptiesAllBucketsAlsoOpenOnes(t *testing.T) {
	bucket, err := Open("reset")
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Set("a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	Reset()
	again, err := Open("reset")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []*Bucket{bucket, again} {
		if value, found, err := one.Get("a"); found || err != nil {
			t.Error(value, found, err)
		}
	}
	if err := bucket.Set("a", []byte("2")); err != nil {
		t.Fatal(err)
	}
	if value, _, _ := again.Get("a"); string(value) != "2" {
		t.Error(value)
	}
}
