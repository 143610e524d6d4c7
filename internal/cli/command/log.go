package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	journald "github.com/coreos/go-systemd/v22/journal"
	"github.com/podtask/podtask/internal/term"
)

// logFormat returns the format of a log on w; "auto" depends on what w is.
func logFormat(format string, w io.Writer, getenv func(string) string) string {
	if format != "auto" {
		return format
	}
	if isJournal(w, getenv("JOURNAL_STREAM")) {
		return "journald"
	}
	return "text"
}

// isJournal reports whether w is the stream to journald that a variable of systemd
// names by device and inode (systemd.exec(5), JOURNAL_STREAM).
func isJournal(w io.Writer, stream string) bool {
	f, ok := term.Unwrap(w).(*os.File)
	if !ok || stream == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && fmt.Sprintf("%d:%d", st.Dev, st.Ino) == stream
}

// newLog returns a log in the format text, json or journald. In the format journald, entries go to
// the socket of the journal if w ends up in the journal anyway.
func newLog(w io.Writer, format string, inJournal bool, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options))
	case "journald":
		return slog.New(newJournal(w, inJournal, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// journal writes to journald: to its socket with each attribute as a field of its own,
// PODTASK_TASK=... and so on, for `journalctl --user PODTASK_TASK=ID`, and where there is
// no socket as lines that begin with their priority, as journald reads them from a
// service's stderr (sd-daemon(3)). The message is the same: the text without the time.
type journal struct {
	out   io.Writer
	send  func(message string, priority journald.Priority, fields map[string]string) error // nil: no socket
	level slog.Leveler
	attrs []slog.Attr // with their groups in their keys
	group string
}

func newJournal(w io.Writer, inJournal bool, options *slog.HandlerOptions) journal {
	j := journal{out: w, level: options.Level}
	if inJournal && journald.Enabled() {
		j.send = journald.Send
	}
	return j
}

func priorityOf(level slog.Level) journald.Priority {
	switch {
	case level >= slog.LevelError:
		return journald.PriErr
	case level >= slog.LevelWarn:
		return journald.PriWarning
	case level >= slog.LevelInfo:
		return journald.PriInfo
	}
	return journald.PriDebug
}

// Enabled implements slog.Handler.
func (j journal) Enabled(_ context.Context, level slog.Level) bool { return level >= j.level.Level() }

// Handle implements slog.Handler.
func (j journal) Handle(ctx context.Context, r slog.Record) error {
	attrs := j.attrs
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs[:len(attrs):len(attrs)], j.grouped(a)); return true })
	var line bytes.Buffer
	text := slog.NewTextHandler(&line, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}}).WithAttrs(attrs)
	if err := text.Handle(ctx, slog.NewRecord(time.Time{}, r.Level, r.Message, 0)); err != nil {
		return err
	}
	priority := priorityOf(r.Level)
	if j.send != nil {
		fields := map[string]string{"SYSLOG_IDENTIFIER": "podtask"}
		for _, a := range attrs {
			fields[fieldName(a.Key)] = a.Value.Resolve().String()
		}
		if j.send(strings.TrimSuffix(line.String(), "\n"), priority, fields) == nil {
			return nil
		}
	}
	_, err := fmt.Fprintf(j.out, "<%d>%s", priority, &line)
	return err
}

// fieldName returns the name of a journal field for a key: A to Z, digits and underscores (systemd.journal-fields(7)).
func fieldName(key string) string {
	return "PODTASK_" + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(key))
}

func (j journal) grouped(a slog.Attr) slog.Attr {
	if j.group != "" {
		a.Key = j.group + "." + a.Key
	}
	return a
}

// WithAttrs implements slog.Handler.
func (j journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	j.attrs = slices.Clone(j.attrs)
	for _, a := range attrs {
		j.attrs = append(j.attrs, j.grouped(a))
	}
	return j
}

// WithGroup implements slog.Handler.
func (j journal) WithGroup(name string) slog.Handler {
	j.group = strings.TrimPrefix(j.group+"."+name, ".")
	return j
}
