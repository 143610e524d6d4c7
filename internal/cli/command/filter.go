package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// Filters has the accepted values of each key. An item matches if, for each key of the filters, it has one
// of the accepted values.
type Filters map[string][]string

// ParseFilters parses words of the form KEY=VALUE. A key that is not in keys is an error.
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

// Match reports whether the values of an item are accepted. An ID may be given by its beginning;
// other values are compared as a whole, ignoring case; a status may be that of ECS or a word of podtask ps.
func (f Filters) Match(has map[string]string) bool {
	for key, wanted := range f {
		fits := func(w string) bool {
			switch {
			case key == "id" || key == "task":
				return strings.HasPrefix(has[key], w)
			case key == "tag":
				_, tagged := has["tag:"+w]
				return tagged
			case key == "status" && strings.EqualFold(has["state"], w):
				return true
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

// TaskFilterKeys lists the keys by which tasks can be filtered, for help texts and ParseTaskFilters.
const TaskFilterKeys = "id, name, family, service, pod, namespace, uid, status, health, tag"

// ParseTaskFilters parses --filter of a command about tasks.
func ParseTaskFilters(c *cli.Context) (Filters, error) {
	return ParseFilters(Path(c), c.StringSlice("filter"), strings.Split(TaskFilterKeys, ", ")...)
}

// FilterValues returns the values of a task by key, for Filters.Match. A tag is a key of its own.
func FilterValues(t api.Task) map[string]string {
	has := map[string]string{"id": t.ID, "name": t.Name, "family": t.Family, "service": t.Service, "status": t.Status, "health": t.Health}
	has["state"], _, _ = strings.Cut(console.TaskState(t, ""), " (")
	for k, v := range t.Tags {
		has["tag:"+k], has["tag:"+k+"="+v] = "", ""
	}
	if p := t.Pod; p != nil {
		has["pod"], has["namespace"], has["uid"] = p.Name, p.Namespace, p.UID
	}
	return has
}

// ParseTime reads a time: RFC 3339, a date, seconds since 1970 or how long ago (10m). An empty text
// is the zero time.
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
	return time.Time{}, fmt.Errorf("%q is not a time: write 2006-01-02T15:04:05Z, seconds since 1970 or a duration such as 10m", text)
}
