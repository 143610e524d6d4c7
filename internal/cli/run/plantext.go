package run

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/taskdef"
)

// writeText prints the plan for people. Sections without content are left out.
func (pl plan) writeText(w io.Writer, on console.Colors) error {
	t := planText{on: on}
	t.line(on.Paint(console.Bold, "TASK "+pl.Family) + "   " + pl.summary())
	t.section("START", startRows(pl))
	t.section("LIMITS", limitRows(pl))
	t.section("ULIMITS", ulimitRows(pl))
	t.section("SLICE", sliceRows(pl))
	t.section("PORTS", portRows(pl))
	t.section("ADDRESSES OF A SERVICE", addressRows(pl))
	t.section("NAMES", nameRows(pl))
	t.section("MOUNTS", mountRows(pl))
	t.section("ENVIRONMENT FILES", envFileRows(pl))
	t.section("SECRETS", secretRows(pl))
	t.section("LOGS", logRows(pl))
	t.section("REFERENCES", referenceRows(pl))
	t.section("STOP", stopRows(pl))
	t.problems("WARNINGS", pl.Warnings)
	t.problems("NEEDS", pl.Needs)
	_, err := io.WriteString(w, t.String())
	return err
}

// planText has the sections of the text, each a table below a heading.
type planText struct {
	strings.Builder
	on console.Colors
}

func (t *planText) line(s string) { t.WriteString(strings.TrimRight(s, " ") + "\n") }

func (t *planText) section(heading string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	t.line("\n" + t.on.Paint(console.Bold, heading))
	widths := make([]int, 0, 8)
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(console.Pad(cell, widths[i]) + "   ")
		}
		t.line("  " + b.String())
	}
}

func (t *planText) problems(heading string, problems []taskdef.Problem) {
	var rows [][]string
	for _, p := range problems {
		rows = append(rows, []string{p.String()})
	}
	t.section(heading, rows)
}

func logRows(pl plan) (rows [][]string) {
	for _, l := range pl.Logs {
		rows = append(rows, []string{l.Container, l.Destination})
	}
	return rows
}

func (pl plan) summary() string {
	s := "network " + pl.NetworkMode
	for _, m := range []struct{ name, value string }{{"PID namespace", pl.PIDMode}, {"IPC namespace", pl.IPCMode}} {
		if m.value != "" {
			s += fmt.Sprintf(", %s of the %s", m.name, m.value)
		}
	}
	return s + ", " + command.Plural(len(pl.Containers), "container")
}

func startRows(pl plan) [][]string {
	var rows [][]string
	for i, level := range pl.StartLevels {
		for _, name := range level {
			c := pl.container(name)
			rows = append(rows, []string{strconv.Itoa(i + 1), name, c.shortImage(), pl.notes(c)})
		}
	}
	return rows
}

// shortImage returns the image with at most twelve digits of its digest; "?" for a placeholder.
func (c planContainer) shortImage() string {
	name, digest, pinned := strings.Cut(c.Image, "@")
	switch {
	case name == "":
		return "?"
	case pinned:
		return name + "@" + console.ShortDigest(digest)
	case c.Digest != "":
		return name + "@" + console.ShortDigest(c.Digest)
	}
	return name
}

// notes describes how a container starts and ends.
func (pl plan) notes(c planContainer) string {
	var notes []string
	var waits []string
	for _, d := range c.DependsOn {
		waits = append(waits, d.words())
	}
	if len(waits) > 0 {
		notes = append(notes, "after "+strings.Join(waits, " and "))
	}
	if c.Signature != "" && c.Signature != images.AnyImage {
		notes = append(notes, "signature: "+c.Signature)
	}
	if !c.Essential {
		notes = append(notes, "not essential")
	}
	if c.Restart {
		notes = append(notes, "restarted when it ends")
	}
	return strings.Join(notes, "; ")
}

func limitRows(pl plan) [][]string {
	rows := [][]string{{"", "CPU LIMIT", "CPU SHARE", "MEMORY LIMIT", "RESERVED", "SWAP"}}
	for _, c := range pl.Containers {
		share := strconv.FormatInt(c.CPUShares, 10)
		rows = append(rows, []string{c.Name, vcpu(c.CPULimit), share, command.Size(c.Memory), command.Size(c.MemoryReservation), c.swap()})
	}
	return rows
}

// sliceRows returns the limits of the whole task, as properties of systemd and in words.
func sliceRows(pl plan) [][]string {
	var rows [][]string
	for _, p := range pl.Slice {
		value, _ := p.Value.(uint64)
		var words string
		switch {
		case p.Name == "CPUQuotaPerSecUSec":
			words = vcpu(float64(value) / 1e6)
		case strings.HasPrefix(p.Name, "Memory"):
			words = command.Size(int64(value))
		case strings.HasSuffix(p.Name, "USec"):
			words = fmt.Sprintf("%d ms", value/1000)
		}
		rows = append(rows, []string{fmt.Sprintf("%s=%d", p.Name, value), words})
	}
	return rows
}

// swap returns the swap limit of the container; "-" is the default of the host.
func (c planContainer) swap() string {
	switch {
	case c.MaxSwap == nil:
		return "-"
	case *c.MaxSwap == 0:
		return "none"
	}
	return command.Size(*c.MaxSwap)
}

func vcpu(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + " vCPU"
}

func portRows(pl plan) [][]string {
	var rows [][]string
	for _, p := range pl.Ports {
		rows = append(rows, []string{p.host(), "-> " + p.Container, p.inside(), p.Name})
	}
	return rows
}

func addressRows(pl plan) (rows [][]string) {
	for _, a := range pl.Addresses {
		var notes []string
		switch a.Certificate {
		case "":
		case ofManifest:
			notes = append(notes, "certificate in the manifest")
		default:
			notes = append(notes, "certificate "+a.Certificate)
		}
		if a.Protocol != "" {
			notes = append(notes, a.Protocol)
		}
		if a.Auth != "" {
			notes = append(notes, "users of "+a.Auth)
		}
		rows = append(rows, []string{a.URL, "-> " + a.Container, strconv.Itoa(int(a.ContainerPort)), term.Line(strings.Join(notes, ", "))})
	}
	return rows
}

func nameRows(pl plan) [][]string {
	if pl.Namespace == "" {
		return nil
	}
	return [][]string{{"those of the services in the namespace " + pl.Namespace}}
}

func mountRows(pl plan) [][]string {
	var rows [][]string
	for _, m := range pl.Mounts {
		from := map[string]string{
			"bind": "path " + m.Source, "task": "volume " + m.Volume + ", removed with the task", "shared": "volume " + m.Volume + ", kept",
			"remote": "volume " + m.Volume + ", not mapped yet", "tmpfs": "memory, " + command.Size(m.Size),
		}[m.Kind]
		mode := ""
		if m.ReadOnly {
			mode = "read-only"
		}
		rows = append(rows, []string{m.Container, m.Path, "<- " + term.Line(from), mode})
	}
	return rows
}

func secretRows(pl plan) [][]string {
	var rows [][]string
	for _, s := range pl.Secrets {
		to, from := "$"+s.Variable, s.Source
		switch {
		case s.Login:
			to = "login of the registry"
		case s.Variable == "":
			to = s.Path
		}
		if from == "" {
			from = "not mapped yet"
		}
		if s.JSONKey != "" {
			from += ", its " + strconv.Quote(s.JSONKey)
		}
		rows = append(rows, []string{s.Container, term.Line(to), "<- " + term.Line(from)})
	}
	return rows
}

func stopRows(pl plan) [][]string {
	var turns []string
	for _, level := range pl.StopLevels {
		turns = append(turns, strings.Join(level, " and "))
	}
	return [][]string{{strings.Join(turns, ", then ")}, {"takes at most " + pl.stopBound().String()}}
}

func ulimitRows(pl plan) [][]string {
	var rows [][]string
	for _, l := range pl.Ulimits {
		rows = append(rows, []string{l.Container, l.Name, noLimit(l.Soft), noLimit(l.Hard)})
	}
	if rows == nil {
		return nil
	}
	return append([][]string{{"", "", "SOFT", "HARD"}}, rows...)
}

func noLimit(n int64) string {
	if n == -1 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}

func envFileRows(pl plan) [][]string {
	var rows [][]string
	for _, f := range pl.EnvFiles {
		rows = append(rows, []string{f.Container, "<- " + term.Line(cmp.Or(f.Path, f.Source, "not mapped yet"))})
	}
	return rows
}

func referenceRows(pl plan) [][]string {
	var rows [][]string
	for _, r := range pl.References {
		from, where := "<- "+term.Line(r.Source), r.Origin
		if r.Source == "" {
			from, where = "nothing answers it: add "+term.Line(r.Add), ""
		}
		rows = append(rows, []string{string(r.Kind), term.Line(r.Reference), from, where})
	}
	return rows
}
