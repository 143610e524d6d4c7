package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
)

// field is a field of a cron expression, with values from low to high.
type field struct {
	name      string
	low, high int
	words     []string // the names of the values from low on
}

var (
	months    = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	weekdays  = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
	dayNames  = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}
	minute    = field{"minutes", 0, 59, nil}
	hour      = field{"hours", 0, 23, nil}
	dayOfMon  = field{"day-of-month", 1, 31, nil}
	month     = field{"month", 1, 12, months}
	cronDay   = field{"day-of-week", 0, 7, weekdays} // 0 and 7 are Sunday
	bridgeDay = field{"day-of-week", 1, 7, weekdays} // 1 is Sunday
	year      = field{"year", 1970, 2199, nil}
)

// set is the values of a field; all is what "*" means.
type set struct {
	values []int
	all    bool
}

// parse reads a list of values, ranges and steps, such as "1-5,10/2". Both EventBridge and Kubernetes read a/n as
// from a to the highest value.
func (f field) parse(text string) (s set, err error) {
	in := make(map[int]bool)
	for _, item := range strings.Split(text, ",") {
		span, step, stepped := strings.Cut(item, "/")
		n := 1
		if stepped {
			if n, err = strconv.Atoi(step); err != nil || n < 1 || n > f.high {
				return s, fmt.Errorf("%s %q: a step is a number from 1 to %d", f.name, item, f.high)
			}
		}
		low, high := f.low, f.high
		if span != "*" && span != "?" {
			first, last, ranged := strings.Cut(span, "-")
			if low, err = f.value(first); err != nil {
				return s, err
			}
			switch {
			case ranged:
				if high, err = f.value(last); err != nil {
					return s, err
				}
			case !stepped:
				high = low
			}
			if high < low {
				return s, fmt.Errorf("%s %q: the range ends before it begins", f.name, item)
			}
		} else if n == 1 {
			s.all = true
		}
		for v := low; v <= high; v += n {
			in[v] = true
		}
	}
	for v := f.low; v <= f.high; v++ {
		if in[v] {
			s.values = append(s.values, v)
		}
	}
	return s, nil
}

func (f field) value(text string) (int, error) {
	if i := slices.Index(f.words, strings.ToUpper(text)); i >= 0 {
		return f.low + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.high {
		return 0, fmt.Errorf("%s %q: values are %d to %d", f.name, text, f.low, f.high)
	}
	return n, nil
}

// text writes a set as systemd does: runs of three and more are ranges.
func (s set) text(width int) string {
	if s.all {
		return "*"
	}
	var parts []string
	for i := 0; i < len(s.values); {
		j := i
		for j+1 < len(s.values) && s.values[j+1] == s.values[j]+1 {
			j++
		}
		if j-i < 2 {
			j = i
			parts = append(parts, fmt.Sprintf("%0*d", width, s.values[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%0*d..%0*d", width, s.values[i], width, s.values[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// days writes weekdays, the first of which is Sunday.
func (s set) days(low int) string {
	var names []string
	for _, v := range s.values {
		if name := dayNames[(v-low)%7]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 7 {
		return ""
	}
	return strings.Join(names, ",") + " "
}

// macros are the names of cron expressions that Kubernetes knows, too.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// cronField is one field of a cron expression: numbers, names, lists, ranges and steps.
var cronField = lazy.MustCompile(`^[0-9A-Za-z*?,/-]+$`)

// IsCron reports whether a text has the form of a cron expression: five fields, or a name such as @daily. No calendar
// event of systemd has either form.
func IsCron(text string) bool {
	words := strings.Fields(text)
	if len(words) == 1 {
		return strings.HasPrefix(words[0], "@")
	}
	return len(words) == 5 && !slices.ContainsFunc(words, func(w string) bool { return !cronField.MatchString(w) })
}

// Cron converts the five fields of a CronJob, or a name such as @daily. If both days are restricted, either will do,
// which makes two events.
func Cron(text string) ([]string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "@") {
		known, ok := macros[text]
		if !ok {
			return nil, fmt.Errorf("schedule %q: @yearly, @monthly, @weekly, @daily and @hourly are known", text)
		}
		text = known
	}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return nil, fmt.Errorf("schedule %q: the time zone is spec.timeZone, not a part of the schedule", text)
	}
	words := strings.Fields(text)
	if len(words) != 5 {
		return nil, fmt.Errorf("schedule %q has %d fields, not 5: minute, hour, day of the month, month, day of the week", text, len(words))
	}
	var sets [5]set
	var errs []error
	for i, f := range []field{minute, hour, dayOfMon, month, cronDay} {
		var err error
		sets[i], err = f.parse(words[i])
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	clock := sets[1].text(2) + ":" + sets[0].text(2) + ":00"
	dates := func(days, date string) string { return days + "*-" + sets[3].text(2) + "-" + date + " " + clock }
	if !sets[2].all && !sets[4].all {
		return []string{dates("", sets[2].text(2)), dates(sets[4].days(0), "*")}, nil
	}
	return []string{dates(sets[4].days(0), sets[2].text(2))}, nil
}

var (
	bridgeForm = lazy.MustCompile(`^(rate|cron|at)\((.*)\)$`)
	atForm     = lazy.MustCompile(`^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)$`)
	lastForm   = lazy.MustCompile(`^L(?:-(\d{1,2}))?$`)
	lastDay    = lazy.MustCompile(`^([1-7]|[A-Za-z]{3})L$`)
	nthDay     = lazy.MustCompile(`^([1-7]|[A-Za-z]{3})#([1-5])$`)
)

// IsEventBridge reports whether a text has the form of an expression of EventBridge.
func IsEventBridge(text string) bool { return bridgeForm.MatchString(strings.TrimSpace(text)) }

// Once returns the time of at(), read in UTC; false for another expression.
func Once(text string) (time.Time, bool) {
	found := bridgeForm.FindStringSubmatch(strings.TrimSpace(text))
	if found == nil || found[1] != "at" {
		return time.Time{}, false
	}
	t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSpace(found[2]))
	return t, err == nil
}

// EventBridge converts rate(), cron() and at(). Their time zone is UTC unless a schedule has another.
func EventBridge(text string) ([]string, error) {
	found := bridgeForm.FindStringSubmatch(strings.TrimSpace(text))
	if found == nil {
		return nil, fmt.Errorf("%q is none of rate(), cron() and at()", text)
	}
	var event string
	var err error
	switch body := strings.TrimSpace(found[2]); found[1] {
	case "rate":
		event, err = rate(body)
	case "cron":
		event, err = bridgeCron(body)
	default:
		at := atForm.FindStringSubmatch(body)
		if at == nil {
			err = errors.New("a time is written as in at(2026-11-26T03:00:00)")
		} else {
			event = at[1] + " " + at[2]
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return []string{event}, nil
}

// rate converts those rates that divide an hour or a day: other ones have no times of their own.
func rate(body string) (string, error) {
	words := strings.Fields(body)
	if len(words) != 2 {
		return "", errors.New("a rate is a number and a unit, as in rate(5 minutes)")
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 1 {
		return "", fmt.Errorf("the value %q is not a positive number", words[0])
	}
	unit := strings.TrimSuffix(words[1], "s")
	if !slices.Contains([]string{"minute", "hour", "day"}, unit) || (n == 1) != (unit == words[1]) {
		return "", fmt.Errorf("the unit %q is not minute, hour or day for 1, and minutes, hours or days for more", words[1])
	}
	if unit == "minute" && n%60 == 0 {
		n, unit = n/60, "hour"
	}
	if unit == "hour" && n%24 == 0 {
		n, unit = n/24, "day"
	}
	switch {
	case unit == "minute" && 60%n == 0:
		return fmt.Sprintf("*-*-* *:00/%d:00", n), nil
	case unit == "hour" && 24%n == 0:
		return fmt.Sprintf("*-*-* 00/%d:00:00", n), nil
	case unit == "day" && n == 1:
		return "*-*-* 00:00:00", nil
	}
	return "", errors.New("systemd has no times for a rate that divides neither an hour nor a day: use cron()")
}

// bridgeCron converts the six fields of EventBridge, one of whose days is "?".
func bridgeCron(body string) (string, error) {
	words := strings.Fields(body)
	if len(words) != 6 {
		return "", fmt.Errorf("there are %d fields, not 6: minutes, hours, day-of-month, month, day-of-week, year", len(words))
	}
	if (words[2] == "?") == (words[4] == "?") {
		return "", errors.New("one of day-of-month and day-of-week is ?, and the other is not")
	}
	var errs []error
	parse := func(f field, text string) set {
		s, err := f.parse(text)
		errs = append(errs, err)
		return s
	}
	clock := parse(hour, words[1]).text(2) + ":" + parse(minute, words[0]).text(2) + ":00"
	date, days := "-*", ""
	switch dom, dow := words[2], words[4]; {
	case strings.Contains(strings.ToUpper(dom), "W"):
		errs = append(errs, fmt.Errorf("day-of-month %q: systemd has no weekday that is nearest to a day (W)", dom))
	case lastForm.MatchString(dom):
		before, _ := strconv.Atoi(lastForm.FindStringSubmatch(dom)[1])
		if before > 27 {
			errs = append(errs, fmt.Errorf("day-of-month %q: at most L-27", dom))
		}
		date = fmt.Sprintf("~%02d", before+1)
	case dom != "?":
		date = "-" + parse(dayOfMon, dom).text(2)
	case dow == "L":
		days = "Sat "
	case lastDay.MatchString(dow):
		days, date = parse(bridgeDay, lastDay.FindStringSubmatch(dow)[1]).days(1), "~07/1"
	case nthDay.MatchString(dow):
		found := nthDay.FindStringSubmatch(dow)
		n, _ := strconv.Atoi(found[2])
		days, date = parse(bridgeDay, found[1]).days(1), fmt.Sprintf("-%02d..%02d", 7*n-6, min(7*n, 31))
	default:
		days = parse(bridgeDay, dow).days(1)
	}
	event := days + parse(year, words[5]).text(4) + "-" + parse(month, words[3]).text(2) + date + " " + clock
	return event, errors.Join(errs...)
}
