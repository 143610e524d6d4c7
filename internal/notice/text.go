package notice

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Title is the message as one sentence.
func (m Message) Title() string {
	f, _ := FactOf(m.Condition)
	if m.Test {
		return "podtask can reach you"
	}
	words := f.Bad
	if m.Well {
		words = f.Well
	}
	text := m.who() + " " + words
	if m.Count > 1 {
		text += fmt.Sprintf(", and %d other notices", m.Count-1)
	}
	return text
}

// who names what the message is about.
func (m Message) who() string {
	name := m.About.Name
	switch {
	case m.About.Service != "":
		name = "service " + m.About.Service
	case m.About.Schedule != "":
		name = "schedule " + m.About.Schedule
	case m.Condition == PodmanAway:
		return "Podman"
	case m.About.Kind == Host:
		return name
	case m.About.Kind == Task:
		if name == "" {
			name = m.About.Family
		}
		name = "task " + name
	default:
		name = string(m.About.Kind) + " " + name
	}
	if m.About.Container != "" {
		name = "container " + m.About.Container + " of " + name
	}
	return name
}

// maxReason limits the bytes of a reason: programs print what they like.
const maxReason = 500

// Text is the message as a few lines without markup.
func (m Message) Text(host string) string {
	lines := []string{m.Title()}
	if m.Reason != "" && !m.Well {
		lines = append(lines, Short(m.Reason))
	}
	if m.ExitCode != nil && !m.Well {
		lines = append(lines, "exit code "+strconv.Itoa(*m.ExitCode))
	}
	for _, o := range m.Others {
		lines = append(lines, "- "+o)
	}
	if more := m.Count - 1 - len(m.Others); m.Count > 1 && more > 0 {
		lines = append(lines, fmt.Sprintf("- and %d more", more))
	}
	if m.About.Task != "" && !m.Well {
		lines = append(lines, "podtask why "+m.About.Task)
	}
	return strings.Join(append(lines, host+", "+m.At.UTC().Format(time.RFC3339)), "\n")
}

// Short is a text from elsewhere as one line that is not too long.
func Short(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }), " ")
	text = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) { // it has no width, or changes the order of the text around it
			return -1
		}
		return r
	}, text)
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
