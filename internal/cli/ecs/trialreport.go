package ecs

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is the report of a trial in Markdown. It has nothing that names the account, the host or the user, and no secret.
func (t *trial) report(began time.Time, failed error, left []error) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Trial of podtask on Amazon ECS\n\npodtask %s, %s/%s, region %s, %s, %s\n\n", t.version, runtime.GOOS, runtime.GOARCH, t.region,
		began.UTC().Format(time.DateOnly), time.Since(began).Round(time.Second))
	fmt.Fprint(&b, "| task | expected | answered | seconds | |\n|---|---|---|---|---|\n")
	for _, r := range t.results {
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %s |\n", r.name, r.expected, strings.ReplaceAll(t.clean(r.answer), "|", "/"), r.took.Seconds(), r.verdict())
	}
	if failed != nil {
		fmt.Fprintf(&b, "\nThe trial ended early: %s\n", t.clean(failed.Error()))
	}
	if len(left) == 0 {
		fmt.Fprint(&b, "\nEverything was removed.\n")
	}
	for _, err := range left {
		fmt.Fprintf(&b, "\n%s\n", t.clean(err.Error()))
	}
	if t.instance.process != nil {
		fmt.Fprintf(&b, "\nThe last lines of podtask-ecs:\n\n```\n%s\n```\n", strings.TrimSpace(t.clean(t.instance.process.lines.String())))
	}
	return []byte(b.String())
}

// private are the patterns that a report must not have, whatever AWS and podtask-ecs have said, each with a word in its place.
var private = []struct {
	is   *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\b(AKIA|ASIA|AROA|AIDA)[A-Z0-9]+\b`), "KEY"},
	{regexp.MustCompile(`\bmi-[0-9a-f]+`), "mi-ID"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{32,}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9]{12}\b`), "ACCOUNT"},
	{regexp.MustCompile(`\b[0-9]{1,3}(\.[0-9]{1,3}){3}\b`), "ADDRESS"},
	{regexp.MustCompile(`(?i)(token|signature|credential|secret|code)=[^\s&,"]+`), "$1=HIDDEN"},
	{regexp.MustCompile(`(assumed-role|user)/[^\s"]+`), "$1/NAME"},
}

// clean is a text without what a report must not have.
func (t *trial) clean(text string) string {
	hide := []string{t.secret, t.known["$ACTIVATION_CODE"], t.known["$ACTIVATION_ID"]}
	if host, err := os.Hostname(); err == nil {
		hide = append(hide, host)
	}
	if home, err := os.UserHomeDir(); err == nil {
		hide = append(hide, home)
	}
	if u, err := user.Current(); err == nil && u.Username != "root" { // messages have that word
		hide = append(hide, u.Username)
	}
	slices.SortFunc(hide, func(a, b string) int { return len(b) - len(a) })
	for _, h := range hide {
		if len(h) > 2 && !strings.Contains(t.name, h) { // a user named podtask is no secret
			text = strings.ReplaceAll(text, h, "HIDDEN")
		}
	}
	for _, p := range private {
		text = p.is.ReplaceAllString(text, p.name)
	}
	return text
}
