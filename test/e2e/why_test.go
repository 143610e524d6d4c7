//go:build e2e

//e2e:bed systemd

package e2e

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// says waits until why says of something what the pattern has, and returns the sentence.
func (b *box) says(ref, pattern string) string {
	b.t.Helper()
	var said string
	expression := regexp.MustCompile(pattern)
	eventually(b.t, pattern, func() bool {
		said = strings.TrimSpace(b.podtask("why", ref).out)
		return expression.MatchString(said)
	})
	b.t.Log(said)
	return said
}

// A program that does not heed its stop signal is killed; why says before when, and afterwards that it was.
func TestWhySaysThatAProgramDoesNotStop(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := b.define(ctr{Name: "app", Command: words("term ignore -- write /tmp/well -- sleep forever"), Health: healthyIf("exists /tmp/well"), StopTimeout: 4})
	b.detach("--wait=healthy", "--name", b.family, path)
	stop := b.start("stop", b.family)
	b.says(b.family, `is stopping: stopped by podtask stop; app got its stop signal and has 4s to exit.*\. podtask kills it (in [1-4]|now)`)
	stop.want(0)
	b.says(b.family, `stopped .*: stopped by podtask stop; app did not exit within 4s of its stop signal and was killed \(code 137\)\. Have the program exit on its stop signal, or raise its .stopTimeout.\.$`)
}

// A registry that has no time for this host, for longer than podtask waits: the sentence has the number and what helps.
func TestWhySaysThatARegistryIsBusy(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, _ := b.push("app:1", b.freshImage("app"))
	b.agent() // it keeps trying
	b.fault("HEAD", "app", "manifests/", 0, registrytest.Answer(http.StatusTooManyRequests, map[string]string{"RateLimit-Limit": "100;w=21600", "RateLimit-Remaining": "0;w=21600"}))
	b.detach("--name", b.family, b.hello(ref))
	b.says(b.family, `received too many requests from this host \(429`)
	b.want(0, "rm", "--force", b.family)
}

// While an image is pulled, why says how much of it has come.
func TestWhySaysHowMuchOfAnImageHasCome(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image, err := registrytest.ProgramImage("testbox", append(bed.testbox, registrytest.Random(8<<20, uint64(os.Getpid()))...))
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := b.push("large:1", image)
	release := make(chan struct{})
	b.fault("GET", "large", "blobs/"+firstLayer(t, image).String(), 0, registrytest.Halfway(4*time.Second, release))
	b.detach("--name", b.family, b.hello(ref))
	b.says(b.family, `podtask is pulling .*large:1 for app, [0-9.]+ [kM]?B of [0-9.]+ MB have come`)
	close(release)
	b.want(0, "rm", "--force", b.family)
}

// A circuit breaker without a way back: why says what failed, and the command that goes back.
func TestWhySaysThatADeploymentIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	b.want(0, "service", "create", "--wait", "--no-rollback", b.family, b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 1}))
	b.want(0, "service", "update", b.family, b.define(ctr{Name: "app", Command: words("exit 3"), StopTimeout: 1}))
	b.says(b.family, `deployment `+b.family+`/2 \(.*\) failed, and podtask starts no more copies of it: .*go back with .podtask service rollback `+b.family)
	b.removeService()
}
