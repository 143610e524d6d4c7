package calendar

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// check asks systemd whether it takes an event, where systemd is.
func check(t *testing.T, event string) {
	t.Helper()
	if program, err := exec.LookPath("systemd-analyze"); err == nil {
		if out, err := exec.Command(program, "calendar", "--", event).CombinedOutput(); err != nil {
			t.Errorf("systemd does not take %q: %s", event, out)
		}
	}
}

func TestCron(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"0 3 * * 1-5":         {"Mon,Tue,Wed,Thu,Fri *-*-* 03:00:00"},
		"*/15 * * * *":        {"*-*-* *:00,15,30,45:00"},
		"5/20 0 1,15 * *":     {"*-*-01,15 00:05,25,45:00"},
		"0 0 1 * mon":         {"*-*-01 00:00:00", "Mon *-*-* 00:00:00"}, // either day
		"0 0 */2 * 0":         {"*-*-01,03,05,07,09,11,13,15,17,19,21,23,25,27,29,31 00:00:00", "Sun *-*-* 00:00:00"},
		"0 0 * * 0,7":         {"Sun *-*-* 00:00:00"},
		"0 0 * * 0-6":         {"*-*-* 00:00:00"},
		"30 9-17 * jan-mar ?": {"*-01..03-* 09..17:30:00"},
		"@hourly":             {"*-*-* *:00:00"},
		"@weekly":             {"Sun *-*-* 00:00:00"},
	} {
		got, err := Cron(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
		for _, event := range got {
			check(t, event)
		}
	}
	for text, want := range map[string]string{
		"": "0 fields", "* * * *": "4 fields", "60 * * * *": "minutes", "* * * foo *": "month", "*/0 * * * *": "step", "5-1 * * * *": "ends before", "@reboot": "are known", "TZ=UTC 0 0 * * *": "spec.timeZone",
		"61 25 * * *": "hours",
	} {
		if got, err := Cron(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %s", text, got, err, want)
		}
	}
}

// Five fields are cron's, whatever is in them; calendar events of systemd are not.
func TestFormsOfCron(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"0 3 * * *": true, "61 * * * *": true, " */5  * ? JAN-MAR mon,2 ": true, "@daily": true, "@reboot": true,
		"daily": false, "Mon..Fri 03:00": false, "Mon *-*-* 03:00:00 UTC": false, "* * * *": false, "0 3 * * * *": false, "Mon *-*-* 03:00 Europe/Berlin x": false, "": false,
	} {
		if got := IsCron(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestEventBridge(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rate(1 minute)":               "*-*-* *:00/1:00",
		"rate(5 minutes)":              "*-*-* *:00/5:00",
		"rate(120 minutes)":            "*-*-* 00/2:00:00",
		"rate(1 day)":                  "*-*-* 00:00:00",
		"rate(24 hours)":               "*-*-* 00:00:00",
		"cron(0 12 * * ? *)":           "*-*-* 12:00:00",
		"cron(15 10 ? * 6L 2026-2028)": "Fri 2026..2028-*~07/1 10:15:00",
		"cron(0 18 ? * MON-FRI *)":     "Mon,Tue,Wed,Thu,Fri *-*-* 18:00:00",
		"cron(0 8 L * ? *)":            "*-*~01 08:00:00",
		"cron(0 8 L-2 JAN,JUL ? *)":    "*-01,07~03 08:00:00",
		"cron(0/30 8 ? * 3#2 *)":       "Tue *-*-08..14 08:00,30:00",
		"cron(0 0 ? * 1 *)":            "Sun *-*-* 00:00:00",
		"at(2026-11-26T03:00:00)":      "2026-11-26 03:00:00",
	} {
		got, err := EventBridge(text)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
			continue
		}
		check(t, got[0])
	}
	for text, want := range map[string]string{
		"rate(7 minutes)": "neither an hour nor a day", "rate(2 days)": "neither an hour", "rate(1 minutes)": "unit", "rate(0 minutes)": "positive", "rate(5)": "a number and a unit",
		"cron(0 12 * * * *)": "is ?", "cron(0 12 ? * ? *)": "is ?", "cron(0 12 15W * ? *)": "nearest", "cron(0 12 * * ?)": "5 fields", "cron(0 12 ? * 8 *)": "day-of-week", "at(tomorrow)": "at(2026",
		"cron(60 24 ? * 2 *)": "minutes", "daily": "none of",
	} {
		if got, err := EventBridge(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %s", text, got, err, want)
		}
	}
}

// What is converted has one line and no characters that mean something in a unit file.
func FuzzConvert(f *testing.F) {
	for _, seed := range []string{"0 3 * * 1-5", "cron(0/30 8 ? * 3#2 *)", "rate(5 minutes)", "at(2026-11-26T03:00:00)", "*/7 1-3/2 L * SUN"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, convert := range []func(string) ([]string, error){Cron, EventBridge} {
			events, err := convert(text)
			if err != nil {
				continue
			}
			for _, e := range events {
				if strings.ContainsFunc(e, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune("%\\\"'#;", r) }) || e == "" {
					t.Errorf("%q becomes %q", text, e)
				}
			}
		}
	})
}
