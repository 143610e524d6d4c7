package imageage

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/podtask/podtask/internal/lazy"
)

// Rules select the updates of a host. The zero value allows all.
type Rules struct {
	// Registries are hosts, HOST/PATH, or patterns of them; an image must match one, if there are any.
	Registries []string
	// Tags are rules of tags; the tag must match one, if there are any.
	Tags []TagRule
	// Hours are times of a day in which updates begin, if there are any.
	Hours []Hours
}

// TagRule is a pattern, as in "stable-*", or a constraint of versions, as in "semver: ~1.4".
type TagRule struct {
	text       string
	constraint *semver.Constraints
}

func (r TagRule) String() string { return r.text }

func (r TagRule) matches(tag string) bool {
	if r.constraint == nil {
		ok, err := path.Match(r.text, tag)
		return ok && err == nil
	}
	v, err := semver.NewVersion(tag)
	return err == nil && r.constraint.Check(v)
}

// Hours are a part of each day, in minutes from midnight; To may be less than From, and then it is on the next day.
type Hours struct{ From, To int }

func (h Hours) String() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", h.From/60, h.From%60, h.To/60, h.To%60)
}

// Refuses returns why no update of an image is taken, whatever its age; empty if one is.
func (r Rules) Refuses(i Image) string {
	inRegistry := func(pattern string) bool {
		name := i.Registry + "/" + i.Repository
		for ; name != "."; name = path.Dir(name) {
			if ok, err := path.Match(pattern, name); ok && err == nil {
				return true
			}
		}
		return false
	}
	if len(r.Registries) > 0 && !slices.ContainsFunc(r.Registries, inRegistry) {
		return "update-registries does not have " + i.Registry + "/" + i.Repository
	}
	if len(r.Tags) > 0 && !slices.ContainsFunc(r.Tags, func(t TagRule) bool { return t.matches(i.Tag) }) {
		return fmt.Sprintf("no rule of update-tags matches the tag %q", i.Tag)
	}
	return ""
}

// Opens returns at if updates may begin then, and otherwise the next time at which they may. The hours are those of the
// time zone of at.
func (r Rules) Opens(at time.Time) time.Time {
	if len(r.Hours) == 0 {
		return at
	}
	minute := at.Hour()*60 + at.Minute()
	var next time.Time
	for _, h := range r.Hours {
		if h.From < h.To && h.From <= minute && minute < h.To || h.From > h.To && (minute >= h.From || minute < h.To) {
			return at
		}
		for day := range 2 {
			open := time.Date(at.Year(), at.Month(), at.Day()+day, h.From/60, h.From%60, 0, 0, at.Location())
			if open.After(at) && (next.IsZero() || open.Before(next)) {
				next = open
			}
		}
	}
	return next
}

// ParseRegistries parses hosts, HOST/PATH, or patterns of them, with commas. All errors are returned.
func ParseRegistries(text string) (list []string, err error) {
	var errs []error
	for word := range words(text) {
		first, _, _ := strings.Cut(word, "/")
		_, bad := path.Match(word, "")
		switch {
		case strings.Contains(word, "://"):
			errs = append(errs, fmt.Errorf("%q is a URL, and no image is there: write the host, as in %q", word, word[strings.Index(word, "://")+3:]))
		case bad != nil || strings.ContainsAny(word, " @") || !strings.ContainsAny(first, ".:*?[") && first != "localhost":
			errs = append(errs, fmt.Errorf("%q is not the registry of any image: write a host or HOST/PATH, as in ghcr.io/team, or a pattern", word))
		case first == "localhost":
			errs = append(errs, fmt.Errorf("%q: images of localhost/ are never updated, because no registry has them", word))
		}
		list = append(list, word)
	}
	return list, errors.Join(errs...)
}

const semverPrefix = "semver:"

// tagCharacters matches a tag, or a pattern of tags.
var tagCharacters = lazy.MustCompile(`^[A-Za-z0-9_.\-*?\[\]^]{1,128}$`)

// ParseTags parses rules of tags, with commas: "stable-*, semver: ~1.4". A comma within a constraint is a blank. All errors are returned.
func ParseTags(text string) (list []TagRule, err error) {
	var errs []error
	for word := range words(text) {
		spec, versions := strings.CutPrefix(word, semverPrefix)
		if !versions {
			if _, bad := path.Match(word, ""); bad != nil || !tagCharacters.MatchString(word) {
				errs = append(errs, fmt.Errorf("%q matches no tag: write a pattern such as stable-*, or semver: ~1.4", word))
			}
			list = append(list, TagRule{text: word})
			continue
		}
		c, bad := semver.NewConstraint(strings.TrimSpace(spec))
		switch {
		case bad != nil || len(spec) > 200:
			errs = append(errs, fmt.Errorf("%q is not a constraint of versions such as semver: ~1.4 or semver: >=1.4 <2", word))
		case !satisfiable(spec, c):
			errs = append(errs, fmt.Errorf("no version matches %q, so no update could pass", word))
		}
		list = append(list, TagRule{text: word, constraint: c})
	}
	return list, errors.Join(errs...)
}

// versionNumber finds versions in a constraint.
var versionNumber = lazy.MustCompile(`[0-9]+(?:\.[0-9xX*]+){0,2}(?:-[0-9A-Za-z.-]+)?`)

// satisfiable reports whether some version matches. The versions at and next to those of the constraint are enough to
// know: in between, nothing changes.
func satisfiable(text string, c *semver.Constraints) bool {
	next := func(v semver.Version) []semver.Version {
		near := []semver.Version{v, v.IncPatch(), v.IncMinor(), v.IncMajor()}
		for _, part := range [][3]uint64{{v.Major(), v.Minor(), v.Patch() - 1}, {v.Major(), v.Minor() - 1, 1 << 30}, {v.Major() - 1, 1 << 30, 1 << 30}} {
			if part[0] < 1<<40 && part[1] < 1<<40 && part[2] < 1<<40 {
				near = append(near, *semver.New(part[0], part[1], part[2], "", ""))
			}
		}
		return near
	}
	tries := next(*semver.New(0, 0, 0, "", ""))
	for _, word := range versionNumber.FindAllString(text, -1) {
		if v, err := semver.NewVersion(strings.NewReplacer("x", "0", "X", "0", "*", "0").Replace(word)); err == nil {
			tries = append(tries, next(*v)...)
		}
	}
	return slices.ContainsFunc(tries, func(v semver.Version) bool { return c.Check(&v) })
}

// ParseHours parses parts of a day, with commas: "02:00-05:00, 22:30-23:00". All errors are returned.
func ParseHours(text string) (list []Hours, err error) {
	var errs []error
	for word := range words(text) {
		from, to, ok := strings.Cut(word, "-")
		a, err1 := minutes(from)
		b, err2 := minutes(to)
		switch {
		case !ok || err1 != nil || err2 != nil || a == 24*60:
			errs = append(errs, fmt.Errorf("%q is not a part of a day such as 02:00-05:00", word))
		case a == b:
			errs = append(errs, fmt.Errorf("%q has no minute, so no update could pass: leave the key out to allow all", word))
		}
		list = append(list, Hours{a, b})
	}
	return list, errors.Join(errs...)
}

func minutes(text string) (int, error) {
	hour, minute, ok := strings.Cut(strings.TrimSpace(text), ":")
	h, err1 := strconv.ParseUint(hour, 10, 8)
	m, err2 := strconv.ParseUint(minute, 10, 8)
	if err := errors.Join(err1, err2); err != nil || !ok || len(minute) != 2 || m > 59 || h > 24 || h == 24 && m > 0 {
		return 0, fmt.Errorf("%q is not a time of a day", text)
	}
	return int(h)*60 + int(m), nil
}

// words returns the words between commas.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for word := range strings.SplitSeq(text, ",") {
			if !yield(strings.TrimSpace(word)) {
				return
			}
		}
	}
}

// MaxAge is the longest minimum age.
const MaxAge = 365 * 24 * time.Hour

// ParseAge parses a minimum age: 0, or days or weeks with a unit, as in 3d or 2w, or a duration such as 36h. It is at most a year.
func ParseAge(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is not a time such as 36h, 3d or 2w, at most a year, or 0 for none", text)
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseUint(number, 10, 16)
			if age := time.Duration(n) * unit; err == nil && age <= MaxAge {
				return age, nil
			}
			return 0, wrong
		}
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 || age > MaxAge || age > 0 && age < time.Second {
		return 0, wrong
	}
	return age, nil
}

// FormatAge formats an age for people, in its two largest units: 3d, 2d 4h, 36m.
func FormatAge(age time.Duration) string {
	units := []struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if age < u.length {
			continue
		}
		text := fmt.Sprintf("%d%s", age/u.length, u.name)
		if i+1 < len(units) && age%u.length >= units[i+1].length {
			text += fmt.Sprintf(" %d%s", age%u.length/units[i+1].length, units[i+1].name)
		}
		return text
	}
	return "0s"
}
