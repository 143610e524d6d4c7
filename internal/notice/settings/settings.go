package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/notice/deliver"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Rule is a table [[notify]].
type Rule struct {
	notice.Rule
	Target deliver.Target
	// Place is FILE:LINE.
	Place string
}

// Load reads the rules of all files. The error is a *config.InvalidError with all problems.
func Load(src config.Source) ([]Rule, error) {
	tables, err := config.Tables(src, config.NotifyTable)
	if err != nil {
		return nil, err
	}
	return Parse(tables)
}

// Notices returns the part of the rules that decides.
func Notices(all []Rule) (rules []notice.Rule) {
	for _, r := range all {
		rules = append(rules, r.Rule)
	}
	return rules
}

// members are the keys of a [[notify]].
var members = []string{"name", "on", "task", "service", "schedule", "stack", "tag", "to", "format", "key", "token", "user", "password", "from", "recipients", "resolved"}

// Parse makes rules of tables. The error is a *config.InvalidError with all problems.
func Parse(tables []config.Table) (rules []Rule, err error) {
	var problems []config.Problem
	names := map[string]string{}
	for _, t := range tables {
		p := parser{table: t, lines: map[string]int{}}
		r := p.rule()
		if first, taken := names[r.Name]; taken {
			p.wrong("name", "%q is the name of the [[notify]] at %s: choose another one", r.Name, first)
		} else if r.Name != "" {
			names[r.Name] = r.Place
		}
		problems = append(problems, p.problems...)
		rules = append(rules, r)
	}
	if len(problems) > 0 {
		return nil, &config.InvalidError{Problems: problems}
	}
	return rules, nil
}

// parser reads one table.
type parser struct {
	table    config.Table
	lines    map[string]int
	problems []config.Problem
}

// wrong reports a problem of a member, or of the table.
func (p *parser) wrong(member, format string, args ...any) {
	line := cmp.Or(p.lines[member], p.table.Line)
	p.problems = append(p.problems, config.Problem{File: p.table.File, Line: line, Key: config.NotifyTable, Message: fmt.Sprintf(strings.TrimSpace(member+" "+format), args...)})
}

var validName = lazy.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)

func (p *parser) rule() Rule {
	given := map[string]any{}
	for _, m := range p.table.Members {
		p.lines[m.Name] = m.Line
		if !slices.Contains(members, m.Name) {
			hint := cmp.Or(suggest.Question(m.Name, members), "docs/notices.md lists those of [[notify]]")
			p.wrong(m.Name, "is unknown; %s", hint)
			continue
		}
		given[m.Name] = m.Value
	}
	r := Rule{Place: fmt.Sprintf("%s:%d", p.table.File, p.table.Line)}
	r.Name = p.text(given, "name")
	switch {
	case given["name"] == nil:
		p.wrong("name", "is missing: write a name for `podtask notify test NAME`")
	case !validName.MatchString(r.Name):
		p.wrong("name", "has 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or a digit: not %q", r.Name)
	}
	r.On = p.conditions(given)
	for name, to := range map[string]*[]string{"task": &r.Tasks, "service": &r.Services, "schedule": &r.Schedules, "stack": &r.Stacks, "tag": &r.Tags} {
		*to = p.filter(given, name)
	}
	if v, ok := given["resolved"]; ok {
		resolved, is := v.(bool)
		if !is {
			p.wrong("resolved", "must be true or false")
		}
		r.Quiet = !resolved
	}
	if why := r.Never(); why != "" {
		p.wrong("", "%s", why)
	}
	r.Target = p.target(given)
	p.reachable(r)
	slices.SortStableFunc(p.problems, func(a, b config.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return r
}

func (p *parser) text(given map[string]any, name string) string {
	v, ok := given[name]
	text, is := v.(string)
	if ok && (!is || text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })) {
		p.wrong(name, "must be text of one line in double quotes")
		return ""
	}
	return text
}

// list is a list of texts, or one of them.
func (p *parser) list(given map[string]any, name string) (all []string) {
	v, ok := given[name]
	if !ok {
		return nil
	}
	items, is := v.([]any)
	if !is {
		items = []any{v}
	}
	for _, item := range items {
		text, is := item.(string)
		if !is || text == "" {
			p.wrong(name, "must be a list of texts, such as [\"a\", \"b\"]")
			return nil
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		p.wrong(name, "is empty: leave it out, or name something")
	}
	return all
}

func (p *parser) conditions(given map[string]any) (on []notice.Condition) {
	if given["on"] == nil {
		p.wrong("on", "is missing: write what you want to hear of, such as on = [\"failed\", \"unhealthy\"]")
		return nil
	}
	known := notice.Conditions()
	for _, text := range p.list(given, "on") {
		switch {
		case !slices.Contains(known, text):
			p.wrong("on", "has the unknown condition %q; %s", text, cmp.Or(suggest.Question(text, known), "there are "+strings.Join(known, ", ")))
		case slices.Contains(on, notice.Condition(text)):
			p.wrong("on", "has %s twice", text)
		default:
			on = append(on, notice.Condition(text))
		}
	}
	return on
}

func (p *parser) filter(given map[string]any, name string) []string {
	all := p.list(given, name)
	for _, text := range all {
		if name == "tag" {
			if key, _, _ := strings.Cut(text, "="); key == "" {
				p.wrong(name, "%q is not KEY or KEY=VALUE", text)
			}
			continue
		}
		if _, err := path.Match(text, ""); err != nil {
			p.wrong(name, "has the invalid pattern %q: close its bracket", text)
		}
		if strings.ContainsAny(text, "/ \t") {
			p.wrong(name, "%q matches no name: names have letters, digits, dots, dashes and underscores", text)
		}
	}
	return all
}

// target reads where notices go.
func (p *parser) target(given map[string]any) (t deliver.Target) {
	secret := func(name string) string {
		text := p.text(given, name)
		if text == "" {
			return ""
		}
		source, err := secretsource.Parse(text)
		if err != nil {
			p.wrong(name, "is where the secret is kept, such as file:/PATH or podman:NAME: %v", plain(err))
			return ""
		}
		return source.String()
	}
	t.Format, t.Key, t.Token = p.text(given, "format"), secret("key"), secret("token")
	password := secret("password")
	if t.Format != "" && !slices.Contains(deliver.Formats, t.Format) {
		p.wrong("format", "%q is unknown; %s", t.Format, cmp.Or(suggest.Question(t.Format, deliver.Formats), "there are "+strings.Join(deliver.Formats, ", ")))
	}
	to, isText := given["to"].(string)
	switch {
	case given["to"] == nil:
		p.wrong("to", "is missing, so the notice reaches nobody: write a URL, smtp://HOST:PORT, file:/PATH with a secret URL, or [\"/PROGRAM\", ...]")
		return t
	case !isText:
		t.Command = p.list(given, "to")
		if len(t.Command) > 0 && !filepath.IsAbs(t.Command[0]) {
			p.wrong("to", "names the program %q: it must be an absolute path", t.Command[0])
		}
		p.without(given, "a program", "format", "key", "token", "password", "user", "from", "recipients")
	case strings.HasPrefix(to, "smtp://") || strings.HasPrefix(to, "smtps://"):
		t.Mail = p.mail(given, to, password)
		p.without(given, "mail", "format", "key", "token")
	case strings.Contains(to, "://"):
		t.URL = to
		if err := deliver.CheckURL(to, t.Token != ""); err != nil {
			p.wrong("to", "%v", err)
		}
		p.without(given, "a webhook", "password", "user", "from", "recipients")
	default:
		t.URLFrom = secret("to")
		p.without(given, "a webhook", "password", "user", "from", "recipients")
	}
	if t.Kind() == "webhook" && t.Format == "" {
		t.Format = "json"
	}
	return t
}

// plain is an error without the word that it begins with.
func plain(err error) string {
	if e, ok := errors.AsType[*secretsource.Error](err); ok {
		return strings.TrimSpace(e.Message + "; " + e.Hint)
	}
	return err.Error()
}

// without reports members that a target does not have.
func (p *parser) without(given map[string]any, what string, names ...string) {
	for _, name := range names {
		if given[name] != nil {
			p.wrong(name, "means nothing to %s: remove it", what)
		}
	}
}

func (p *parser) mail(given map[string]any, to, password string) *deliver.Mail {
	m := &deliver.Mail{From: p.address(given, "from"), User: p.text(given, "user"), Password: password}
	u, err := url.Parse(to)
	if err != nil || u.Hostname() == "" || u.Path != "" || u.User != nil || u.RawQuery != "" {
		p.wrong("to", "must be smtp://HOST:PORT or smtps://HOST:PORT; user and password are keys of their own")
		return m
	}
	m.Secure = u.Scheme == "smtps"
	port := cmp.Or(u.Port(), map[bool]string{true: "465", false: "587"}[m.Secure])
	m.Server = net.JoinHostPort(u.Hostname(), port)
	if (m.User == "") != (given["password"] == nil) {
		p.wrong("password", "and user belong together: write both or none")
	}
	if given["recipients"] == nil {
		p.wrong("recipients", "is missing, so the notice reaches nobody: write recipients = [\"you@example.com\"]")
	}
	for _, text := range p.list(given, "recipients") {
		if !validAddress(text) {
			p.wrong("recipients", "has %q, which is no mail address", text)
		}
		m.Recipients = append(m.Recipients, text)
	}
	return m
}

func (p *parser) address(given map[string]any, name string) string {
	text := p.text(given, name)
	switch {
	case given[name] == nil:
		p.wrong(name, "is missing: write the address that sends, such as podtask@example.com")
	case text != "" && !validAddress(text):
		p.wrong(name, "%q is no mail address", text)
	}
	return text
}

func validAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text
}

// reachable reports what keeps a notice from being sent when it is wanted.
func (p *parser) reachable(r Rule) {
	if !slices.Contains(r.On, notice.PodmanAway) {
		return
	}
	for name, source := range map[string]string{"to": r.Target.URLFrom, "key": r.Target.Key, "token": r.Target.Token} {
		if strings.HasPrefix(source, "podman:") {
			p.wrong(name, "is kept by Podman, which does not answer when podman-away is to be told: write file:/PATH")
		}
	}
	if r.Target.Mail != nil && strings.HasPrefix(r.Target.Mail.Password, "podman:") {
		p.wrong("password", "is kept by Podman, which does not answer when podman-away is to be told: write file:/PATH")
	}
}
