package ecs

import (
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/term"
)

// report is the report of a trial in Markdown. It has nothing that names the account, the host or the user, and no secret.
func (t *trial) report(began time.Time, failed error, left []error) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Trial of podtask on Amazon ECS\n\npodtask %s, %s/%s, region %s, %s, %s\n\n", t.version, runtime.GOOS, runtime.GOARCH, t.region,
		began.UTC().Format(time.DateOnly), time.Since(began).Round(time.Second))
	fmt.Fprint(&b, "| task | expected | answered | seconds | |\n|---|---|---|---|---|\n")
	for _, r := range t.results {
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %s |\n", r.name, r.expected, cell(t.clean(r.answer)), r.took.Seconds(), r.verdict())
	}
	if failed != nil {
		fmt.Fprintf(&b, "\nThe trial ended early: %s\n", cell(t.clean(failed.Error())))
	}
	if len(left) == 0 {
		fmt.Fprint(&b, "\nEverything was removed.\n")
	}
	for _, err := range left {
		fmt.Fprintf(&b, "\n%s\n", cell(t.clean(err.Error())))
	}
	if t.instance.process != nil {
		fmt.Fprintf(&b, "\nThe last lines of podtask-ecs:\n\n```\n%s\n```\n", strings.TrimSpace(fence.ReplaceAllString(term.Lines(t.clean(t.instance.process.lines.String())), "")))
	}
	return []byte(b.String())
}

// private are the patterns that a report must not have, whatever AWS and podtask-ecs have said, each with a word in its place.
var private = []struct {
	is   *lazy.Regexp
	name string
}{
	{lazy.MustCompile(`\b(AKIA|ASIA|AROA|AIDA)[A-Z0-9]+\b`), "KEY"},
	{lazy.MustCompile(`\bmi-[0-9a-f]+`), "mi-ID"},
	{lazy.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UUID"},
	{lazy.MustCompile(`(?i)[0-9a-f]{32,}`), "ID"},
	{lazy.MustCompile(`[0-9]{4}-?[0-9]{4}-?[0-9]{4,}`), "ACCOUNT"},
	{lazy.MustCompile(`[0-9]{1,3}(\.[0-9]{1,3}){3}`), "ADDRESS"},
	{lazy.MustCompile(`(?i)\b[0-9a-f]{0,4}(:[0-9a-f]{0,4}){3,7}`), "ADDRESS"},
	{lazy.MustCompile(`(?i)\bBearer +\S+`), "Bearer HIDDEN"},
	{lazy.MustCompile(`(?i)(token|signature|credential|secret|password|key)("?\s*[=:]\s*"?)[^\s&,"]+`), "$1${2}HIDDEN"},
	{lazy.MustCompile(`(?i)code=[^\s&,"]+`), "code=HIDDEN"},
	{lazy.MustCompile(`(assumed-role|user)/[^\s"]+`), "$1/NAME"},
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
	return longWords.ReplaceAllStringFunc(text, func(word string) string {
		if strings.ContainsAny(word, digits) && strings.ToLower(word) != word && strings.ToUpper(word) != word {
			return "HIDDEN"
		}
		return word
	})
}

const digits = "0123456789"

// longWords matches words that are as long as keys and tokens are; those have letters of both cases and digits.
var longWords = lazy.MustCompile(`[A-Za-z0-9+/_=]{30,}`)

// fence matches the signs that end a block of code.
var fence = lazy.MustCompile("(`|~){3,}")

// cell is a text as one line in which Markdown has no meaning.
func cell(text string) string {
	return strings.NewReplacer("|", "/", "<", "(", ">", ")", "`", "'", "[", "(", "]", ")", "@", " at ").Replace(term.Line(strings.Join(strings.Fields(text), " ")))
}
