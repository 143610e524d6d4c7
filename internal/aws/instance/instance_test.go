package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/pkg/api"
)

func TestAnInstanceRegistersAndConnects(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		for on, want := range map[string]map[string]string{
			"acs": {"clusterArn": "lab", "containerInstanceArn": ecsplane.InstanceARN(1), "protocolVersion": "2", "sendCredentials": "true", "seqNum": "1", "agentVersion": AgentVersion, "dockerVersion": "DockerVersion: 1.0"},
			"tcs": {"cluster": "lab", "containerInstance": ecsplane.InstanceARN(1), "agentVersion": AgentVersion, "dockerVersion": "1.0"},
		} {
			for _, e := range l.plane.Events() {
				if e.On != on || e.Op != "connect" {
					continue
				}
				for k, v := range want {
					if e.Query.Get(k) != v {
						t.Errorf("%s: %s=%s, want %s", on, k, e.Query.Get(k), v)
					}
				}
			}
		}
		if err := l.plane.Say("acs", "HeartbeatMessage", map[string]any{"healthy": false, "messageId": "hb-1"}); err != nil {
			t.Fatal(err)
		}
		l.wait("acs", "HeartbeatAckRequest", 1)
		l.pass(time.Second) // the status is written once in a while
		s, err := ecsstatus.Read(ecsstatus.Path(l.config.Runtime))
		if err != nil || s == nil || !s.ACS.Connected || !s.TCS.Connected || s.Instance != ecsplane.InstanceARN(1) {
			t.Errorf("the status is %+v, %v", s, err)
		}
	})
}

func TestASecondStartIsTheSameInstance(t *testing.T) {
	withLab(t, func(l *lab) {
		l.config.Attributes = []wire.Attribute{{Name: "rack", Value: "a1"}}
		l.join()
		l.restart()
		all := l.plane.Of("http", "RegisterContainerInstance")
		var first, second wire.Register
		if json.Unmarshal(all[0], &first) != nil || json.Unmarshal(all[1], &second) != nil {
			t.Fatal("not JSON")
		}
		if first.Attributes[0].Name != "rack" || first.InstanceARN != "" {
			t.Errorf("the first: %+v", first)
		}
		if second.InstanceARN != ecsplane.InstanceARN(1) || len(second.Attributes) != len(first.Attributes)-1 || second.ClientToken == first.ClientToken {
			t.Errorf("the second: %+v", second)
		}
		l.kill()
		l.config.Cluster = "other"
		l.start()
		<-l.finished
		if fatal := new(FatalError); !errors.As(l.err, &fatal) || !strings.Contains(l.err.Error(), "podtask ecs leave") {
			t.Errorf("another cluster: %v", l.err)
		}
		if n := len(l.plane.Of("http", "RegisterContainerInstance")); n != 2 {
			t.Errorf("%d registrations", n)
		}
	})
}

// A lost answer must not make a second instance, which would be paid for.
func TestALostAnswerMakesNoSecondInstance(t *testing.T) {
	withLab(t, func(l *lab) {
		l.plane.Plan("RegisterContainerInstance", ecsplane.Answer{Cut: true})
		l.start()
		l.wait("http", "RegisterContainerInstance", 1)
		l.kill()
		l.join()
		all := l.plane.Of("http", "RegisterContainerInstance")
		tokens := make(map[string]bool)
		for _, body := range all {
			var r wire.Register
			_ = json.Unmarshal(body, &r)
			tokens[r.ClientToken] = true
		}
		if len(all) < 2 || len(tokens) != 1 {
			t.Errorf("%d registrations with %d tokens", len(all), len(tokens))
		}
	})
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		code  string
		times int
		fatal bool
		ends  bool
	}{
		{"InvalidParameterException", 1, true, true},
		{"ClientException", 1, true, true},
		{"AccessDeniedException", 1, false, true},
		{"ThrottlingException", 4, false, false},
		{"ServerException", 4, false, false},
	} {
		t.Run(tt.code, func(t *testing.T) {
			withLab(t, func(l *lab) {
				for range tt.times {
					l.plane.Plan("RegisterContainerInstance", ecsplane.Answer{Status: 400, Type: tt.code, Message: "x"})
				}
				l.start()
				if !tt.ends {
					l.wait("acs", "open", 1)
					return
				}
				<-l.finished
				if errors.As(l.err, new(*FatalError)) != tt.fatal || l.err == nil || !strings.Contains(l.err.Error(), tt.code) {
					t.Errorf("it ended with %v", l.err)
				}
			})
		})
	}
	t.Run("an attribute is not echoed", func(t *testing.T) {
		withLab(t, func(l *lab) {
			l.plane.Omit()
			l.start()
			<-l.finished
			if !errors.As(l.err, new(*FatalError)) || !strings.Contains(l.err.Error(), "ecs.capability.external") {
				t.Errorf("it ended with %v", l.err)
			}
		})
	})
	t.Run("the unnamed cluster is missing", func(t *testing.T) {
		withLab(t, func(l *lab) {
			l.config.Cluster = ""
			l.plane.Plan("RegisterContainerInstance", ecsplane.Answer{Status: 400, Type: "ClientException", Message: "Cluster not found."})
			l.join()
			if n := len(l.plane.Of("http", "CreateCluster")); n != 1 {
				t.Errorf("%d calls of CreateCluster", n)
			}
		})
	})
}

func TestATaskFromItsDigestToItsEnd(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1))
		l.life(1, 7)
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
		states := l.states(1)
		if c := states[0].Containers[0]; c.ImageDigest != digest || c.Status != "PENDING" || c.RuntimeID != "" {
			t.Errorf("PENDING: %+v", c)
		}
		if c := states[1].Containers[0]; c.ImageDigest != digest || c.RuntimeID == "" || c.ExitCode != nil {
			t.Errorf("RUNNING: %+v", c)
		}
		if c := states[2].Containers[0]; c.ExitCode == nil || *c.ExitCode != 7 || states[2].ExecutionStoppedAt == nil {
			t.Errorf("STOPPED: %+v", states[2])
		}
		if made := l.agent.made[0]; made.Name != name(1) || !strings.Contains(string(made.Definition), `"sleep"`) {
			t.Errorf("the agent was asked for %+v", made)
		}
		l.pass(4 * time.Hour)
		synctest.Wait()
		if left, _ := l.agent.Tasks(t.Context()); len(left) > 0 {
			t.Error("the task was not removed")
		}
		if records, _ := OpenRecords(l.config.Dir); records != nil {
			if all, _ := records.Tasks(); len(all) > 0 {
				t.Errorf("its record is there: %+v", all)
			}
		}
	})
}

// An answer that a task ran must not be missing because it ran too short to be seen.
func TestATaskThatIsQuicklyOver(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.agent.setAway(false)
		l.payload("payload-1", 1, simple(1))
		l.agent.step(name(1), func(t *api.Task) {
			code := api.ExitCode(0)
			t.Containers[0].ImageDigest, t.Containers[0].RuntimeID, t.Containers[0].ExitCode = digest, "r1", &code
			for _, s := range []string{"MANIFEST_PULLED", "RUNNING"} {
				enter(t, "main", s)
				enter(t, "", s)
			}
			enter(t, "main", "STOPPED")
			enter(t, "", "STOPPED")
		})
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
		if c := l.states(1)[1].Containers[0]; c.ExitCode == nil {
			t.Errorf("RUNNING: %+v", c)
		}
	})
}

// Where ECS describes definitions, they are asked for once, and go before the translation.
func TestDefinitionsThatECSDescribes(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.plane.Describe(`{"family":"fam","revision":3,"status":"ACTIVE","containerDefinitions":[{"name":"main","image":"described:1","memory":1,"workingDirectory":"/described"}]}`)
		l.payload("payload-1", 1, simple(1), simple(2))
		if n := len(l.plane.Of("http", "DescribeTaskDefinition")); n != 1 || len(l.agent.made) != 2 {
			t.Fatalf("%d calls, %d tasks", n, len(l.agent.made))
		}
		for _, m := range l.agent.made {
			if d := string(m.Definition); !strings.Contains(d, `"/described"`) || !strings.Contains(d, `"memory":64`) || !strings.Contains(d, `"sleep"`) {
				t.Errorf("%s", d)
			}
		}
	})
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1), simple(2, func(t map[string]any) { t["version"] = "4" }))
		if n := len(l.plane.Of("http", "DescribeTaskDefinition")); n != 1 || len(l.agent.made) != 2 {
			t.Errorf("without permission: %d calls, %d tasks", n, len(l.agent.made))
		}
	})
}

func TestPayloadsAgain(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1))
		l.payload("payload-1", 1, simple(1))
		l.payload("payload-2", 2, simple(1))
		if n := len(l.agent.made); n != 1 {
			t.Errorf("%d tasks", n)
		}
		l.life(1, 0)
		l.payload("payload-3", 3, simple(1)) // it has stopped: nothing happens
		if n := len(l.agent.made); n != 1 {
			t.Errorf("%d tasks", n)
		}
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
	})
}

func TestStops(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1))
		l.agent.resolve(name(1))
		synctest.Wait()
		l.agent.runs(name(1))
		synctest.Wait()
		stop := simple(1, desired("STOPPED"))
		stop["containers"] = []any{}
		l.payload("payload-2", 2, stop, simple(2, desired("STOPPED")))
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
		l.expect(2, "STOPPED") // not known: it has stopped
		l.agent.setAway(true)
		l.payload("payload-3", 3, simple(3))
		l.payload("payload-4", 4, simple(3, desired("STOPPED")))
		l.agent.setAway(false)
		l.pass(time.Minute)
		l.expect(3, "STOPPED") // it was never made
		if n := len(l.agent.made); n != 1 {
			t.Errorf("%d tasks", n)
		}
	})
}

// The agent of AWS leaves such a message without an ack, for ever.
func TestATaskThatCannotBeReadSilencesNoMessage(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		bad := simple(2)
		bad["containers"].([]any)[0].(map[string]any)["overrides"] = `{"environment":[]}`
		worse := simple(3)
		worse["containers"] = "none"
		l.payload("payload-1", 1, bad, simple(1), simple(4, desired("PAUSED")), worse)
		l.life(1, 0)
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
		for _, n := range []int{2, 3, 4} {
			l.expect(n, "STOPPED")
			if s := l.states(n); len(s) > 0 && !strings.HasPrefix(s[0].Reason, "UnrecogniedTaskError: Error loading task - ") {
				t.Errorf("task %d: %s", n, s[0].Reason)
			}
		}
	})
}

func TestTasksThatTheHostRefuses(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		checked := simple(1)
		checked["containers"].([]any)[0].(map[string]any)["healthCheckType"] = "docker"
		l.agent.refuse = api.Failed(api.BadRequest, "no such network")
		l.payload("payload-1", 1, checked, simple(2), simple(3, func(t map[string]any) { t["containers"] = []any{} }))
		l.expect(1, "STOPPED")
		l.expect(2, "STOPPED")
		l.expect(3, "STOPPED")
		if c := l.states(1)[0].Containers[0]; c.Reason != "DockerClientConfigError: docker health check is nil while container health check type is DOCKER" {
			t.Errorf("%+v", c)
		}
		if s := l.states(2)[0]; !strings.Contains(s.Reason, "no such network") {
			t.Errorf("%+v", s)
		}
	})
}

func TestARefusedStateHoldsUpNoOtherTask(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1))
		for range 20 {
			l.plane.Plan("SubmitTaskStateChange", ecsplane.Answer{Status: 400, Type: "AccessDeniedException", Message: "no"})
		}
		synctest.Wait()
		l.agent.resolve(name(1))
		synctest.Wait()
		if got := len(l.states(1)); got != 1 {
			t.Fatalf("%d attempts", got)
		}
		l.payload("payload-2", 2, simple(2))
		l.agent.resolve(name(2))
		synctest.Wait()
		if len(l.states(2)) == 0 {
			t.Error("the second task waits for the first one's state")
		}
		l.pass(time.Hour)
		l.agent.runs(name(1))
		synctest.Wait()
		got := l.statuses(1)
		if got[len(got)-1] != "RUNNING" || got[0] != "PENDING" {
			t.Errorf("%v", got)
		}
	})
}

func TestAStateThatECSNeverAcceptsIsDropped(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.plane.Plan("SubmitTaskStateChange", ecsplane.Answer{Status: 400, Type: "InvalidParameterException", Message: "bad"})
		l.payload("payload-1", 1, simple(1))
		l.life(1, 0)
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
	})
}

// Nothing is lost however the process ends, and nothing is told twice that ECS has accepted.
func TestKillsBetweenTheStepsOfATask(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.agent.setAway(true)
		l.payload("payload-1", 1, simple(1))
		l.kill()
		l.agent.setAway(false)
		l.start()
		synctest.Wait()
		if len(l.agent.made) != 1 {
			t.Fatal("an acknowledged payload was lost")
		}
		l.agent.resolve(name(1))
		synctest.Wait()
		l.restart()
		l.agent.runs(name(1))
		synctest.Wait()
		l.kill()
		l.agent.end(name(1), 3) // while nobody looks
		l.start()
		l.wait("http", "SubmitTaskStateChange", 3)
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
		l.restart()
		l.pass(time.Hour)
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
		if len(l.agent.made) != 1 {
			t.Errorf("%d tasks", len(l.agent.made))
		}
	})
}

// A task that was made just before the process ended is found by its name.
func TestATaskWhoseRecordWasNotWrittenIsFound(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.agent.setAway(true)
		l.payload("payload-1", 1, simple(1))
		l.agent.setAway(false)
		_, err := l.agent.Create(t.Context(), api.NewTask{Name: name(1), Definition: json.RawMessage(`{"family":"fam","containerDefinitions":[{"name":"main"}],"tags":[{"key":"ecs.task","value":"` + ecsplane.TaskARN(1) + `"}]}`)})
		if err != nil {
			t.Fatal(err)
		}
		l.pass(time.Minute)
		synctest.Wait()
		l.life(1, 0)
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
	})
}

// A task that ends at once is made once, whichever write of its record the program is killed at, and however often the
// agent's answer is lost.
func TestAShortTaskIsMadeOnce(t *testing.T) {
	life := func(t *testing.T, lost, killed int, removed bool) (writes int) {
		withLab(t, func(l *lab) {
			l.agent.quick = true
			l.join()
			before, at := l.disk.count(), make(chan struct{})
			l.agent.lost = lost
			l.disk.setAt(func(n int) {
				if n == before+killed {
					close(at)
				}
			})
			if err := l.plane.Payload("payload-1", 1, simple(1)); err != nil {
				t.Fatal(err)
			}
			if killed > 0 {
				<-at
				l.disk.setAt(nil)
				l.kill()
				if removed {
					for id := range l.agent.tasks {
						_ = l.agent.Remove(t.Context(), id, ByECS, true)
					}
				}
				l.start()
			}
			l.deliver("PayloadMessage", "payload-1", map[string]any{"seqNum": 1, "tasks": []any{simple(1)}}) // as ECS does without an ack
			l.pass(5 * time.Minute)
			writes = l.disk.count() - before
			if n := len(l.agent.made); n != 1 {
				t.Errorf("the task was made %d times", n)
			}
			got := l.statuses(1)
			if len(got) == 0 || got[len(got)-1] != "STOPPED" || slices.Index(got, "STOPPED") != len(got)-1 && killed == 0 {
				t.Errorf("ECS was told %v", got)
			}
		})
		return writes
	}
	writes := life(t, 0, 0, false)
	if writes < 3 {
		t.Fatalf("there are %d writes", writes)
	}
	for n := 1; n <= writes; n++ {
		t.Run(fmt.Sprintf("killed at write %d", n), func(t *testing.T) { life(t, 0, n, false) })
		t.Run(fmt.Sprintf("killed at write %d and removed", n), func(t *testing.T) { life(t, 0, n, true) })
	}
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprintf("%d answers are lost", n), func(t *testing.T) { life(t, n, 0, false) })
	}
}

func TestATaskThatIsRemovedOnTheHost(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1))
		l.agent.resolve(name(1))
		l.agent.runs(name(1))
		synctest.Wait()
		made, _ := l.agent.Task(t.Context(), name(1))
		_ = l.agent.Remove(t.Context(), made.ID, ByECS, true)
		synctest.Wait()
		states := l.states(1)
		if s := states[len(states)-1]; s.Status != "STOPPED" || !strings.HasPrefix(s.Containers[0].Reason, "ContainerVanishedError") {
			t.Errorf("%+v", s)
		}
	})
}

func TestCredentialsOfRoles(t *testing.T) {
	withLab(t, func(l *lab) {
		l.plane.SetValue("/p", "hush")
		l.join()
		role := func(id string) map[string]string {
			return map[string]string{"credentialsId": id, "roleArn": "arn:aws:iam::111122223333:role/" + id, "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret, "sessionToken": "T", "expiration": "2027-01-01T00:00:00Z"}
		}
		task := simple(1, func(t map[string]any) {
			t["roleCredentials"], t["executionRoleCredentials"] = role("app"), role("exec")
			t["containers"].([]any)[0].(map[string]any)["secrets"] = []any{map[string]string{"name": "X", "valueFrom": "/p", "provider": "ssm", "region": ecsplane.Region, "type": "ENVIRONMENT_VARIABLE"}}
		})
		l.payload("payload-1", 1, task)
		if n := len(l.plane.Of("acs", "IAMRoleCredentialsAckRequest")); n != 2 {
			t.Errorf("%d acks of credentials", n)
		}
		if len(l.agent.made) != 1 {
			t.Fatal("the task was not made")
		}
		files := make(map[string]string)
		for _, r := range l.agent.made[0].References {
			files[r.Match] = strings.TrimPrefix(r.Source, "file:")
		}
		if text, err := os.ReadFile(files["/p"]); err != nil || string(text) != "hush" {
			t.Errorf("the secret: %q, %v", text, err)
		}
		keys := files["role:arn:aws:iam::111122223333:role/app"]
		if text, err := os.ReadFile(keys); err != nil || !strings.Contains(string(text), `"Expiration":"2027-01-01T00:00:00Z"`) {
			t.Errorf("the role: %s, %v", text, err)
		}
		refreshed := role("app")
		refreshed["expiration"] = "2027-01-01T06:00:00Z"
		message := func(kind string, n int) map[string]any {
			return map[string]any{"messageId": "cred-1", "roleCredentials": refreshed, "roleType": kind, "taskArn": ecsplane.TaskARN(n)}
		}
		for _, m := range []map[string]any{message("Other", 1), message("TaskApplication", 9), message("TaskApplication", 1)} {
			if err := l.plane.Say("acs", "IAMRoleCredentialsMessage", m); err != nil {
				t.Fatal(err)
			}
		}
		l.wait("acs", "IAMRoleCredentialsAckRequest", 3)
		synctest.Wait()
		if n := len(l.plane.Of("acs", "IAMRoleCredentialsAckRequest")); n != 3 {
			t.Errorf("%d acks of credentials", n)
		}
		if text, _ := os.ReadFile(keys); !strings.Contains(string(text), "T06:00:00Z") {
			t.Errorf("it was not refreshed: %s", text)
		}
		err := filepath.WalkDir(l.config.Dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if text, _ := os.ReadFile(path); strings.Contains(string(text), ecsplane.Secret) || strings.Contains(string(text), `"`+ecsplane.RoleSecret+`"`) || strings.Contains(string(text), "hush") {
				t.Errorf("%s has a secret", path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		l.life(1, 0)
		if _, err := os.Stat(keys); err == nil {
			t.Error("the credentials outlive the task")
		}
	})
}

func TestSecretsWithoutCredentialsWait(t *testing.T) {
	withLab(t, func(l *lab) {
		l.plane.SetValue("/p", "hush")
		l.join()
		l.payload("payload-1", 1, simple(1, func(t map[string]any) {
			t["executionRoleCredentials"] = map[string]string{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec"}
			t["containers"].([]any)[0].(map[string]any)["secrets"] = []any{map[string]string{"name": "X", "valueFrom": "/p", "provider": "ssm"}}
		}))
		l.pass(time.Hour)
		synctest.Wait()
		if len(l.agent.made) != 0 {
			t.Fatal("it was made without its secret")
		}
		l.wait("acs", "open", 2) // it was silent for so long
		if err := l.plane.Say("acs", "IAMRoleCredentialsMessage", map[string]any{"messageId": "c", "roleType": "TaskExecution", "taskArn": ecsplane.TaskARN(1),
			"roleCredentials": map[string]string{"credentialsId": "exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret}}); err != nil {
			t.Fatal(err)
		}
		l.wait("http", "GetParameters", 1)
		synctest.Wait()
		if len(l.agent.made) != 1 {
			t.Error("it was not made")
		}
	})
}

// Parameters are read ten at a time, each name once, by name or by ARN, with the action that execution roles have.
func TestParametersAreReadInBatches(t *testing.T) {
	withLab(t, func(l *lab) {
		var secrets []any
		want := make(map[string]string)
		add := func(name, value string) {
			secrets = append(secrets, map[string]string{"name": fmt.Sprintf("X%d", len(secrets)), "valueFrom": name, "provider": "ssm", "region": ecsplane.Region})
			want[name] = value
		}
		for n := range 23 {
			name := fmt.Sprintf("/shop/%02d", n)
			l.plane.SetValue(name, "of "+name)
			add(name, "of "+name)
		}
		add("/shop/00", "of /shop/00") // twice
		l.plane.SetValue("/shop/old:3", "the third")
		add("/shop/old:3", "the third")
		arn := "arn:aws:ssm:" + ecsplane.Region + ":" + ecsplane.Account + ":parameter/shop/01"
		add(arn, "of /shop/01")
		l.join()
		l.payload("payload-1", 1, simple(1, func(t map[string]any) {
			t["executionRoleCredentials"] = map[string]string{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret}
			t["containers"].([]any)[0].(map[string]any)["secrets"] = secrets
		}))
		if len(l.agent.made) != 1 {
			t.Fatal("the task was not made")
		}
		for _, r := range l.agent.made[0].References {
			if text, err := os.ReadFile(strings.TrimPrefix(r.Source, "file:")); err != nil || string(text) != want[r.Match] {
				t.Errorf("%s: %q, %v", r.Match, text, err)
			}
			delete(want, r.Match)
		}
		if len(want) > 0 {
			t.Errorf("without a value: %v", want)
		}
		if n := len(l.plane.Of("http", "GetParameters")); n != 3 {
			t.Errorf("%d calls", n)
		}

		// One that is missing is named.
		l.payload("payload-2", 2, simple(2, func(t map[string]any) {
			t["executionRoleCredentials"] = map[string]string{"credentialsId": "exec2", "roleArn": "arn:aws:iam::111122223333:role/exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret}
			t["containers"].([]any)[0].(map[string]any)["secrets"] = []any{secrets[0], map[string]string{"name": "N", "valueFrom": "/none", "provider": "ssm"}}
		}))
		l.expect(2, "STOPPED")
		if got := l.states(2)[0].Reason; !strings.Contains(got, "unable to retrieve secret from ssm /none: GetParameters: invalid parameters: /none") {
			t.Errorf("the reason is %q", got)
		}
	})
}

func TestManifests(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1), simple(2))
		l.agent.runs(name(1))
		l.agent.runs(name(2))
		synctest.Wait()
		manifest := func(id string, timeline int, tasks ...int) {
			var list []any
			for _, n := range tasks {
				list = append(list, map[string]string{"taskArn": ecsplane.TaskARN(n), "taskClusterArn": ecsplane.ClusterARN, "desiredStatus": "RUNNING"})
			}
			if err := l.plane.Say("acs", "TaskManifestMessage", map[string]any{"messageId": id, "clusterArn": ecsplane.ClusterARN, "containerInstanceArn": ecsplane.InstanceARN(1), "timeline": timeline, "tasks": list}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		manifest("man-1", 5, 1, 2, 3)
		manifest("man-2", 5, 1) // not above
		if n := len(l.plane.Of("acs", "AckRequest")); n != 2 || len(l.plane.Of("acs", "TaskStopVerificationMessage")) != 0 {
			t.Errorf("%d acks", n)
		}
		manifest("man-3", 6, 1)
		verify := l.plane.Of("acs", "TaskStopVerificationMessage")
		if len(verify) != 1 || !strings.Contains(string(verify[0]), ecsplane.TaskARN(2)) || strings.Contains(string(verify[0]), ecsplane.TaskARN(1)) {
			t.Fatalf("%s", verify)
		}
		for _, id := range []string{"man-1", "man-3", "man-3"} {
			if err := l.plane.Say("acs", "TaskStopVerificationAck", map[string]any{"messageId": id, "stopTasks": []any{map[string]string{"taskArn": ecsplane.TaskARN(2)}}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		l.expect(1, "RUNNING")
		l.expect(2, "RUNNING", "STOPPED")
	})
}

func TestUpdatesAreRefused(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		for _, kind := range []string{"StageUpdateMessage", "PerformUpdateMessage"} {
			if err := l.plane.Say("acs", kind, map[string]any{"messageId": kind, "clusterArn": ecsplane.ClusterARN, "containerInstanceArn": ecsplane.InstanceARN(1), "updateInfo": map[string]string{"location": "x"}}); err != nil {
				t.Fatal(err)
			}
		}
		l.wait("acs", "NackRequest", 2)
	})
}

func TestWhatCannotBeReadIsLeft(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		for _, text := range []string{"{", `"x"`, `{"type":"Unknown","message":{}}`, `{"type":"PayloadMessage","message":{"messageId":7}}`, `{"type":"PayloadMessage","message":{"tasks":[]}}`} {
			if err := l.plane.SayText("acs", []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		l.payload("payload-1", 1, simple(1))
		if n := len(l.plane.Of("acs", "AckRequest")); n != 1 {
			t.Errorf("%d acks", n)
		}
	})
}

func TestLinksAreOpenedAgain(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		for i, code := range []int{1000, 1001, 1011, 0, 1008, 4000} {
			l.pass(10 * time.Second)
			l.plane.End("acs", code)
			l.wait("acs", "open", i+2)
		}
		for _, e := range l.plane.Events()[10:] {
			if e.On == "acs" && e.Op == "connect" && e.Query.Get("sendCredentials") != "false" {
				t.Error("credentials are asked for again")
			}
		}
		if n := len(l.plane.Of("http", "DiscoverPollEndpoint")); n != 1 {
			t.Errorf("%d calls of DiscoverPollEndpoint", n)
		}
		l.plane.Plan("acs", ecsplane.Answer{Status: 403}, ecsplane.Answer{Status: 429}, ecsplane.Answer{Cut: true}, ecsplane.Answer{Status: 500, Type: "ServerException", Message: "x"})
		n := len(l.plane.Of("acs", "open"))
		l.plane.End("acs", 4000)
		l.wait("acs", "open", n+1)
	})
}

func TestSilenceEndsLinks(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		begun := time.Now()
		l.wait("acs", "closed", 1)
		if d := time.Since(begun); d < time.Minute || d > 2*time.Minute {
			t.Errorf("after %s", d)
		}
		l.wait("acs", "open", 2)
		if n := len(l.plane.Of("tcs", "closed")); n != 0 {
			t.Error("TCS has acks")
		}
		l.wait("tcs", "closed", 1) // its life ends
		if d := time.Since(begun); d < 30*time.Minute || d > 36*time.Minute {
			t.Errorf("TCS after %s", d)
		}
	})
}

func TestAnInstanceThatWasDeregistered(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1))
		l.plane.Plan("acs", ecsplane.Answer{Status: 400, Type: "InactiveInstanceException", Message: "x"})
		l.pass(5 * time.Second)
		l.plane.End("acs", 1000)
		begun := time.Now()
		l.wait("acs", "connect", 2)
		l.pass(time.Second)
		if s, err := ecsstatus.Read(ecsstatus.Path(l.config.Runtime)); err != nil || !s.Inactive {
			t.Errorf("the status is %+v, %v", s, err)
		}
		l.life(1, 0) // tasks run on
		l.wait("acs", "open", 2)
		if d := time.Since(begun); d < time.Hour {
			t.Errorf("again after %s", d)
		}
		l.expect(1, "PENDING", "RUNNING", "STOPPED")
	})
}

func TestADamagedRecordKeepsNoOtherTask(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		l.payload("payload-1", 1, simple(1), simple(2))
		l.kill()
		files, err := filepath.Glob(filepath.Join(l.config.Dir, "tasks", keyOf(ecsplane.TaskARN(1))+"*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.WriteFile(files[0], []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		l.start()
		l.wait("acs", "open", 2)
		l.life(2, 0)
		l.expect(2, "PENDING", "RUNNING", "STOPPED")
	})
}

func TestOneProcessIsAnInstance(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		records, err := OpenRecords(l.config.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := records.Lock(); !errors.Is(err, ErrRunning) {
			t.Errorf("the second says %v", err)
		}
	})
}
