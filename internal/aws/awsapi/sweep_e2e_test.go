//go:build e2e && bed_systemd && nightly

package awsapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/testing/mototest"
)

// swept makes requests of a trip: whole, without each member that it must have, and with each one and each two of the others.
func swept(t *testing.T, r trip) map[string]string {
	t.Helper()
	var whole map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &whole); err != nil {
		t.Fatal(err)
	}
	needed := []string{"family", "containerDefinitions", "volumes", "desiredCount", "taskDefinition"}
	for _, m := range awsapi.Operations()[r.operation] {
		if m.Required {
			needed = append(needed, m.Path)
		}
	}
	least, all := make(map[string]json.RawMessage), make(map[string]string)
	var others []string
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if slices.Contains(needed, name) {
			least[name] = whole[name]
		} else {
			others = append(others, name)
		}
	}
	add := func(what string, without string, with ...string) {
		members := maps.Clone(least)
		delete(members, without)
		for _, name := range with {
			members[name] = whole[name]
		}
		body, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		all[r.operation+" "+what] = string(body)
	}
	add("whole", "", others...)
	for name := range least {
		add("without "+name, name)
	}
	for i, one := range others {
		add("with "+one, "", one)
		for _, two := range others[i+1:] {
			add("with "+one+" "+two, "", one, two)
		}
	}
	return all
}

// What one server accepts and the other refuses has a row in docs/dev/moto.md.
func TestSweepAgainstMoto(t *testing.T) {
	if _, err := exec.LookPath("moto_server"); err != nil {
		t.Skip(err)
	}
	w, m := newWorld(t), &moto{t: t, url: mototest.Start(t)}
	w.prepareTrips()
	for _, r := range []struct{ operation, body string }{
		{"CreateCluster", `{}`}, {"CreateCluster", `{"clusterName": "blue"}`},
		{"RegisterTaskDefinition", `{"family": "web", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`},
		{"RegisterTaskDefinition", `{"family": "named", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`},
		{"CreateService", `{"serviceName": "there", "taskDefinition": "web", "desiredCount": 1}`},
		{"CreateService", `{"serviceName": "connected", "taskDefinition": "named", "desiredCount": 1}`},
	} {
		if status, text := m.ask(r.operation, r.body); status != 200 {
			t.Fatal(text)
		}
	}
	complain := motoComplaint(t)
	n, same, used := 0, 0, make(map[string]int)
	for _, r := range trips {
		if strings.Contains(r.operation, " ") { // of another service
			continue
		}
		requests := swept(t, r)
		for _, name := range slices.Sorted(maps.Keys(requests)) {
			n++
			body := strings.ReplaceAll(requests[name], `"SELF"`, fmt.Sprintf(`"self%d"`, n))
			status, ours := w.post(r.operation, body)
			motoStatus, theirs := m.ask(r.operation, body)
			if (status == 200) == (motoStatus == 200) {
				same++
				continue
			}
			i := slices.IndexFunc(sweptDifferences, func(k knownDifference) bool {
				return whole(k.request).MatchString(name) && regexp.MustCompile(k.ours).MatchString(ours) && regexp.MustCompile(k.theirs).MatchString(theirs)
			})
			if i < 0 {
				complain("%s: a difference that docs/dev/moto.md does not explain: %d %.200s, moto %d %.200s", name, status, ours, motoStatus, theirs)
				continue
			}
			used[sweptDifferences[i].why]++
		}
	}
	for _, k := range sweptDifferences {
		if used[k.why] == 0 {
			complain("docs/dev/moto.md explains what is no difference: %s", k.why)
		}
	}
	t.Logf("%d requests, %d alike, %v", n, same, used)
}
