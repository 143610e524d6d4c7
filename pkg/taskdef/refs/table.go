package refs

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// Rule maps the references that match a pattern to a place on this host.
type Rule struct {
	// Match is a pattern: * stands for any text, ? for any character.
	Match string
	// Stage and Version are those a reference must ask for; empty for any.
	Stage, Version string
	// Source is KIND:NAME. {0} in it stands for the spelling that Match matched, {1} to {9}
	// for the texts of its wildcards. A tree: has the place of the reference added to it.
	Source string
	// Command is a program with arguments, each of which may have such words; it is in place
	// of Source.
	Command []string
	// Origin is the place of the rule: FILE:LINE, a flag, or a member of a request.
	Origin string
	// OneOff: the rule is for one task, which is warned about if it has no use for it.
	OneOff bool
}

// Table is a list of rules; the first that matches answers a reference.
type Table []Rule

// Answer is the result of looking up a reference.
type Answer struct {
	// Source is KIND:NAME, without wildcards.
	Source string
	// Whole: the source holds the selected part itself (Reference.Whole).
	Whole bool
	// Rule is the index of the rule.
	Rule int
}

// Find returns the answer of the first rule that matches.
func (t Table) Find(r Reference) (Answer, bool) {
	for i, rule := range t {
		if rule.Stage != "" && rule.Stage != stageOf(r) || rule.Version != "" && rule.Version != r.Version || !strings.HasPrefix(rule.Match, r.only) {
			continue
		}
		for _, name := range r.Names {
			if texts, ok := match(rule.Match, name); ok {
				return Answer{rule.source(name, texts, r.Place), false, i}, true
			}
		}
		if texts, ok := match(rule.Match, r.Whole); ok && r.Whole != "" && rule.Source != awsSource {
			return Answer{rule.source(r.Whole, texts, r.Place), true, i}, true
		}
	}
	return Answer{}, false
}

// stageOf is the stage that a reference gets on AWS.
func stageOf(r Reference) string {
	if r.Stage == "" && r.Version == "" {
		return "AWSCURRENT"
	}
	return r.Stage
}

const treePrefix = "tree:"

// awsSource stands for AWS itself: the name that was matched is added to it.
const awsSource = "aws:"

// Text writes the source as it is given on a command line.
func (r Rule) Text() string {
	if len(r.Command) == 0 {
		return r.Source
	}
	return commandText(r.Command)
}

func commandText(argv []string) string {
	list, _ := json.Marshal(argv) // a list of strings
	return "command:" + string(list)
}

// Sample returns a source of the first rule, with plain words for what its pattern would
// match.
func (t Table) Sample() string {
	texts := make([]string, 9)
	for i := range texts {
		texts[i] = "x"
	}
	return t[0].source("x", texts, "x")
}

// source fills in what was matched, and the place in a tree.
func (r Rule) source(name string, texts []string, place string) string {
	pairs := []string{"{0}", name}
	for i, text := range texts {
		pairs = append(pairs, "{"+strconv.Itoa(i+1)+"}", text)
	}
	fill := strings.NewReplacer(pairs...)
	if len(r.Command) > 0 {
		argv := make([]string, len(r.Command))
		for i, word := range r.Command {
			argv[i] = fill.Replace(word)
		}
		return commandText(argv)
	}
	s := r.Source
	if strings.Contains(r.Match, "*") || strings.Contains(r.Match, "?") {
		s = fill.Replace(s)
	}
	if s == awsSource {
		s += name
	}
	if strings.HasPrefix(s, treePrefix) {
		s += ":" + place
	}
	return s
}

// match reports whether a pattern matches all of a name, and what its wildcards stand for.
func match(pattern, name string) (texts []string, ok bool) {
	if !strings.ContainsAny(pattern, "*?") {
		return nil, pattern == name
	}
	var b strings.Builder
	b.WriteString("(?s)^")
	for _, r := range pattern {
		switch r {
		case '*':
			b.WriteString("(.*)")
		case '?':
			b.WriteString("(.)")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteByte('$')
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, pattern == name // not valid UTF-8, or too long for a pattern
	}
	m := re.FindStringSubmatch(name)
	if m == nil {
		return nil, false
	}
	return m[1:min(len(m), 10)], true
}

// SplitTree divides tree:/ROOT:PLACE. Ok is false for any other text.
func SplitTree(source string) (root, place string, ok bool) {
	rest, isTree := strings.CutPrefix(source, treePrefix)
	if !isTree {
		return "", "", false
	}
	root, place, ok = strings.Cut(rest, ":")
	return root, place, ok && strings.HasPrefix(root, "/") && place != ""
}
