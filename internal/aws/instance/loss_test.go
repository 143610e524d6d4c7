package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/testing/ecsplane"
)

// deliver sends a message until it is acknowledged, as ECS is thought to do.
func (l *lab) deliver(kind, id string, message map[string]any) {
	l.t.Helper()
	message["messageId"], message["clusterArn"], message["containerInstanceArn"] = id, ecsplane.ClusterARN, ecsplane.InstanceARN(1)
	acked := func() bool {
		return slices.ContainsFunc(l.plane.Events(), func(e ecsplane.Event) bool {
			return strings.HasSuffix(e.Op, "AckRequest") && strings.Contains(string(e.Body), `"messageId":"`+id+`"`)
		})
	}
	for range 100 {
		_ = l.plane.Say("acs", kind, message) // the link may be away
		for range 10 {
			if l.pass(time.Second); acked() {
				return
			}
		}
	}
	l.t.Fatalf("%s is never acknowledged", id)
}

// script is the life of two tasks, whatever is lost on the way.
func (l *lab) script() {
	l.t.Helper()
	l.start()
	l.wait("acs", "open", 1)
	l.deliver("PayloadMessage", "payload-1", map[string]any{"seqNum": 1, "tasks": []any{simple(1, func(t map[string]any) {
		t["roleCredentials"] = map[string]string{"credentialsId": "app", "roleArn": "arn:aws:iam::111122223333:role/app", "accessKeyId": "A", "secretAccessKey": "B", "expiration": "2100-01-01T00:00:00Z"}
	}), simple(2)}})
	l.pass(10 * time.Second)
	for n := 1; n <= 2; n++ {
		l.agent.resolve(name(n))
		l.pass(10 * time.Second)
		l.agent.runs(name(n))
	}
	l.deliver("IAMRoleCredentialsMessage", "cred-2", map[string]any{"roleType": "TaskApplication", "taskArn": ecsplane.TaskARN(1),
		"roleCredentials": map[string]string{"credentialsId": "app", "accessKeyId": "A2", "secretAccessKey": "B2", "expiration": "2100-01-01T00:00:00Z"}})
	l.deliver("HeartbeatMessage", "hb-1", map[string]any{"healthy": true})
	l.pass(30 * time.Second)
	l.agent.end(name(1), 3)
	l.deliver("PayloadMessage", "payload-2", map[string]any{"seqNum": 2, "tasks": []any{simple(2, desired("STOPPED"))}})
	l.pass(10 * time.Minute)
}

// Each message of an instance is lost once with its connection; ECS learns the same in the same order.
func TestACutAtEachMessage(t *testing.T) {
	type message struct{ on, op string }
	var all []message
	run := func(t *testing.T, lost int) {
		withLab(t, func(l *lab) {
			var mu sync.Mutex
			n := 0
			l.plane.Lose = func(on, op string) bool {
				mu.Lock()
				defer mu.Unlock()
				if lost < 0 {
					all = append(all, message{on, op})
				}
				n++
				return n-1 == lost
			}
			l.script()
			for task, want := range map[int][]string{1: {"PENDING", "RUNNING", "STOPPED"}, 2: {"PENDING", "RUNNING", "STOPPED"}} {
				if got := l.statuses(task); !slices.Equal(got, want) {
					t.Errorf("task %d: %v", task, got)
				}
			}
			if n := len(l.agent.made); n != 2 {
				t.Errorf("%d tasks were made", n)
			}
			for _, e := range l.plane.Events() {
				if e.Instance != "" && e.Instance != ecsplane.InstanceARN(1) {
					t.Errorf("there is a second instance: %s", e.Instance)
				}
			}
		})
	}
	run(t, -1)
	telemetry := 0
	for n, m := range all {
		if m.on == "tcs" { // the first few are enough: the others are the same
			if telemetry++; telemetry > 6 {
				continue
			}
		}
		t.Run(fmt.Sprintf("%d %s", n, m.op), func(t *testing.T) { run(t, n) })
	}
	if len(all) < 12 {
		t.Errorf("the script has %d messages alone", len(all))
	}
}

// While the clock of the host is ten minutes off, AWS takes no signature of it. The time of its answers is used then, so
// that nothing waits; a proxy that takes it out of them has tasks wait until the clock is right.
func TestAClockThatIsWrongForAWhile(t *testing.T) {
	for _, off := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		for _, corrected := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %t", off, corrected), func(t *testing.T) {
				withLab(t, func(l *lab) {
					if corrected {
						l.config.Calls.Clock = new(awscall.Clock)
					}
					l.plane.Wrong = &ecsplane.Answer{Status: 403, Type: "InvalidSignatureException", Message: "Signature expired"}
					var mu sync.Mutex
					now := time.Duration(0)
					l.plane.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(now) }
					set := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = d }
					l.plane.SetValue("/p", "hush")
					l.join()
					set(off)
					l.payload("payload-1", 1, simple(1), simple(2, func(t map[string]any) { // the link is open, so this comes
						t["executionRoleCredentials"] = map[string]string{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret}
						t["containers"].([]any)[0].(map[string]any)["secrets"] = []any{map[string]string{"name": "X", "valueFrom": "/p", "provider": "ssm"}}
					}))
					l.life(1, 0)
					if corrected {
						l.expect(1, "PENDING", "RUNNING", "STOPPED")
						l.waitsFor(ecsplane.TaskARN(2))
						l.plane.End("acs", 0)
						l.plane.End("tcs", 0)
						l.wait("acs", "open", 2)
						l.wait("tcs", "open", 2)
					} else {
						l.pass(20 * time.Minute)
						l.expect(1)
						l.expect(2)
						l.waitsFor(ecsplane.TaskARN(1), "state ECS to take the state PENDING: SubmitTaskStateChange: InvalidSignatureException")
						l.waitsFor(ecsplane.TaskARN(2), "value a value of AWS: ResourceInitializationError")
					}
					set(0)
					l.pass(5 * time.Minute)
					l.expect(1, "PENDING", "RUNNING", "STOPPED")
					l.life(2, 0)
					l.expect(2, "PENDING", "RUNNING", "STOPPED")
					l.waitsFor(ecsplane.TaskARN(1))
				})
			})
		}
	}
}

// Credentials of the host that have ended are refused until there are new ones; those of a task's role, too.
func TestCredentialsThatHaveEnded(t *testing.T) {
	withLab(t, func(l *lab) {
		l.plane.Wrong = &ecsplane.Answer{Status: 400, Type: "ExpiredTokenException", Message: "The security token included in the request is expired"}
		var mu sync.Mutex
		ended := false
		good := l.config.Calls.Credentials
		l.config.Calls.Credentials = func(ctx context.Context) (awscall.Credentials, error) {
			mu.Lock()
			defer mu.Unlock()
			c, err := good(ctx)
			if ended {
				c.SecretAccessKey = "of yesterday"
			}
			return c, err
		}
		set := func(is bool) { mu.Lock(); defer mu.Unlock(); ended = is }
		l.plane.SetValue("/p", "hush")
		l.join()
		set(true)
		l.payload("payload-1", 1, simple(1), simple(2, func(t map[string]any) {
			t["executionRoleCredentials"] = map[string]string{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": "of yesterday", "expiration": "2000-01-01T00:00:00Z"}
			t["containers"].([]any)[0].(map[string]any)["secrets"] = []any{map[string]string{"name": "X", "valueFrom": "/p", "provider": "ssm"}}
		}))
		l.life(1, 0)
		l.plane.End("acs", 0)
		l.pass(10 * time.Minute)
		l.expect(1)
		set(false)
		l.pass(5 * time.Minute)
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
		// The task with the secret waits for credentials of its role that are good.
		if n := len(l.agent.made); n != 1 {
			t.Errorf("%d tasks were made", n)
		}
		l.waitsFor(ecsplane.TaskARN(2), "value a value of AWS: ResourceInitializationError: unable to retrieve secret from ssm")
		for l.plane.Say("acs", "IAMRoleCredentialsMessage", map[string]any{"messageId": "c", "roleType": "TaskExecution", "taskArn": ecsplane.TaskARN(2),
			"roleCredentials": map[string]string{"credentialsId": "exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret}}) != nil {
			l.pass(time.Second)
		}
		l.pass(time.Minute)
		if n := len(l.agent.made); n != 2 {
			t.Errorf("%d tasks were made", n)
		}
	})
}
