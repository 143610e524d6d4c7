package console

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/term"
	xterm "golang.org/x/term"
)

// WriterFunc is an io.Writer that calls itself.
type WriterFunc func([]byte) (int, error)

func (f WriterFunc) Write(b []byte) (int, error) { return f(b) }

// BytesText returns a size in decimal units, like podman images.
func BytesText(n int64) string {
	units := []string{"B", "kB", "MB", "GB"}
	v, i := float64(n), 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", v, units[i])
}

// DefaultColumns is the width of lines if neither the terminal nor COLUMNS gives one.
const DefaultColumns = 100

// Columns returns the maximum width of lines: COLUMNS, else the width of the terminal.
func Columns(w io.Writer, getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := term.Unwrap(w).(*os.File); ok {
		if n, _, err := xterm.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return DefaultColumns
}

// Ago returns how long ago something was, in words.
func Ago(now, at time.Time) string {
	d := now.Sub(at)
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		switch n := int(d / unit.of); {
		case n == 1:
			return "1 " + unit.name + " ago"
		case n > 1:
			return fmt.Sprintf("%d %ss ago", n, unit.name)
		}
	}
	return "just now"
}

// Span formats a duration: with tenths of a second below ten seconds, else in whole seconds.
func Span(d time.Duration) string {
	d = max(d, 0)
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// ShortSpan formats a duration in its largest unit: 45s, 3m, 5h, 12d.
func ShortSpan(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
