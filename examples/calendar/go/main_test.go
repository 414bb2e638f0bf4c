package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-host.example/provider"
)

func openCalendar(t *testing.T) provider.Provider {
	t.Helper()
	data, err := filepath.Abs("../data")
	if err != nil {
		t.Fatal(err)
	}
	opened, err := open(provider.Config{"dir": data, "file": "team.ics"})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func readEvents(t *testing.T, calendar provider.Provider, path string) (found []event) {
	t.Helper()
	contents, err := calendar.Read(path)
	if err != nil {
		t.Fatal(path, err)
	}
	if err := json.Unmarshal([]byte(contents[0].Text), &found); err != nil {
		t.Fatal(path, err)
	}
	return found
}

func TestAnEventIsReadByThePathThatIsListed(t *testing.T) {
	calendar := openCalendar(t)
	page, err := calendar.List(provider.ListRequest{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, entry := range page.Entries {
		paths = append(paths, entry.Path)
	}
	expected := []string{
		"events/planning@example.com", "events/review%2F2026-12", "events/retro@example.com", "agenda",
		"categories/PLANNING", "categories/REVIEW", "categories/TEAM",
	}
	if !slices.Equal(paths, expected) {
		t.Error(paths)
	}
	contents, err := calendar.Read("events/review%2F2026-12")
	if err != nil || !strings.Contains(contents[0].Text, `ready, what is not.\nBring the list of issues that are open."`) {
		t.Error(contents, err)
	}
	if _, err := calendar.Read("events/another"); !errors.Is(err, provider.ErrNotFound) {
		t.Error(err)
	}
}

func TestTheAgendaHasTheEventsOfSomeDays(t *testing.T) {
	calendar := openCalendar(t)
	if found := readEvents(t, calendar, "agenda?start=2026-11-30&days=1"); len(found) != 1 || found[0].Summary != "Planning, all teams" {
		t.Error(found)
	}
	found := readEvents(t, calendar, "agenda?start=2026-11-30&days=30")
	if len(found) != 3 || found[2].Start.UTC().Hour() != 9 {
		t.Error(found)
	}
	if found := readEvents(t, calendar, "agenda?start=2020-01-01"); len(found) != 0 {
		t.Error(found)
	}
	if _, err := calendar.Read("agenda?days=x"); !provider.IsInvalidRequest(err) {
		t.Error(err)
	}
}

func TestCategoriesAreCompletedFromTheListing(t *testing.T) {
	calendar := openCalendar(t)
	request := provider.CompleteRequest{Template: "categories/{category}", Variable: "category", Typed: "T"}
	if completion, err := provider.Complete(calendar, request); err != nil || !slices.Equal(completion.Values, []string{"TEAM"}) {
		t.Error(completion, err)
	}
	if found := readEvents(t, calendar, "categories/TEAM"); len(found) != 2 {
		t.Error(found)
	}
}
