package provider

import (
	"encoding/json"
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

// Float returns the number of a key, or another one if there is no such key. A value of another type is an error.
func (config Config) Float(key string, otherwise float64) (float64, error) {
	return parsed(config, key, otherwise, "a number", func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

// Bool returns the boolean of a key, or another one if there is no such key. A value of another type is an error.
func (config Config) Bool(key string, otherwise bool) (bool, error) {
	return parsed(config, key, otherwise, "true or false", func(text string) (bool, error) {
		if text != "true" && text != "false" {
			return false, strconv.ErrSyntax
		}
		return text == "true", nil
	})
}

// Strings returns the list of a key, or another one if there is no such key. A value of another type is an error.
func (config Config) Strings(key string, otherwise []string) ([]string, error) {
	return parsed(config, key, otherwise, "a list of strings", func(text string) (list []string, err error) {
		return list, json.Unmarshal([]byte(text), &list)
	})
}

// JSON decodes the value of a key, a list or a table, into what target points to, and returns whether there is one. A value of
// another type is an error.
func (config Config) JSON(key string, target any) (found bool, err error) {
	text, found := config[key]
	if !found {
		return false, nil
	}
	if err := json.Unmarshal([]byte(text), target); err != nil {
		return false, fmt.Errorf("the config key `%s` cannot be read: %w, found `%s`", key, err, text)
	}
	return true, nil
}

func parsed[T any](config Config, key string, otherwise T, expected string, parse func(text string) (T, error)) (T, error) {
	text, found := config[key]
	if !found {
		return otherwise, nil
	}
	value, err := parse(text)
	if err != nil {
		return otherwise, fmt.Errorf("the config key `%s` should be %s, found `%s`", key, expected, text)
	}
	return value, nil
}
