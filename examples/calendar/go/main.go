// The events of an iCalendar file (RFC 5545): each, those of some days, and those of a category.
package main

import (
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"mcp-host.example/provider"
)

// event is an event. Of a repeated one that is the first: rules are not expanded.
type event struct {
	UID         string    `json:"uid"`
	Start       time.Time `json:"start"`
	End         time.Time `json:"end,omitzero"`
	Summary     string    `json:"summary,omitempty"`
	Description string    `json:"description,omitempty"`
	Location    string    `json:"location,omitempty"`
	Status      string    `json:"status,omitempty"`
	Categories  []string  `json:"categories"`
}

type agenda struct {
	Start *time.Time
	Days  int `default:"7"`
}

var open = provider.Functions(
	provider.Resource("events/{uid}", read, provider.List(list),
		provider.Described(provider.About{Name: "event", Description: "An event, by its UID."})),
	provider.Resource("agenda{?start,days}", readAgenda, provider.Described(provider.About{
		Name: "agenda", Description: "The events that begin within some days, by default the next seven, in UTC."})),
	provider.Resource("categories/{category}", readCategory, provider.List(listCategories),
		provider.Described(provider.About{Name: "category", Description: "The events of a category."})),
)

func init() {
	info := provider.Info{Name: "calendar", Version: "0.1.0", Description: "The events of a calendar.", Watches: true}
	provider.Export(info, open)
}

func main() {}

func read(config provider.Config, uid string) (any, error) {
	all, err := events(config)
	if index := slices.IndexFunc(all, func(one event) bool { return one.UID == uid }); index >= 0 {
		return all[index], nil
	}
	return nil, err
}

func list(config provider.Config) iter.Seq2[provider.Item, error] {
	all, err := events(config)
	var items []provider.Item
	for _, one := range all {
		description := one.Start.Format(time.RFC3339)
		if one.Location != "" {
			description += " in " + one.Location
		}
		entry := provider.Entry{Title: one.Summary, Description: description, MimeType: "application/json"}
		items = append(items, provider.Item{Value: one.UID, Entry: entry})
	}
	return provider.Each(items, err)
}

func readAgenda(config provider.Config, of agenda) (any, error) {
	start := time.Now().UTC().Truncate(24 * time.Hour)
	if of.Start != nil {
		start = *of.Start
	}
	end := start.AddDate(0, 0, min(max(of.Days, 0), 3660))
	all, err := events(config)
	return slices.DeleteFunc(slices.Clone(all), func(one event) bool { return one.Start.Before(start) || !one.Start.Before(end) }), err
}

func readCategory(config provider.Config, category string) (any, error) {
	all, err := events(config)
	found := slices.DeleteFunc(slices.Clone(all), func(one event) bool { return !slices.Contains(one.Categories, category) })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found, nil
}

func listCategories(config provider.Config) iter.Seq2[string, error] {
	all, err := events(config)
	var names []string
	for _, one := range all {
		names = append(names, one.Categories...)
	}
	slices.Sort(names)
	return provider.Each(slices.Compact(names), err)
}

var parsed provider.Memo[[]event]

// events returns the events of the file by their start, parsed once in an instance unless the file changes.
func events(config provider.Config) ([]event, error) {
	return parsed.Get(provider.FileName(config.String("file", "calendar.ics")).In(config.String("dir", "/calendar")), parse)
}

// parse returns the events that have a UID and a start.
func parse(bytes []byte) ([]event, error) {
	var all []event
	var found event
	known := map[string]bool{}
	within := []string{""} // The components that a line is within, such as an alarm in an event.
	text := strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "").Replace(strings.TrimPrefix(string(bytes), "\ufeff"))
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		match := property.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if match == nil {
			continue
		}
		name, parameters, value := strings.ToUpper(match[1]), match[2], match[3]
		switch last := within[len(within)-1]; {
		case name == "BEGIN":
			if within = append(within, strings.ToUpper(value)); strings.ToUpper(value) == "VEVENT" {
				found = event{Categories: []string{}}
			}
		case name == "END" && len(within) > 1:
			within = within[:len(within)-1]
			if last == "VEVENT" && found.UID != "" && !found.Start.IsZero() && !known[found.UID] {
				all, known[found.UID] = append(all, found), true
			}
		case last == "VEVENT":
			found.set(name, parameters, value)
		}
	}
	slices.SortFunc(all, func(one, other event) int {
		return cmp.Or(one.Start.Compare(other.Start), cmp.Compare(one.UID, other.UID))
	})
	return all, nil
}

// A line: its name, its parameters, whose values may be quoted, and its value.
var property = regexp.MustCompile(`^([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^";:])*)*):(.*)$`)

func (one *event) set(name, parameters, value string) {
	switch name {
	case "UID":
		one.UID = value
	case "DTSTART":
		one.Start = at(parameters, value)
	case "DTEND":
		one.End = at(parameters, value)
	case "CATEGORIES":
		for category := range strings.SplitSeq(strings.ReplaceAll(value, `\,`, "\x00"), ",") {
			one.Categories = append(one.Categories, plain(strings.ReplaceAll(category, "\x00", `\,`)))
		}
	default:
		texts := map[string]*string{
			"SUMMARY": &one.Summary, "DESCRIPTION": &one.Description, "LOCATION": &one.Location, "STATUS": &one.Status}
		if text := texts[name]; text != nil {
			*text = plain(value)
		}
	}
}

var plain = strings.NewReplacer(`\n`, "\n", `\N`, "\n", `\\`, `\`, `\,`, ",", `\;`, ";").Replace

var zoneName = regexp.MustCompile(`;TZID="?([^";]+)`)

// at returns a day, or a time in its zone; one of no zone that is known is taken for UTC. Zero if it is malformed.
func at(parameters, value string) time.Time {
	zone := time.UTC
	if name := zoneName.FindStringSubmatch(parameters); name != nil {
		if known, err := time.LoadLocation(name[1]); err == nil {
			zone = known
		}
	}
	found, err := time.ParseInLocation("20060102T150405", strings.TrimSuffix(value, "Z"), zone)
	if err != nil {
		found, _ = time.Parse("20060102", value)
	}
	return found
}
