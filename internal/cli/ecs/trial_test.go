package ecs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func newTestTrial() *trial {
	return &trial{name: "podtask-trial-1", secret: "very-secret", region: "eu-central-1", patience: time.Millisecond, pause: time.Microsecond, instance: &joined{},
		known: map[string]string{"$ACTIVATION_CODE": "the-code", "$ACTIVATION_ID": "the-id"}}
}

// A report is sent to others: it has no account, host, key, address or secret, whatever AWS has said.
func TestAReportHasNothingPrivate(t *testing.T) {
	t.Parallel()
	x := newTestTrial()
	private := []string{"very-secret", "the-code", "the-id", "111122223333", "mi-0123456789abcdef0", "ASIAEXAMPLEKEY", "10.1.2.3", "0a1b2c3d-0000-1111-2222-0123456789ab",
		strings.Repeat("ab", 16), "jane", "c2lnbmVk"}
	said := "User: arn:aws:sts::111122223333:assumed-role/admin/jane is not authorized; very-secret the-code the-id mi-0123456789abcdef0 ASIAEXAMPLEKEY from 10.1.2.3, " +
		"0a1b2c3d-0000-1111-2222-0123456789ab, task/" + strings.Repeat("ab", 16) + "?X-Amz-Signature=c2lnbmVk"
	x.results = []result{{name: "exit", expected: "STOPPED", answer: said + " | x", took: time.Second}}
	text := string(x.report(time.Now(), errors.New(said), []error{errors.New("not removed: " + said)}))
	for _, p := range private {
		if strings.Contains(text, p) {
			t.Errorf("the report has %s:\n%s", p, text)
		}
	}
	for _, want := range []string{"| exit | STOPPED |", "DIFFERS", "is not authorized", "ended early", "not removed"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %s:\n%s", want, text)
		}
	}
}

// What a hostile service or aws command says brings nothing private into the report, in whatever form, and no Markdown.
func TestAReportOfHostileAnswers(t *testing.T) {
	t.Parallel()
	private := []string{
		"111122223333", "1111-2222-3333", "0A1B2C3D-0000-1111-2222-0123456789AB", strings.Repeat("AB", 16), "2a01:4f8:c17:b0f::2", "fe80::1c2d:3eff:fe4f:5a6b",
		"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "IQoJb3JpZ2luX2VjEPT//////////wEaCXVzLWVhc3QtMSJHMEUCIQ", "hunter2", "<script>", "](http", "@everyone",
	}
	said := "role MyRole111122223333 in account 1111-2222-3333, task_111122223333_x 0A1B2C3D-0000-1111-2222-0123456789AB " + strings.Repeat("AB", 16) +
		` from [2a01:4f8:c17:b0f::2]:443 and fe80::1c2d:3eff:fe4f:5a6b {"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "SessionToken": "IQoJb3JpZ2luX2VjEPT//////////wEaCXVzLWVhc3QtMSJHMEUCIQ"}` +
		" raw wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY password: hunter2 Authorization: Bearer hunter2 <script>x</script> [here](http://evil) @everyone\n\n# Title\x1b[2J"
	x := newTestTrial()
	x.results = []result{{name: "exit", expected: "STOPPED", answer: said, took: time.Second}}
	x.instance.process = &running{}
	x.instance.process.lines.text = []byte(said + "\n```\n# Out of the block\n" + said)
	text := string(x.report(time.Now(), errors.New(said), []error{errors.New("not removed: " + said)}))
	code := strings.Index(text, "\n```\n")
	if strings.Count(text, "```") != 2 || strings.Contains(text, "\x1b") || strings.Contains(text[:code], "\n# Title") {
		t.Errorf("Markdown or escapes are in the report:\n%s", text)
	}
	for _, p := range private {
		if at := strings.Index(text, p); at >= 0 && (at < code || !strings.ContainsAny(p, "<(@")) { // in a block of code they mean nothing
			t.Errorf("the report has %s:\n%s", p, text)
		}
	}
}

// Each thing that is made has a command that removes it, and both are printed; no value is in them.
func TestTheCommandsOfATrialArePrinted(t *testing.T) {
	t.Parallel()
	x := newTestTrial()
	var out bytes.Buffer
	x.printCommands(&out)
	made, removed, _ := strings.Cut(out.String(), "# Remove")
	for _, verb := range [][2]string{{"create-cluster", "delete-cluster"}, {"create-log-group", "delete-log-group"}, {"put-parameter", "delete-parameter"},
		{"create-role", "delete-role"}, {"attach-role-policy", "detach-role-policy"}, {"put-role-policy", "delete-role-policy"}, {"create-activation", "delete-activation"},
		{"ecs join", "ecs leave"}, {"ecs activate", "ssm deregister-managed-instance"}} {
		if n := strings.Count(made, " "+verb[0]+" "); n == 0 || n != strings.Count(removed, " "+verb[1]+" ") {
			t.Errorf("%s %d times, %s %d times", verb[0], n, verb[1], strings.Count(removed, " "+verb[1]+" "))
		}
	}
	if strings.Contains(out.String(), x.secret) || strings.Contains(out.String(), "the-code") {
		t.Error("a value is in the commands")
	}
}

// What does not come ends the wait with what was said last; an error ends it at once.
func TestATrialWaitsForAsLongAsItHasPatience(t *testing.T) {
	t.Parallel()
	x, asked := newTestTrial(), 0
	_, err := x.until(t.Context(), func(context.Context) (bool, string, error) {
		asked++
		return false, fmt.Sprintf("answer %d", asked), nil
	})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("answer %d", asked)) {
		t.Errorf("%d questions: %v", asked, err)
	}
	refused := errors.New("refused")
	if _, err := x.until(t.Context(), func(context.Context) (bool, string, error) { return false, "", refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
}

func TestAProgramThatPrintsWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	if _, err := output(exec.CommandContext(t.Context(), "yes")); err == nil {
		t.Error("its output is kept")
	}
}

// Ctrl-C in a terminal signals one process group.
func TestProgramsOfATrialHaveTheirOwnProcessGroup(t *testing.T) {
	t.Parallel()
	text, err := output(exec.CommandContext(t.Context(), "sh", "-c", "read -r pid name state parent group rest </proc/$$/stat; echo $pid $group"))
	if words := strings.Fields(string(text)); err != nil || len(words) != 2 || words[0] != words[1] {
		t.Errorf("process and group: %q, %v", text, err)
	}
}

func TestPartitionsOfRegions(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{"eu-central-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "eusc-de-east-1": "aws-eusc"} {
		if got := partition(region); got != want {
			t.Errorf("%s: %s", region, got)
		}
	}
}
