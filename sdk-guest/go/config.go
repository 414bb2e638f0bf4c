package provider

import (
	"fmt"
	"strconv"
)

// Config is the config of the plugin: strings as they are, other values as JSON.
type Config map[string]string

// String returns the value of a key, or another one if there is no such key.
func (config Config) String(key, otherwise string) string {
	if value, ok := config[key]; ok {
		return value
	}
	return otherwise
}

// Int returns the number of a key, or another one if there is no such key. A value that is no number of that range is an error.
func (config Config) Int(key string, low, high, otherwise int) (int, error) {
	text, ok := config[key]
	if !ok {
		return otherwise, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < low || number > high {
		return 0, fmt.Errorf("the config key `%s` should be a number from %d to %d, found `%s`", key, low, high, text)
	}
	return number, nil
}
