package instance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/testing/ecsplane"
)

// chaos plays a control plane that repeats, reorders, cuts and refuses, a process that is killed, an
// agent that goes away and a disk that is full.
type chaos struct {
	*lab
	random *rand.Rand
	tasks  int
	// sent are the tasks that ECS has sent at least once, messages those of each message.
	sent     []int
	messages [][]int
	// steps are how far the containers of each task are: 0 not begun to 3 ended.
	steps map[int]int
}

// step does one thing at random.
func (c *chaos) step() {
	c.t.Helper()
	switch c.random.IntN(14) {
	case 0, 1: // one to three tasks, known ones too
		var list []int
		for range 1 + c.random.IntN(3) {
			n := 1 + c.random.IntN(c.tasks)
			list = append(list, n)
			if !slices.Contains(c.sent, n) {
				c.sent = append(c.sent, n)
			}
		}
		c.messages = append(c.messages, list)
		c.say(len(c.messages) - 1)
	case 2: // an earlier message again
		if len(c.messages) > 0 && c.random.IntN(2) == 0 {
			c.say(c.random.IntN(len(c.messages)))
		}
	case 3:
		c.plane.End("acs", []int{0, 1000, 1008, 4000}[c.random.IntN(4)])
	case 4:
		n := 1 + c.random.IntN(c.tasks)
		for range 1 + c.random.IntN(4) {
			c.plane.PlanFor(ecsplane.TaskARN(n), []ecsplane.Answer{
				{Status: 400, Type: "ThrottlingException", Message: "x"}, {Status: 400, Type: "AccessDeniedException", Message: "x"}, {Status: 503}, {Cut: true},
			}[c.random.IntN(4)])
		}
	case 5:
		c.kill()
		c.start()
	case 6:
		c.agent.setAway(c.random.IntN(2) == 0)
	case 7:
		c.disk.setFull(c.random.IntN(3) == 0)
	case 8:
		c.plane.Plan("acs", ecsplane.Answer{Status: []int{403, 429, 500}[c.random.IntN(3)]})
	case 9:
		c.pass(time.Duration(c.random.IntN(120)) * time.Second)
	default:
		c.advance(1 + c.random.IntN(c.tasks))
	}
	synctest.Wait()
}

// advance has a task that the agent knows go on.
func (c *chaos) advance(n int) {
	c.agent.mu.Lock()
	known := c.agent.find(name(n)) != nil
	c.agent.mu.Unlock()
	if !known {
		return
	}
	switch c.steps[n] {
	case 0:
		c.agent.resolve(name(n))
	case 1:
		c.agent.runs(name(n))
	case 2:
		c.agent.end(name(n), n%3)
	default:
		return
	}
	c.steps[n]++
}

// say sends a message; the link may be away.
func (c *chaos) say(i int) {
	var list []any
	for _, n := range c.messages[i] {
		list = append(list, simple(n))
	}
	_ = c.plane.Payload(fmt.Sprintf("payload-%d", i), c.random.IntN(i+2), list...)
	synctest.Wait()
}

// unacknowledged are the messages without an ack.
func (c *chaos) unacknowledged() (out []int) {
	acks := c.plane.Of("acs", "AckRequest")
	for i := range c.messages {
		id := fmt.Sprintf(`"messageId":"payload-%d"`, i)
		if !slices.ContainsFunc(acks, func(a json.RawMessage) bool { return strings.Contains(string(a), id) }) {
			out = append(out, i)
		}
	}
	return out
}

// heal ends all trouble, and brings all tasks that ECS sent to their ends. What was not acknowledged ECS
// sends again, and nothing else.
func (c *chaos) heal() {
	c.disk.setFull(false)
	c.agent.setAway(false)
	select {
	case <-c.finished: // a full disk ended it
		c.kill()
		c.start()
	default:
	}
	c.pass(10 * time.Minute)
	for range 100 {
		for _, i := range c.unacknowledged() {
			c.say(i)
		}
		c.pass(time.Second)
	}
	if left := c.unacknowledged(); len(left) > 0 {
		c.t.Errorf("the messages %v were never acknowledged", left)
	}
	c.pass(10 * time.Minute)
	for range 3 {
		for _, n := range c.sent {
			c.advance(n)
		}
		c.pass(5 * time.Minute)
	}
}

// check checks what ECS was told, and that the agent was asked once for each task.
func (c *chaos) check() {
	c.t.Helper()
	for _, n := range c.sent {
		// A state may be told again if its acceptance was not noted; another one never comes between.
		var told []string
		for _, e := range c.plane.Events() {
			if e.Op != "SubmitTaskStateChange" || e.Planned {
				continue
			}
			if s := decode(c.t, e.Body); s.Task == ecsplane.TaskARN(n) {
				told = append(told, s.Status)
			}
		}
		if got := slices.Compact(slices.Clone(told)); !slices.Equal(got, []string{"PENDING", "RUNNING", "STOPPED"}) {
			c.t.Errorf("task %d: %v", n, told)
		}
		made := 0
		for _, m := range c.agent.made {
			if m.Name == name(n) {
				made++
			}
		}
		if made != 1 {
			c.t.Errorf("the agent made task %d %d times", n, made)
		}
	}
}

func TestStatesAreToldInOrderWhateverHappens(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withLab(t, func(l *lab) {
				l.config.Cleanup = 1000 * time.Hour
				l.join()
				c := &chaos{lab: l, random: rand.New(rand.NewPCG(seed, 1)), tasks: 12, steps: make(map[int]int)}
				for range 60 {
					c.step()
				}
				c.heal()
				c.check()
			})
		})
	}
}

// A clock that is ten minutes off makes signatures that AWS refuses; when it is right again, all goes on.
func TestSignaturesOfAWrongClock(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		for range 5 {
			l.plane.Plan("SubmitTaskStateChange", ecsplane.Answer{Status: 403, Type: "InvalidSignatureException", Message: "Signature expired"})
			l.plane.Plan("acs", ecsplane.Answer{Status: 403})
		}
		l.payload("payload-1", 1, simple(1))
		l.agent.resolve(name(1))
		l.plane.End("acs", 0)
		l.pass(10 * time.Minute)
		l.agent.runs(name(1))
		l.agent.end(name(1), 0)
		l.pass(time.Minute)
		if got := slices.Compact(l.statuses(1)); !slices.Equal(got, []string{"PENDING", "RUNNING", "STOPPED"}) {
			t.Errorf("%v", got)
		}
	})
}
