package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	xterm "golang.org/x/term"
)

// The time between two updates of a pull: on a terminal, and in lines.
const (
	barPace  = 100 * time.Millisecond
	linePace = 10 * time.Second
)

// PullView shows the progress of pulls: as a bar for each image at the bottom of a terminal,
// as periodic lines elsewhere, or as JSON Lines. It is safe for concurrent use.
type PullView struct {
	Mode string // bar, plain, json or none
	out  io.Writer

	mu    sync.Mutex
	pulls map[string]*pull
	bars  pullBars
	board *Board      // shows the pulls, if there is one
	begun time.Time   // when the first of the pulls in progress began
	next  *time.Timer // writes the next line; nil while nothing is being pulled
}

// pull is one image being pulled. Layers and the total become known gradually.
type pull struct {
	waiting, ended bool
	layers         map[string][2]int64 // current and total bytes
}

// ProgressModes has the values of --progress.
var ProgressModes = []string{"auto", "plain", "json", "none"}

// NewPullView returns the view for a value of --progress; auto is bars on a terminal, else lines.
func NewPullView(mode string, out io.Writer, getenv func(string) string) *PullView {
	if mode == "auto" {
		mode = "plain"
		if f, ok := term.Unwrap(out).(*os.File); ok && getenv("TERM") != "dumb" && xterm.IsTerminal(int(f.Fd())) {
			mode = "bar"
		}
	}
	return &PullView{Mode: mode, out: out, bars: pullBars{out: out}, pulls: map[string]*pull{}}
}

// Observe adds a step of a pull.
func (v *PullView) Observe(p api.Pull) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.Mode == "none" {
		return
	}
	if v.Mode == "json" {
		// A closed output stops the task elsewhere.
		_ = json.NewEncoder(term.JSON(v.out)).Encode(p)
		return
	}
	v.note(p)
	if v.Mode == "plain" {
		v.schedule()
		return
	}
	if v.board != nil {
		v.board.draw()
		return
	}
	v.bars.update(p.Image, v.pulls[p.Image])
}

// schedule prints a line periodically while anything is being pulled, whether or not Podman reports
// progress. A quick pull prints none.
func (v *PullView) schedule() {
	switch busy := v.text() != ""; {
	case busy && v.next == nil:
		v.begun = time.Now()
		v.next = time.AfterFunc(linePace, v.tick)
	case !busy && v.next != nil:
		v.next.Stop()
		v.next = nil
	}
}

func (v *PullView) tick() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.next == nil {
		return // the timer fired before it was stopped
	}
	if text := v.text(); text != "" {
		fmt.Fprintln(v.out, text)
	}
	v.next.Reset(linePace)
}

func (v *PullView) note(p api.Pull) {
	one := v.pulls[p.Image]
	if one == nil {
		one = &pull{layers: map[string][2]int64{}}
		v.pulls[p.Image] = one
	}
	phase := imagestore.Phase(p.Phase)
	one.waiting = phase == imagestore.Waiting
	one.ended = phase == imagestore.Done || phase == imagestore.Failed
	if p.Layer != "" {
		bytes := one.layers[p.Layer]
		bytes[0], bytes[1] = max(bytes[0], p.Current), max(bytes[1], p.Total)
		if p.Done {
			bytes[0] = bytes[1]
		}
		one.layers[p.Layer] = bytes
	}
}

// Forget removes the pulls of another process that no longer reports them.
func (v *PullView) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.pulls)
	switch v.Mode {
	case "plain":
		v.schedule()
	case "bar":
		v.bars.clear()
	}
}

// text returns the summary; empty if nothing is being pulled.
func (v *PullView) text() string {
	var active, waiting int
	var current, total int64
	for _, one := range v.pulls {
		switch {
		case one.ended:
			continue
		case one.waiting:
			waiting++
		default:
			active++
		}
		c, t := one.bytes()
		current, total = current+c, total+t
	}
	text := pullsText(active, waiting)
	if text == "" {
		return ""
	}
	if !v.begun.IsZero() {
		text += fmt.Sprintf(" for %v", time.Since(v.begun).Round(time.Second))
	}
	if total > 0 {
		text += fmt.Sprintf("  %s of %s  %d%%", BytesText(current), BytesText(total), 100*current/total)
	}
	return text
}

// pullsText returns the number of pulls as text; empty for none.
func pullsText(active, waiting int) string {
	var text string
	switch {
	case active == 1:
		text = "pulling 1 image"
	case active > 1:
		text = fmt.Sprintf("pulling %d images", active)
	case waiting == 1:
		return "1 image waits for another pull"
	case waiting > 1:
		return fmt.Sprintf("%d images wait for other pulls", waiting)
	}
	if waiting > 0 {
		text += fmt.Sprintf(", %d more to come", waiting)
	}
	return text
}

// bytes returns the pulled bytes and those of all known layers.
func (p *pull) bytes() (current, total int64) {
	for _, bytes := range p.layers {
		current, total = current+bytes[0], total+bytes[1]
	}
	return current, total
}

// Above returns a writer whose lines appear above the bars if w is the same terminal; otherwise it writes to
// w. Each Write must have whole lines.
func (v *PullView) Above(w io.Writer) io.Writer {
	if f, ok := term.Unwrap(w).(*os.File); v.Mode != "bar" || !ok || !xterm.IsTerminal(int(f.Fd())) {
		return w
	}
	return TerminalWriter{To: w, Writer: term.NewScreen(WriterFunc(func(b []byte) (int, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.board != nil {
			if n, done, err := v.board.write(b); done {
				return n, err
			}
		}
		if n, done, err := v.bars.write(b); done {
			return n, err
		}
		return w.Write(b)
	}))}
}
