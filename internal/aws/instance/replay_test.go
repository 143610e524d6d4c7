package instance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/pkg/api"
)

// The recordings are of amazon-ecs-agent 1.105.1 with a control plane that a test played. Here the
// control plane's side is played again, the containers do what they did then, and what this instance
// says is compared with what the agent of AWS said, member by member.

// line is a line of a recording: what the agent or ECS said, or a note.
type line struct {
	T                           float64 // seconds
	From, On, Op, Note, Control string
	Status                      int
	Body                        json.RawMessage
	Query, Headers              map[string]string
}

func recording(t *testing.T, name string) (out []line) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "recordings", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		out = append(out, l)
	}
	return out
}

// difference is a wanted difference from the agent of AWS.
type difference struct {
	recording string
	// what is the ARN's last digits of a task, with the number of its change from 0 on, or the ID of a
	// message. Recorded and ours are what was said; ours is empty if it is not said, recorded likewise.
	what           string
	recorded, ours string
	why            string
}

// replies are the answers to a message by its ID: types and members, in any order.
func replies(kinds []string, bodies []json.RawMessage) (id string, all []string) {
	for i, b := range bodies {
		var m map[string]any
		_ = json.Unmarshal(b, &m)
		id = fmt.Sprint(m["messageId"])
		text, _ := json.Marshal(m)
		all = append(all, kinds[i]+" "+string(text))
	}
	slices.Sort(all)
	return id, all
}

// stateText is a state in the order of its members, without what is different each time.
func stateText(body json.RawMessage) string {
	var m map[string]any
	_ = json.Unmarshal(body, &m)
	for _, name := range []string{"executionStoppedAt", "pullStartedAt", "pullStoppedAt"} {
		if m[name] != nil {
			m[name] = "TIME"
		}
	}
	delete(m, "task")
	containers, _ := m["containers"].([]any)
	var parts []string
	for _, c := range containers {
		text, _ := json.Marshal(c)
		parts = append(parts, string(text))
	}
	slices.Sort(parts)
	delete(m, "containers")
	text, _ := json.Marshal(m)
	// Podman says no address, and Docker this one.
	return strings.ReplaceAll(string(text)+" "+strings.Join(parts, " "), `"bindIP":""`, `"bindIP":"0.0.0.0"`)
}

// driveContainer has a container be as a recorded state says.
func driveContainer(t *api.Task, s wire.ContainerState, pulled bool) {
	i := slices.IndexFunc(t.Containers, func(c api.Container) bool { return c.Name == s.ContainerName })
	k := &t.Containers[i]
	k.ImageDigest, k.RuntimeID, k.Reason = s.ImageDigest, s.RuntimeID, s.Reason
	for _, b := range s.NetworkBindings {
		if p := (api.Port{ContainerPort: b.ContainerPort, HostPort: b.HostPort, Protocol: b.Protocol}); !slices.Contains(k.Ports, p) {
			k.Ports = append(k.Ports, p)
		}
	}
	if s.ExitCode != nil {
		code := api.ExitCode(*s.ExitCode)
		k.ExitCode = &code
	}
	enter(t, k.Name, map[string]string{"PENDING": "MANIFEST_PULLED", "RUNNING": "RUNNING", "STOPPED": "STOPPED"}[s.Status])
	if pulled {
		t.History = append(t.History, api.Transition{At: time.Now(), Container: k.Name, Status: "PULLED"})
	}
}

// drive has the containers of a task be as a recorded state says.
func (l *lab) drive(c wire.StateChange) {
	task := nameOf(c.Task)
	if _, err := l.agent.Task(l.t.Context(), task); err != nil {
		return // the agent was not asked for it
	}
	l.agent.step(task, func(t *api.Task) {
		if c.PullStartedAt != nil {
			for i := range t.Containers {
				if t.Containers[i].ImageSource == "" {
					t.Containers[i].ImageSource = "registry"
					t.History = append(t.History, api.Transition{At: time.Now(), Container: t.Containers[i].Name, Status: "MANIFEST_PULLED"})
				}
			}
		}
		for _, s := range c.Containers {
			driveContainer(t, s, c.PullStoppedAt != nil)
		}
		switch c.Status {
		case "RUNNING":
			if t.Status != "RUNNING" {
				<-time.After(time.Millisecond) // containers that have ended did so before
				enter(t, "", "RUNNING")
			}
			for _, s := range c.Containers { // an exit code beside RUNNING: it ended just now
				if s.Status == "RUNNING" && s.ExitCode != nil && !slices.ContainsFunc(c.Containers, func(o wire.ContainerState) bool { return o.ContainerName == s.ContainerName && o.Status == "STOPPED" }) {
					enter(t, s.ContainerName, "STOPPED")
				}
			}
		case "STOPPED":
			enter(t, "", "STOPPED")
			t.StoppedAt = time.Now()
		default:
			enter(t, "", "MANIFEST_PULLED")
		}
	})
	synctest.Wait()
}

// TestReplay compares recordings; a difference that is in the table and not found is an error.
func TestReplay(t *testing.T) {
	used := make(map[int]bool)
	t.Run("links", func(t *testing.T) { replayLinks(t, used) })
	t.Run("silence", func(t *testing.T) { replaySilence(t, used) })
	t.Run("registration", func(t *testing.T) { replayRegistration(t, used) })
	for _, name := range []string{"life", "digest", "edges", "refusals"} {
		t.Run(name, func(t *testing.T) {
			lines := recording(t, name)
			withLab(t, func(l *lab) {
				l.agent.manual, l.agent.strict = true, true
				l.config.Cleanup = 1000 * time.Hour
				l.plane.SetValue("/p", "value")
				l.replay(lines)
				l.compare(name, lines, used)
			})
		})
	}
	for i, d := range differences {
		if !used[i] {
			t.Errorf("the difference %s %s is not there", d.recording, d.what)
		}
	}
}

// replay plays the control plane and the containers.
func (l *lab) replay(lines []line) {
	l.t.Helper()
	for i, x := range lines { // answers go with the call before
		if x.From != "agent" || x.Op != "SubmitTaskStateChange" {
			continue
		}
		var c wire.StateChange
		if err := json.Unmarshal(x.Body, &c); err != nil {
			l.t.Fatal(err)
		}
		a, ok := answerTo(lines, i)
		if ok && a.Status != 200 {
			l.plane.PlanFor(c.Task, a)
		}
	}
	l.join()
	done, statuses := make(map[string]string), make(map[string]string) // the last driven state of each task
	for _, x := range lines {
		switch {
		case x.From == "ecs" && x.On == "acs" && (x.Op == "raw" || strings.HasSuffix(x.Op, "Message") || strings.HasSuffix(x.Op, "Ack")):
			text := x.Body
			if x.Op == "raw" {
				var s string
				_ = json.Unmarshal(x.Body, &s)
				text = []byte(s)
			}
			for l.plane.SayText("acs", []byte(strings.ReplaceAll(string(text), "0123456789abcdef0123456789abcdef", fmt.Sprintf("%032x", 1)))) != nil {
				l.pass(time.Second)
			}
			synctest.Wait()
		case x.From == "agent" && x.Op == "SubmitTaskStateChange":
			var c wire.StateChange
			_ = json.Unmarshal(x.Body, &c)
			text := stateText(x.Body)
			if done[c.Task] == text {
				continue // it was repeated
			}
			done[c.Task] = text
			l.drive(c)
			if c.Status == statuses[c.Task] { // single containers have changed
				l.pass(l.config.Pace.Gather + time.Second)
			}
			statuses[c.Task] = c.Status
		}
	}
	l.pass(2 * time.Hour)
}

// answerTo is the answer to the call of a line. A call without one was cut.
func answerTo(lines []line, i int) (ecsplane.Answer, bool) {
	for _, x := range lines[i+1:] {
		if x.From == "ecs" && x.On == "http" && x.Op == lines[i].Op {
			var e struct {
				Type    string `json:"__type"`
				Message string
			}
			_ = json.Unmarshal(x.Body, &e)
			return ecsplane.Answer{Status: x.Status, Type: e.Type, Message: e.Message, Cut: x.Status == 0}, true
		}
	}
	return ecsplane.Answer{}, false
}

// said is what an instance said: replies by the ID of the message, and the states of each task.
type said struct {
	replies map[string][]string
	states  map[string][]string
}

func (s *said) add(kind string, body json.RawMessage) {
	switch kind {
	case "SubmitTaskStateChange":
		var c wire.StateChange
		_ = json.Unmarshal(body, &c)
		text := stateText(body)
		task := strings.TrimLeft(c.Task[strings.LastIndexByte(c.Task, '/')+1:], "0")
		if list := s.states[task]; len(list) == 0 || list[len(list)-1] != text {
			s.states[task] = append(list, text)
		}
	case "AckRequest", "NackRequest", "HeartbeatAckRequest", "IAMRoleCredentialsAckRequest", "TaskStopVerificationMessage":
		id, all := replies([]string{kind}, []json.RawMessage{body})
		for _, r := range all {
			if !slices.Contains(s.replies[id], r) {
				s.replies[id] = append(s.replies[id], r)
			}
		}
		slices.Sort(s.replies[id])
	}
}

// compare compares what was said with what was recorded, and with the wanted differences.
func (l *lab) compare(name string, lines []line, used map[int]bool) {
	l.t.Helper()
	recorded, ours := said{make(map[string][]string), make(map[string][]string)}, said{make(map[string][]string), make(map[string][]string)}
	for _, x := range lines {
		if x.From != "agent" {
			continue
		}
		body := x.Body
		if x.On == "acs" {
			var f wire.Frame
			_ = json.Unmarshal(x.Body, &f)
			body = f.Message
		}
		recorded.add(x.Op, json.RawMessage(strings.ReplaceAll(string(body), "0123456789abcdef0123456789abcdef", fmt.Sprintf("%032x", 1))))
	}
	for _, e := range l.plane.Events() {
		ours.add(e.Op, e.Body)
	}
	report := reporter(l.t, name, used)
	for _, id := range union(recorded.replies, ours.replies) {
		report(id, strings.Join(recorded.replies[id], " "), strings.Join(ours.replies[id], " "))
	}
	for _, task := range union(recorded.states, ours.states) {
		a, b := recorded.states[task], ours.states[task]
		for i := range max(len(a), len(b)) {
			want, got := "", ""
			if i < len(a) {
				want = a[i]
			}
			if i < len(b) {
				got = b[i]
			}
			report(fmt.Sprintf("task %s, %d", task, i), want, got)
		}
	}
}

// reporter returns what looks a difference up in the table.
func reporter(t *testing.T, recording string, used map[int]bool) func(what, recorded, ours string) {
	return func(what, recorded, ours string) {
		t.Helper()
		if recorded == ours {
			return
		}
		for i, d := range differences {
			if d.recording == recording && d.what == what && d.recorded == recorded && d.ours == ours {
				used[i] = true
				return
			}
		}
		t.Errorf("{%q, %q, %q, %q, \"\"}, // not in the table of differences", recording, what, recorded, ours)
	}
}

func union(a, b map[string][]string) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
