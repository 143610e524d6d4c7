package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// Filters are the values wanted of each key: one of them must fit, for every key.
type Filters map[string][]string

// ParseFilters reads KEY=VALUE words; keys are those that may be asked for.
func ParseFilters(verb string, words []string, keys ...string) (Filters, error) {
	f := Filters{}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok || !slices.Contains(keys, k) {
			return nil, Usagef(verb, "filter %q: a filter is KEY=VALUE, and keys are %s", w, strings.Join(keys, ", "))
		}
		f[k] = append(f[k], v)
	}
	return f, nil
}

// Match compares what an item has with what is wanted. An id fits by its beginning,
// all else as a whole, without regard to case.
func (f Filters) Match(has map[string]string) bool {
	for key, wanted := range f {
		fits := func(w string) bool {
			switch {
			case key == "id" || key == "task":
				return strings.HasPrefix(has[key], w)
			case key == "tag":
				_, tagged := has["tag:"+w]
				return tagged
			case key == "pod" && strings.Contains(w, "/"):
				return w == has["namespace"]+"/"+has["pod"]
			}
			return strings.EqualFold(has[key], w)
		}
		if !slices.ContainsFunc(wanted, fits) {
			return false
		}
	}
	return true
}

// TaskFilterKeys are what tasks are chosen by.
const TaskFilterKeys = "id, name, family, service, pod, namespace, uid, status, health, tag"

// ParseTaskFilters reads the --filter of a verb about tasks.
func ParseTaskFilters(c *cli.Context) (Filters, error) {
	return ParseFilters(CommandPath(c), c.StringSlice("filter"), strings.Split(TaskFilterKeys, ", ")...)
}

// Filterable is what a task has of them.
func Filterable(t api.Task) map[string]string {
	has := map[string]string{"id": t.ID, "name": t.Name, "family": t.Family, "service": t.Service, "status": t.Status, "health": t.Health}
	for k, v := range t.Tags {
		has["tag:"+k], has["tag:"+k+"="+v] = "", ""
	}
	if p := t.Pod; p != nil {
		has["pod"], has["namespace"], has["uid"] = p.Name, p.Namespace, p.UID
	}
	return has
}

// ParseTime reads a point in time: RFC 3339, a date, seconds since 1970 or how
// long ago (10m). Empty is the zero time.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	if sec, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(sec, 0).UTC(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: give 2006-01-02T15:04:05Z, seconds since 1970 or a duration such as 10m", text)
}
