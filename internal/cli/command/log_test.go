package command

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"testing"

	journald "github.com/coreos/go-systemd/v22/journal"
)

func TestJournalGetsFields(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	type entry struct {
		message  string
		priority journald.Priority
		fields   map[string]string
	}
	var sent []entry
	j := newJournal(&stderr, false, &slog.HandlerOptions{Level: slog.LevelInfo})
	j.send = func(message string, priority journald.Priority, fields map[string]string) error {
		if message == "msg=broken" {
			return errors.New("no socket any more")
		}
		sent = append(sent, entry{message, priority, fields})
		return nil
	}
	log := slog.New(j)
	log.Debug("not said")
	log.With("task", "abc").WithGroup("pull").Warn("a word", "first-byte", 3)
	log.Error("broken")
	want := entry{`msg="a word" task=abc pull.first-byte=3`, journald.PriWarning,
		map[string]string{"SYSLOG_IDENTIFIER": "podtask", "PODTASK_TASK": "abc", "PODTASK_PULL_FIRST_BYTE": "3"}}
	if len(sent) != 1 || sent[0].message != want.message || sent[0].priority != want.priority || !maps.Equal(sent[0].fields, want.fields) {
		t.Errorf("sent %+v, want %+v", sent, want)
	}
	if got := stderr.String(); got != "<3>msg=broken\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestLogOnATerminalOrInAPipe(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"journald": "<4>msg=hello task=abc\n",
		"text":     "level=WARN msg=hello task=abc\n",
		"json":     `"level":"WARN","msg":"hello","task":"abc"}` + "\n",
	} {
		var out bytes.Buffer
		newLog(&out, format, false, slog.LevelInfo).Warn("hello", "task", "abc")
		if got := out.Bytes(); !bytes.HasSuffix(got, []byte(want)) {
			t.Errorf("%s: %q, want …%q", format, got, want)
		}
	}
}
