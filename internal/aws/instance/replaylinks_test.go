package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/testing/ecsplane"
)

// part is a section of a recording, which a note begins.
type part struct {
	note  string
	lines []line
}

func partsOf(lines []line) (out []part) {
	for _, x := range lines {
		if x.Note != "" {
			out = append(out, part{note: x.Note})
		} else if len(out) > 0 {
			out[len(out)-1].lines = append(out[len(out)-1].lines, x)
		}
	}
	return out
}

// masked are members of an address that are never the same.
func masked(query map[string]string) string {
	q := maps.Clone(query)
	q["agentHash"] = "HASH"
	q["dockerVersion"] = strings.TrimRight(q["dockerVersion"], "0123456789.") + "VERSION"
	for _, name := range []string{"containerInstance", "containerInstanceArn"} {
		if q[name] != "" {
			q[name] = q[name][:strings.LastIndexByte(q[name], '/')] + "/ID"
		}
	}
	text, _ := json.Marshal(q)
	return string(text)
}

// headersText are the names of the headers of a handshake, and the values that are the same each time.
func headersText(get func(string) string, names []string) string {
	slices.Sort(names)
	_, signed, _ := strings.Cut(get("Authorization"), "SignedHeaders=")
	signed, _, _ = strings.Cut(signed, ",")
	return fmt.Sprintf("%s; signed %s; User-Agent %s", strings.Join(names, " "), signed, get("User-Agent"))
}

// step says which pause of a back-off a connection came after: jitter and load only add to pauses.
func step(d time.Duration, b Backoff) string {
	if d < b.First*9/10 {
		return "at once"
	}
	n := 1
	for next := float64(b.First) * b.Factor; float64(d)*1.02 >= next; next *= b.Factor {
		n++
	}
	return fmt.Sprintf("after pause %d", n)
}

// connections collects what an instance says on a link.
type connections struct {
	out     []string
	backoff Backoff
	ended   time.Duration // when the last connection ended, or was refused
	has     bool
}

func (c *connections) connect(at time.Duration, query map[string]string) {
	how := ""
	if c.has {
		how = " " + step(at-c.ended, c.backoff)
	}
	c.out, c.has = append(c.out, "connect"+how+" "+masked(query)), false
}

func (c *connections) end(at time.Duration) { c.ended, c.has = at, true }

func backoffs() map[string]*connections {
	return map[string]*connections{"acs": {backoff: DefaultPace.ACS}, "tcs": {backoff: DefaultPace.TCS}}
}

// said returns the recorded messages of a link in a part.
func (p part) said() map[string]*connections {
	out := backoffs()
	for _, x := range p.lines {
		at := time.Duration(x.T * float64(time.Second))
		if c := out[x.On]; c != nil {
			switch {
			case x.From == "agent" && x.Op == "connect":
				c.connect(at, x.Query)
			case x.Op == "refused":
				c.end(at)
			case x.From == "agent" && strings.HasSuffix(x.Op, "AckRequest"):
				c.out = append(c.out, x.Op+" "+frameText(x.Body))
			}
		}
		if on, how, ok := strings.Cut(x.Control, " connection ended by server: "); ok && how != "" {
			out[on].end(at)
		} else if x.Op == "ended" {
			out[x.On].end(at)
		}
	}
	return out
}

func frameText(body json.RawMessage) string {
	var f wire.Frame
	_ = json.Unmarshal(body, &f)
	return messageText(f.Message)
}

func messageText(body json.RawMessage) string {
	var m map[string]any
	_ = json.Unmarshal(body, &m)
	if arn, _ := m["containerInstance"].(string); arn != "" {
		m["containerInstance"] = arn[:strings.LastIndexByte(arn, '/')] + "/ID"
	}
	text, _ := json.Marshal(m)
	return string(text)
}

// inOrder returns events with the end of each link before what happened at the same time: the control plane may note an end after
// the connection that follows it.
func inOrder(events []ecsplane.Event) []ecsplane.Event {
	slices.SortStableFunc(events, func(a, b ecsplane.Event) int {
		order := a.At.Compare(b.At)
		switch {
		case order != 0 || a.Op == b.Op:
		case a.Op == "closed":
			order = -1
		case b.Op == "closed":
			order = 1
		}
		return order
	})
	return events
}

// heard returns the messages that this instance has sent on the links since an event.
func (l *lab) heard(from int, begun time.Time) map[string]*connections {
	out := backoffs()
	for _, e := range inOrder(l.plane.Events()[from:]) {
		c, at := out[e.On], e.At.Sub(begun)
		if c == nil {
			continue
		}
		switch {
		case e.Op == "connect":
			query := make(map[string]string)
			for name := range e.Query {
				query[name] = e.Query.Get(name)
			}
			c.connect(at, query)
			c.end(at) // if it is refused
		case e.Op == "open":
			c.has = false
		case e.Op == "closed":
			c.end(at)
		case strings.HasSuffix(e.Op, "AckRequest"):
			c.out = append(c.out, e.Op+" "+messageText(e.Body))
		}
	}
	return out
}

// compareLinks compares line by line.
func compareLinks(report func(what, recorded, ours string), what string, recorded, ours map[string]*connections) {
	for _, on := range []string{"acs", "tcs"} {
		a, b := recorded[on].out, ours[on].out
		for i := range max(len(a), len(b)) {
			want, got := "", ""
			if i < len(a) {
				want = a[i]
			}
			if i < len(b) {
				got = b[i]
			}
			report(fmt.Sprintf("%s: %s %d", what, on, i), want, got)
		}
	}
}

// replayLinks ends and refuses web sockets as they were ended and refused, at the same times.
func replayLinks(t *testing.T, used map[int]bool) {
	lines := recording(t, "links")
	report := reporter(t, "links", used)
	withLab(t, func(l *lab) {
		l.agent.manual, l.agent.strict = true, true
		l.config.Pace.Idle, l.config.Pace.Life = time.Hour, 24*time.Hour // they are of the recording silence
		l.join()
		for _, x := range lines {
			if x.Headers == nil || x.Op != "connect" {
				continue
			}
			for _, e := range l.plane.Events() {
				if e.On == x.On && e.Op == "connect" {
					report("headers of "+x.On, headersText(func(name string) string { return x.Headers[name] }, slices.Collect(maps.Keys(x.Headers))),
						headersText(e.Header.Get, slices.Collect(maps.Keys(e.Header))))
				}
			}
		}
		l.pass(2 * time.Second)
		for _, p := range partsOf(lines) {
			from, begun := len(l.plane.Events()), time.Now()
			l.playLinks(p)
			compareLinks(report, p.note, p.said(), l.heard(from, begun))
		}
		recorded, ours := said{make(map[string][]string), make(map[string][]string)}, said{make(map[string][]string), make(map[string][]string)}
		for _, x := range lines {
			if x.From == "agent" && x.Op == "SubmitTaskStateChange" {
				recorded.add(x.Op, x.Body)
			}
		}
		for _, e := range l.plane.Events() {
			if e.Op == "SubmitTaskStateChange" {
				ours.add(e.Op, e.Body)
			}
		}
		for _, task := range union(recorded.states, ours.states) {
			report("task "+task, strings.Join(recorded.states[task], "\n"), strings.Join(ours.states[task], "\n"))
		}
	})
}

// playLinks plays the control plane of a part, and the containers.
func (l *lab) playLinks(p part) {
	for i, x := range p.lines { // refusals are planned when they are ordered
		if strings.HasPrefix(x.Control, "next ") {
			for _, y := range p.lines[i:] {
				if y.Op == "refused" {
					l.plane.Plan(y.On, refusalLine(y))
				}
			}
		}
	}
	last := 0.0
	for i, x := range p.lines {
		if i == 0 {
			last = x.T
		}
		if x.From == "ecs" && (x.Op == "upgraded" || x.Op == "refused") || x.From == "agent" && x.Op != "SubmitTaskStateChange" || x.From == "-" {
			continue
		}
		l.pass(time.Duration((x.T - last) * float64(time.Second)))
		last = x.T
		on, how, ended := strings.Cut(x.Control, " connection ended by server: ")
		switch {
		case ended:
			code := 0
			_, _ = fmt.Sscan(how, &code) // eof and rst are none
			l.listener.reset.Store(how == "rst")
			l.plane.End(on, code)
			synctest.Wait()
			l.listener.reset.Store(false)
		case x.From == "ecs" && x.On == "acs":
			text := strings.ReplaceAll(string(x.Body), "0123456789abcdef0123456789abcdef", fmt.Sprintf("%032x", 1))
			for l.plane.SayText("acs", []byte(text)) != nil {
				l.pass(time.Second)
			}
			synctest.Wait()
		case x.Op == "SubmitTaskStateChange" && x.From == "agent":
			var c wire.StateChange
			_ = json.Unmarshal(x.Body, &c)
			l.drive(c)
		}
	}
	l.pass(30 * time.Second) // longer than any pause
}

func refusalLine(x line) ecsplane.Answer {
	var e struct {
		Type    string
		Message struct{ Message string }
	}
	_ = json.Unmarshal(x.Body, &e)
	return ecsplane.Answer{Status: x.Status, Type: e.Type, Message: e.Message.Message}
}

// replaySilence: no heartbeat comes, only what TCS acknowledges.
func replaySilence(t *testing.T, used map[int]bool) {
	lines := recording(t, "silence")
	report := reporter(t, "silence", used)
	recorded := partsOf(lines)[0].said()
	withLab(t, func(l *lab) {
		l.start()
		l.wait("acs", "open", 1)
		begun := l.plane.Events()[0].At
		l.wait("acs", "open", len(recorded["acs"].out))
		l.pass(time.Second)
		l.kill()
		ours := l.heard(0, begun)
		compareLinks(report, "silence", recorded, ours)
		open := time.Time{}
		for _, e := range l.plane.Events() {
			switch {
			case e.On == "acs" && e.Op == "open":
				open = e.At
			case e.On == "acs" && e.Op == "closed" && len(l.plane.Of("acs", "open")) > 0:
				// The recorded ones lasted from 62 to 76 s: a minute, and up to a minute more.
				if d := e.At.Sub(open); d > 2*time.Minute {
					t.Errorf("a connection without a message lasted %s", d)
				}
			}
		}
	})
}

// registrationText is a registration without what is different each time. Attributes are compared by their number
// and by whether the user's are first: which ones this instance announces is in docs/ecs-anywhere.md.
func registrationText(body json.RawMessage, tokens map[string]string) string {
	var m map[string]any
	_ = json.Unmarshal(body, &m)
	if token, _ := m["clientToken"].(string); token != "" {
		if tokens[token] == "" {
			tokens[token] = fmt.Sprintf("TOKEN %d", len(tokens)+1)
		}
		m["clientToken"] = tokens[token]
	}
	for _, name := range []string{"containerInstanceArn", "containerInstance"} {
		if arn, _ := m[name].(string); arn != "" {
			m[name] = arn[:strings.LastIndexByte(arn, '/')] + "/ID"
		}
	}
	switch list := m["attributes"].(type) {
	case string:
		_, list, _ = strings.Cut(strings.TrimSuffix(list, ")"), ": ")
		m["attributes"] = list
	case []any:
		first, _ := list[0].(map[string]any)
		m["attributes"] = "without custom ones first"
		if first["name"] == "rack" {
			m["attributes"] = "with custom ones first"
		}
	}
	text, _ := json.Marshal(m)
	return string(text)
}

// registrationEnds says how each part of the recording ended, by the notes that follow it and what exit codes of the
// agent mean: 5 is an end that a restart does not repair.
var registrationEnds = map[string]string{
	"registration: InvalidParameterException":                                       "fatal",
	"registration: ThrottlingException four times":                                  "runs",
	"registration: ClientException with the ARN of before":                          "fatal",
	"start with another cluster and the state of before: no call":                   "fatal",
	"registration: AccessDeniedException":                                           "fails",
	"registration: ServerException four times":                                      "runs",
	"registration: cluster not named and not there (CreateCluster is refused)":      "fatal",
	"registration: an attribute is missing in the answer":                           "fatal",
	"registration: only a container instance ARN in the answer, of another cluster": "fatal",
}

// replayRegistration registers under each of the recorded answers.
func replayRegistration(t *testing.T, used map[int]bool) {
	report := reporter(t, "registration", used)
	withLab(t, func(l *lab) {
		l.config.Attributes = []wire.Attribute{{Name: "rack", Value: "a1"}}
		l.config.Tags = []wire.Tag{{Key: "owner", Value: "lab"}}
		dir := l.config.Dir
		for n, p := range partsOf(recording(t, "registration")) {
			want, known := registrationEnds[p.note]
			if !known {
				continue // the notes of exit codes, and no credentials: the program's tests have that
			}
			if !strings.Contains(p.note, "of before") {
				l.config.Dir = filepath.Join(dir, fmt.Sprint(n))
			}
			l.config.Cluster = "lab"
			switch {
			case strings.Contains(p.note, "another cluster and"):
				l.config.Cluster = "other"
			case strings.Contains(p.note, "not named"):
				l.config.Cluster = ""
			}
			from, tokens := len(l.plane.Events()), make(map[string]string)
			recorded := l.planRegistration(p, want)
			end := l.register(want)
			var ours []string
			for _, e := range l.plane.Events()[from:] {
				if e.On == "http" {
					ours = append(ours, e.Op+" "+registrationText(e.Body, tokens))
				}
			}
			for i := range max(len(recorded), len(ours)) {
				a, b := "", ""
				if i < len(recorded) {
					a = recorded[i]
				}
				if i < len(ours) {
					b = ours[i]
				}
				report(fmt.Sprintf("%s: %d", p.note, i), a, b)
			}
			report(p.note+": end", want, end)
		}
	})
}

// planRegistration plans the answers of a part, and returns what was recorded of the agent.
func (l *lab) planRegistration(p part, end string) (recorded []string) {
	tokens := make(map[string]string)
	for _, x := range p.lines {
		switch {
		case x.On != "http":
		case x.From == "agent":
			recorded = append(recorded, x.Op+" "+registrationText(x.Body, tokens))
		case x.Status != 200:
			var e struct {
				Type    string `json:"__type"`
				Message string
			}
			_ = json.Unmarshal(x.Body, &e)
			l.plane.Plan(x.Op, ecsplane.Answer{Status: x.Status, Type: e.Type, Message: e.Message})
		case end == "fatal":
			l.plane.Plan(x.Op, ecsplane.Answer{Status: 200, Body: string(x.Body)})
		}
	}
	return recorded
}

// register starts the instance, and returns how that ended: it runs, fails, or cannot run before the user has
// changed something.
func (l *lab) register(want string) (end string) {
	l.err = nil
	l.start()
	defer l.kill()
	if want == "runs" {
		l.wait("http", "DiscoverPollEndpoint", len(l.plane.Of("http", "DiscoverPollEndpoint"))+1)
		synctest.Wait()
	} else {
		l.pass(time.Minute)
	}
	select {
	case <-l.finished:
		if errors.As(l.err, new(*FatalError)) {
			return "fatal"
		}
		return "fails"
	default:
		return "runs"
	}
}
