package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/internal/host/secretsource/awsvalues"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// References says where this host keeps what definitions name on AWS.
type References struct {
	// Table holds the rules of all files; those of a later file are in front.
	Table refs.Table
	// Timeout limits the time that a program may take to print a value.
	Timeout time.Duration
	// AWSHelper is a program that prints the credentials for the source aws:, AWSEndpoint a
	// URL; empty for those of the environment and for Amazon's.
	AWSHelper   []string
	AWSEndpoint string

	from *Source // of Load; nil if no files were read
}

// Rules returns the table as the files are now, with the entries of map-secret-file in front.
// The error names file and line.
func (s *Settings) Rules() (refs.Table, error) {
	table := s.References.Table
	if s.References.from != nil {
		now, err := Load(*s.References.from)
		if err != nil {
			return nil, err
		}
		table = now.References.Table
	}
	if s.Paths.MapSecretFile == "" {
		return table, nil
	}
	text, err := readAll(s.Paths.MapSecretFile)
	if err != nil {
		return nil, fmt.Errorf("read the map of secrets (map-secret-file): %w", err)
	}
	known, err := parseSecretMap(s.Paths.MapSecretFile, text)
	return slices.Concat(known, table), err
}

// NewRule checks a pattern and its source, and returns the rule. A source of the kind file
// must be an absolute path.
func NewRule(match, source, origin string) (refs.Rule, error) {
	r := refs.Rule{Match: match, Source: source, Origin: origin}
	if line, ok := strings.CutPrefix(source, string(secretsource.Command)+":"); ok {
		parsed, err := secretsource.Parse(string(secretsource.Command) + ":" + line)
		if err != nil {
			return r, err
		}
		r.Source, r.Command = "", append([]string{parsed.Name}, parsed.Args...)
	}
	return r, checkRule(r)
}

const (
	maxPattern  = 1024
	sourceKinds = "file:/PATH, podman:NAME, env:NAME, credential:NAME, command:/PROGRAM ARGUMENT..., tree:/DIRECTORY or aws:; for a Lambda function or an alarm, an http:// or https:// URL; for a registry of Cloud Map, name:HOST-NAME"
)

func checkRule(r refs.Rule) error {
	switch {
	case r.Match == "":
		return errors.New("match is missing: write an ARN, the name of a parameter, or a pattern with *")
	case len(r.Match) > maxPattern:
		return fmt.Errorf("match has more than %d bytes", maxPattern)
	case r.Source == "" && len(r.Command) == 0:
		return fmt.Errorf("source is missing: write %s", sourceKinds)
	case r.Source != "" && len(r.Command) > 0:
		return errors.New("source and command are both given: keep one of them")
	case strings.HasPrefix(r.Source, "aws:") && !awsvalues.Built:
		return awsvalues.ErrNotBuilt
	}
	if len(r.Command) > 0 && !filepath.IsAbs(r.Command[0]) {
		return fmt.Errorf("the program of a command must be an absolute path, not %q", r.Command[0])
	}
	// Any text may stand for a wildcard: a plain one shows whether the rest is right.
	source := refs.Table{r}.Sample()
	if isURL(source) {
		return checkURL(r, source)
	}
	if name, ok := strings.CutPrefix(source, refs.NameSource); ok {
		return checkNameSource(r, name)
	}
	if kind, _, ok := strings.Cut(source, ":"); !ok || !slices.Contains([]string{"file", "podman", "env", "credential", "tree", "command", "aws"}, kind) {
		return fmt.Errorf("%q is not a source: write %s", r.Source, sourceKinds)
	}
	_, err := secretsource.Parse(source)
	return err
}

func isURL(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}

// registries matches the patterns that a host name may answer.
var registries = lazy.MustCompile(`^arn:[a-z-]+:servicediscovery:`)

func checkNameSource(r refs.Rule, name string) error {
	switch {
	case name == "":
		return errors.New("the source name: has no host name: write name:orders.shop")
	case !registries.MatchString(r.Match):
		return errors.New("a host name answers only registries of Cloud Map (match = \"arn:aws:servicediscovery:...\")")
	}
	return nil
}

// callable matches the patterns that an HTTP endpoint may answer.
var callable = lazy.MustCompile(`^(arn:[a-z-]+:lambda:|alarm:)`)

// checkURL checks the HTTP endpoint of a rule.
func checkURL(r refs.Rule, source string) error {
	u, err := url.Parse(source)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is not a URL", r.Source)
	case u.User != nil:
		return errors.New("a URL with a user or a password would be in the records of services: let the endpoint do without, or write a command")
	case !callable.MatchString(r.Match):
		return errors.New("an HTTP endpoint answers only Lambda functions (match = \"arn:aws:lambda:...\") and alarms (match = \"alarm:...\")")
	}
	return nil
}

// queryOf returns the URL of a query of a Prometheus server.
func queryOf(server, query string) (string, error) {
	if !isURL(server) {
		return "", errors.New("query needs the URL of a Prometheus server as source, as in http://127.0.0.1:9090")
	}
	return strings.TrimSuffix(server, "/") + "/api/v1/query?query=" + url.QueryEscape(query), nil
}

// rulesOf reads the tables [[reference]] of a file. Lines are those of their headers.
func rulesOf(values map[string]any, lines []int, file string) (table refs.Table, problems []Problem) {
	list, _ := values[referenceTable].([]any)
	for i, item := range list {
		line := 0
		if i < len(lines) {
			line = lines[i]
		}
		members, _ := item.(map[string]any)
		rule, err := ruleOf(members, file+":"+strconv.Itoa(line))
		if err != nil {
			problems = append(problems, Problem{Line: line, Key: referenceTable, Message: err.Error()})
			continue
		}
		table = append(table, rule)
	}
	return table, problems
}

const referenceTable = "reference"

// ruleMembers are those of a [[reference]].
var ruleMembers = []string{"match", "source", "query", "command", "stage", "version"}

func ruleOf(members map[string]any, origin string) (refs.Rule, error) {
	text := make(map[string]string)
	var command []string
	var wrong []string
	for name, value := range members {
		words, isList := value.([]any)
		s, isText := value.(string)
		switch {
		case !slices.Contains(ruleMembers, name):
			w := "unknown member " + name
			if question := suggest.Question(name, ruleMembers); question != "" {
				w += ", " + question
			}
			wrong = append(wrong, w)
		case name == "command" && isList:
			for _, w := range words {
				word, ok := w.(string)
				if !ok {
					wrong = append(wrong, "command must be a list of strings")
					break
				}
				command = append(command, word)
			}
		case name == "command":
			wrong = append(wrong, "command must be a list of strings, a program and its arguments")
		case !isText:
			wrong = append(wrong, name+" must be a string")
		default:
			text[name] = s
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return refs.Rule{}, errors.New(strings.Join(wrong, "; "))
	}
	rule := refs.Rule{Match: text["match"], Source: text["source"], Origin: origin, Command: command}
	if query := text["query"]; query != "" {
		var err error
		if text["source"], err = queryOf(text["source"], query); err != nil {
			return rule, err
		}
	}
	if command == nil {
		var err error
		if rule, err = NewRule(text["match"], text["source"], origin); err != nil {
			return rule, err
		}
	}
	rule.Stage, rule.Version = text["stage"], text["version"]
	return rule, checkRule(rule)
}

// readAll reads a file of a size that a configuration may have.
func readAll(name string) (string, error) {
	text, err := readText(name)
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("%s has more than %d bytes", name, maxText)
	}
	return string(text), err
}

// parseSecretMap reads lines of ARN=SOURCE. Blank lines and those that begin with # are
// skipped; a relative path of a source starts in the directory of the file. The error names
// the line.
func parseSecretMap(file, text string) (refs.Table, error) {
	var table refs.Table
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, source, ok := strings.Cut(line, "=")
		id, source = strings.TrimSpace(id), strings.TrimSpace(source)
		if !ok || id == "" || source == "" {
			return nil, fmt.Errorf("%s:%d: write ARN=SOURCE", file, n)
		}
		if slices.ContainsFunc(table, func(r refs.Rule) bool { return r.Match == id }) {
			return nil, fmt.Errorf("%s:%d: %q is given twice", file, n, id)
		}
		if path, ok := strings.CutPrefix(source, "file:"); ok && path != "" && !filepath.IsAbs(path) {
			source = "file:" + filepath.Join(filepath.Dir(file), path)
		}
		rule, err := NewRule(id, source, file+":"+strconv.Itoa(n))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		table = append(table, rule)
	}
	return table, nil
}
