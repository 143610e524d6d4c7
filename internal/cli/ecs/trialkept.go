package ecs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"golang.org/x/sys/unix"
)

// kept is the record of a trial: what a later one needs to remove what this one made, if it is killed. It has no secrets.
type kept struct {
	Name   string   `json:"name"`
	Region string   `json:"region"`
	Flags  []string `json:"flags"`
	// Known are values that AWS has answered, by the names that the commands call them.
	Known map[string]string `json:"known"`
	// Made is the number of resources whose making has begun.
	Made        int      `json:"made"`
	Definitions []string `json:"definitions,omitempty"`
	// Process is the id of the instance's process; 0 before it was started.
	Process int `json:"process,omitempty"`
}

const (
	trialPrefix = "podtask-trial-"
	keptFile    = "trial.json"
)

// keep records what the trial has made or is about to make.
func (t *trial) keep() error {
	k := kept{Name: t.name, Region: t.region, Flags: t.aws.flags, Known: maps.Clone(t.known), Made: len(t.made), Definitions: t.definitions}
	delete(k.Known, "$ACTIVATION_CODE")
	if t.instance.process != nil {
		k.Process = t.instance.process.cmd.Process.Pid
	}
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(t.instance.dir, keptFile), text, 0o600)
}

// hold keeps other trials from removing what this one makes, as long as the process runs. False: another process holds it.
func (j *joined) hold() (held bool, err error) {
	f, err := os.OpenFile(filepath.Join(j.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		j.lock = f
		return true, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return false, errors.Join(err, f.Close())
}

// killed returns the trials of this user that were killed, with what is left of them.
func (t *trial) killed() (all []*trial, err error) {
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(t.instance.dir), trialPrefix+"*"))
	for _, dir := range dirs {
		text, readErr := os.ReadFile(filepath.Join(dir, keptFile))
		var k kept
		if readErr != nil || json.Unmarshal(text, &k) != nil || k.Name != filepath.Base(dir) {
			continue // nothing was made
		}
		old, instance := *t, t.instance.of(dir, k.Name, k.Region)
		held, holdErr := instance.hold()
		if err = errors.Join(err, holdErr); !held {
			continue
		}
		old.name, old.region, old.known, old.definitions, old.instance = k.Name, k.Region, k.Known, k.Definitions, instance
		old.aws.flags, old.results, old.made = k.Flags, nil, nil
		if resources := old.resources(); k.Made >= 0 && k.Made <= len(resources) {
			old.made = resources[:k.Made]
		}
		old.instance.left = k.Process
		all = append(all, &old)
	}
	return all, err
}

// removeKilled removes what earlier trials left. What cannot be removed is the error: nothing more is made then.
func (t *trial) removeKilled(ctx context.Context, killed []*trial) error {
	var left []error
	for _, old := range killed {
		fmt.Fprintln(t.out, "Removing what the trial "+old.name+" left, which was killed")
		left = append(left, old.find(ctx)...)
		left = append(left, old.removeAll(ctx)...)
	}
	return errors.Join(left...)
}

// find asks for what AWS answered after the trial was killed: the activation, and the instance that was registered with it.
func (t *trial) find(ctx context.Context) (errs []error) {
	if t.known["$ACTIVATION_ID"] == "" && len(t.made) == len(t.resources()) {
		var list struct {
			ActivationList []struct{ ActivationID string }
		}
		errs = append(errs, t.aws.call(ctx, &list, "ssm", "describe-activations", "--filters", "FilterKey=DefaultInstanceName,FilterValues="+t.name))
		for _, a := range list.ActivationList {
			t.known["$ACTIVATION_ID"] = a.ActivationID
		}
	}
	if id := t.known["$ACTIVATION_ID"]; id != "" && t.known["$INSTANCE_ID"] == "" {
		var list struct {
			InstanceInformationList []struct{ InstanceID string }
		}
		errs = append(errs, t.aws.call(ctx, &list, "ssm", "describe-instance-information", "--filters", "Key=ActivationIds,Values="+id))
		for _, i := range list.InstanceInformationList {
			t.known["$INSTANCE_ID"] = i.InstanceID
		}
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// of returns the instance of a trial with another directory.
func (j *joined) of(dir, name, region string) *joined {
	old := *j
	old.dir, old.cluster, old.region, old.process, old.environ = dir, name, region, nil, nil
	for _, v := range j.environ {
		switch key, value, _ := strings.Cut(v, "="); key {
		case "XDG_STATE_HOME":
			v = key + "=" + dir
		case "XDG_RUNTIME_DIR":
			v = key + "=" + filepath.Join(filepath.Dir(value), name)
		}
		old.environ = append(old.environ, v)
	}
	return &old
}

// stopLeft stops the process of an instance whose trial was killed, if it still is that process.
func (j *joined) stopLeft() {
	for range 100 { // ten seconds
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(j.left) + "/environ")
		if j.left <= 0 || err != nil || !bytes.Contains(environ, []byte("XDG_STATE_HOME="+j.dir+"\x00")) {
			return
		}
		_ = syscall.Kill(j.left, syscall.SIGTERM) // it may have ended
		time.Sleep(100 * time.Millisecond)
	}
}
