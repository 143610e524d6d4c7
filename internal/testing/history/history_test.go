package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/history"
)

// A step of a test is "CLIENT REQUEST" or "CLIENT ANSWER"; a request without an answer has lost it.
func replay(t *testing.T, steps ...string) *history.Recorder {
	t.Helper()
	r := new(history.Recorder)
	type pending struct{ answered, done chan struct{} }
	waiting := map[string]pending{}
	answers := map[string]string{}
	for i, s := range steps {
		client, text, _ := strings.Cut(s, " ")
		if p, ok := waiting[client]; ok {
			answers[client] = text
			close(p.answered)
			<-p.done
			delete(waiting, client)
			continue
		}
		p, sent := pending{make(chan struct{}), make(chan struct{})}, make(chan struct{})
		lost := !contains(steps[i+1:], client)
		go func() {
			defer close(p.done)
			r.Do(int(client[0]-'a'), request(text), func() (history.Answer, bool) {
				close(sent)
				if lost {
					return history.Answer{Lost: true}, true
				}
				<-p.answered
				return answer(answers[client]), true
			})
		}()
		<-sent
		if lost {
			<-p.done
			continue
		}
		waiting[client] = p
	}
	return r
}

func contains(steps []string, client string) bool {
	for _, s := range steps {
		if strings.HasPrefix(s, client+" ") {
			return true
		}
	}
	return false
}

// request reads "VERB [VALUE]"; the value of stop and look is a task, if it begins with #.
func request(text string) history.Request {
	verb, value, _ := strings.Cut(text, " ")
	q := history.Request{Of: "it", Do: verb, Value: value}
	if strings.HasPrefix(value, "#") {
		q.Task, q.Value = value, ""
	}
	return q
}

// answer reads "no REFUSAL", or "[STATUS] [VALUE or #TASK] [down]".
func answer(text string) (a history.Answer) {
	if refused, ok := strings.CutPrefix(text, "no "); ok {
		return history.Answer{Refused: refused}
	}
	text, a.Down = strings.CutSuffix(text, " down")
	a.Status, a.Value, _ = strings.Cut(text, " ")
	if strings.HasPrefix(a.Value, "#") {
		a.Task, a.Value = a.Value, ""
	}
	return a
}

func TestWhatAnAgentMayAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		model history.Model
		steps string
		// cannot is the answer that cannot be; empty: all can.
		cannot string
	}{
		"one after the other":                      {history.Services, "a create 1/a ok/a update 2/a ok/a look/a ACTIVE 2/a delete/a ok/a look/a DRAINING/a look/a INACTIVE/a create 3/a ok/a look/a ACTIVE 3", ""},
		"a look at the same time sees either":      {history.Services, "a create 1/a ok/a update 2/b look/b ACTIVE 1/c look/c ACTIVE 2/a ok", ""},
		"and then not the earlier one":             {history.Services, "a create 1/a ok/a update 2/b look/b ACTIVE 2/c look/c ACTIVE 1/a ok", "look: ACTIVE 1"},
		"an update that is done is seen":           {history.Services, "a create 1/a ok/a update 2/a ok/b look/b ACTIVE 1", "look: ACTIVE 1"},
		"an update that is lost is seen or not":    {history.Services, "a create 1/a ok/b update 2/a look/a ACTIVE 1/a look/a ACTIVE 2", ""},
		"and does not go away":                     {history.Services, "a create 1/a ok/b update 2/a look/a ACTIVE 2/a look/a ACTIVE 1", "look: ACTIVE 1"},
		"a creation that is lost and repeated":     {history.Services, "b create 1/a create 1/a no there is one/a look/a ACTIVE 1", ""},
		"two creations":                            {history.Services, "a create 1/a ok/a create 1/a ok", "create 1: ok"},
		"a deletion that is undone":                {history.Services, "a create 1/a ok/a delete/a ok/a look/a ACTIVE 1", "look: ACTIVE 1"},
		"a service that comes back":                {history.Services, "a create 1/a ok/a delete/a ok/a look/a INACTIVE/a look/a DRAINING", "look: DRAINING"},
		"a service that is forgotten":              {history.Services, "a create 1/a ok/a look/a no not found", "look: not found"},
		"a service that nobody has made":           {history.Services, "a look/a no not found/a look/a ACTIVE 1", "look: ACTIVE 1"},
		"an update of one that drains":             {history.Services, "a create 1/a ok/a delete/a ok/a update 2/a no not active", ""},
		"an update of one that is there":           {history.Services, "a create 1/a ok/a update 2/a no not active", "update 2: not active"},
		"a task from its start to its end":         {history.Tasks, "a run/a ok #1/a look #1/a PENDING/a look #1/a RUNNING/a stop #1/a ok/a look #1/a STOPPING down/a look #1/a STOPPED down/b run/b ok #1", ""},
		"a token that gives two tasks":             {history.Tasks, "a run/a ok #1/a run/a ok #2", "run: ok #2"},
		"a task that nobody knows":                 {history.Tasks, "a run/a ok #1/a look #1/a no not found", "look #1: not found"},
		"a task that runs again":                   {history.Tasks, "a run/a ok #1/a look #1/a STOPPED down/b look #1/b RUNNING", "look #1: RUNNING"},
		"a stop that is forgotten":                 {history.Tasks, "a run/a ok #1/a stop #1/a ok/a look #1/a RUNNING", "look #1: RUNNING"},
		"a stop that is lost is seen or not":       {history.Tasks, "a run/a ok #1/b stop #1/a look #1/a RUNNING/a look #1/a STOPPING down", ""},
		"a stop that is done while somebody looks": {history.Tasks, "a run/a ok #1/a stop #1/b look #1/b RUNNING/a ok", ""},
	} {
		err := replay(t, strings.Split(tt.steps, "/")...).Check(tt.model, time.Minute)
		if (err == nil) != (tt.cannot == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			continue
		}
		if text := err.Error(); !strings.Contains(text, tt.cannot) || strings.Count(text, "cannot be") != 1 {
			t.Errorf("%s: it says\n%s", name, text)
		}
		for line := range strings.Lines(err.Error()) {
			if strings.Contains(line, "cannot be") && !strings.Contains(line, tt.cannot+"   <--") {
				t.Errorf("%s: it marks %s", name, line)
			}
		}
	}
}

func TestWhatDidNotReachTheAgentIsNotRecorded(t *testing.T) {
	t.Parallel()
	r := new(history.Recorder)
	r.Do(0, history.Request{Of: "it", Do: history.Create}, func() (history.Answer, bool) { return history.Answer{}, false })
	r.Do(0, history.Request{Of: "it", Do: history.Create}, func() (history.Answer, bool) { return history.Answer{Lost: true}, true })
	if all, lost := r.Count(); all != 1 || lost != 1 {
		t.Errorf("%d requests, %d without an answer", all, lost)
	}
}
