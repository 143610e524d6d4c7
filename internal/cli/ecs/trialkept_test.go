package ecs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killedTrial leaves a trial as a kill does: its record is there, and no process holds it.
func killedTrial(t *testing.T, state string, made int, known map[string]string) *trial {
	t.Helper()
	x := newTestTrial()
	x.name, x.known, x.patience, x.instance.dir = trialPrefix+"0a", known, time.Minute, filepath.Join(state, trialPrefix+"0a")
	x.aws.flags = []string{"--region", "eu-central-1"}
	x.made = x.resources()[:made]
	if err := os.MkdirAll(x.instance.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := x.keep(); err != nil {
		t.Fatal(err)
	}
	return x
}

// accountOf puts an aws command into PATH that writes down what it is asked, and says that it made an activation.
func accountOf(t *testing.T) (asked func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := "#!/bin/sh\necho \"$*\" >>" + log + "\ncase $2 in\ndescribe-activations) echo '{\"ActivationList\": [{\"ActivationId\": \"act-1\"}]}';;\n" +
		"describe-instance-information) echo '{\"InstanceInformationList\": [{\"InstanceId\": \"mi-1\"}]}';;\ndelete-log-group) echo ResourceNotFoundException >&2; exit 1;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "aws"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// A trial that was killed is found by the next one, which removes what AWS was asked for, also where it did not see the answer.
func TestAKilledTrialIsRemoved(t *testing.T) {
	asked := accountOf(t)
	state := t.TempDir()
	killed := killedTrial(t, state, len(newTestTrial().resources()), map[string]string{"$ACTIVATION_CODE": "the-code"})
	text, err := os.ReadFile(filepath.Join(killed.instance.dir, keptFile))
	if err != nil || bytes.Contains(text, []byte("the-code")) || bytes.Contains(text, []byte("very-secret")) {
		t.Errorf("the record is %s, %v", text, err)
	}
	next := newTestTrial()
	next.out, next.patience, next.instance.dir = &bytes.Buffer{}, time.Minute, filepath.Join(state, trialPrefix+"0b")
	next.aws.environ = os.Environ
	all, err := next.killed()
	if err != nil || len(all) != 1 || all[0].name != killed.name {
		t.Fatalf("%v, %v", all, err)
	}
	if again, err := next.killed(); err != nil || len(again) != 0 {
		t.Errorf("what is being removed is found again: %v, %v", again, err)
	}
	if err := next.removeKilled(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ecs delete-cluster --cluster " + killed.name, "logs delete-log-group", "ssm delete-parameter", "iam delete-role --role-name " + killed.name + "-execution",
		"ssm delete-activation --activation-id act-1", "ssm deregister-managed-instance --instance-id mi-1"} {
		if !strings.Contains(asked(), want) {
			t.Errorf("aws was not asked for %s:\n%s", want, asked())
		}
	}
	if _, err := os.Stat(killed.instance.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
}

// Only what was begun is removed, and a trial that runs is left alone.
func TestATrialThatRunsIsLeftAlone(t *testing.T) {
	asked := accountOf(t)
	state := t.TempDir()
	runs := killedTrial(t, state, 1, map[string]string{})
	if held, err := runs.instance.hold(); !held || err != nil {
		t.Fatal(held, err)
	}
	next := newTestTrial()
	next.out, next.patience, next.instance.dir, next.aws.environ = &bytes.Buffer{}, time.Minute, filepath.Join(state, trialPrefix+"0b"), os.Environ
	if all, err := next.killed(); err != nil || len(all) != 0 {
		t.Fatalf("%v, %v", all, err)
	}
	if err := runs.instance.lock.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := next.killed()
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if err := next.removeKilled(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if text := asked(); !strings.Contains(text, "delete-cluster") || strings.Count(text, "\n") != 1 {
		t.Errorf("aws was asked:\n%s", text)
	}
}
