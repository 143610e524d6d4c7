package taskdef

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Settings are settings of a command line for a document. The zero value adds nothing.
type Settings struct {
	// Vars are the values of placeholders: NAME for ${NAME} and <NAME>.
	Vars map[string]string
	// Refs maps the AWS names of the document to places on this host. A rule may match an ARN or the name of a
	// parameter, and its source is the secret, of which the document may want a JSON key; or it matches only a whole
	// valueFrom with a JSON key, and its source is that member's value.
	Refs refs.Table
	// Override changes the definition for this run; nil for none.
	Override *Override
	// Env are variables for every container. They go before those of Override, and
	// these before those of the document.
	Env []EnvVar
	// Lenient: members that neither the ECS model nor podtask knows are warnings. Without
	// it they are problems, as for AWS.
	Lenient bool
	// Without names members that the document may do without: they are removed, with a
	// warning. A name is a member, or the end of its path: linuxParameters.devices. Each
	// passes CheckWithout.
	Without []string
	// Logs selects the log drivers that send lines to servers.
	Logs LogSettings
	// Target is a launch type whose rules are applied besides; with Compatibilities, those of
	// the launch types that the document requires are too.
	Target          Target
	Compatibilities bool
	// Dir is the directory of the document, an absolute path: relative paths of environment files and of secrets start
	// there. Empty leaves them as they are.
	Dir string
	// IDs bounds the numeric users and groups of containers.
	IDs IDs
	// Copy chooses a Pod of a manifest whose controller numbers its Pods, from 0.
	Copy int
}

// IDs are the highest user and group ID that a container of this host can have; 0 for unknown.
type IDs struct{ User, Group int64 }

// Problem returns why a container of this host cannot have an ID, and how to fix it; empty if it can. Kind is "user" or "group".
func (ids IDs) Problem(kind string, id int64) (message, fix string) {
	most, file := ids.User, "/etc/subuid"
	if kind == "group" {
		most, file = ids.Group, "/etc/subgid"
	}
	if most == 0 || id <= most {
		return "", ""
	}
	return fmt.Sprintf("a container of this host cannot have the %s ID %d: %s gives you IDs up to %d in containers", kind, id, file, most), "choose one of them, or leave it out"
}

// Apply changes a task that was not made by Parse as the settings say: Override, then Env.
// The Report holds what the override says; the error is nil or an *InvalidError.
func (s Settings) Apply(name string, t Task) (Task, Report, error) {
	p := newParser(name, s, definitionTable)
	t.Containers = slices.Clone(t.Containers)
	p.override(&t)
	t = t.WithEnv(s.Env)
	report, err := p.result()
	if err != nil {
		return Task{}, report, err
	}
	return t, report, nil
}

// withSource gives v the source that is set for it.
func withSource(c cursor, v SecretValue) SecretValue {
	s := c.p.settings
	if file, ok := strings.CutPrefix(v.Source, "file:"); ok && s.Dir != "" && !path.IsAbs(file) {
		v.Source = "file:" + path.Join(s.Dir, file)
	}
	if v.Source != "" {
		return v
	}
	if found, ok := lookUp(c, refs.Secret, v.ref()); ok {
		v.Source = found.Source
		if found.Whole {
			v.JSONKey = ""
		}
	}
	return v
}

// answerSettings warns of what the command line gives and the document has no
// use for, because it may be misspelled.
func (p *parser) answerSettings(t Task) {
	for i, rule := range p.settings.Refs {
		if !rule.OneOff || p.used[i] {
			continue
		}
		name, fix := rule.Match, ""
		if volume, ok := strings.CutPrefix(rule.Match, "volume:"); ok {
			name, fix = volume, suggest.Question(volume, volumeNames(t))
		}
		p.warnings = append(p.warnings, Problem{p.name, "", 1, 1, rule.Origin + " " + quote(name) + ": the task names nothing that this answers", fix})
	}
}

// placeholder is text that stands for a value which is given elsewhere: ${NAME}
// as templates have it, <NAME> as CodePipeline has it.
var placeholder = lazy.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}|<([A-Za-z_][A-Za-z0-9_.-]*)>`)

// substitute puts the values of placeholders into every text below n. Those
// without a value stay as they are.
func (s Settings) substitute(n *doctree.Node) {
	if len(s.Vars) == 0 {
		return
	}
	if n.Kind == doctree.Text {
		n.Text = placeholder.ReplaceAllStringFunc(n.Text, func(match string) string {
			if value, ok := s.Vars[strings.Trim(match, "${}<>")]; ok {
				return value
			}
			return match
		})
	}
	for _, item := range n.Items {
		s.substitute(item)
	}
	for _, f := range n.Fields {
		s.substitute(f.Value)
	}
}

// shellWord quotes s where a shell would not take it as it is.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
