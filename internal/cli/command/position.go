package command

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
)

// Names of the hidden flags of commands that continue where they were when the connection to their host broke.
const (
	PositionsFlag = "positions" // print a position with each piece of output
	ResumeFlag    = "resume"    // begin behind a position, KEY=PLACE
)

// PositionFlags returns the hidden flags of a command that continues after a broken connection.
func PositionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: PositionsFlag, Hidden: true, Usage: "for podtask on another machine: print a position with each piece of output"},
		&cli.StringSliceFlag{Name: ResumeFlag, Hidden: true, Usage: "for podtask on another machine: begin behind `POSITION`"},
	}
}

const (
	frameBegin = 0x1e
	// maxFrameHead bounds the first line of a frame, maxFrame its text, in bytes.
	maxFrameHead = 1 << 10
	maxFrame     = 16 << 20
)

// WritePosition writes a piece of output with the place of its source behind it, in one Write. An empty text only
// says where the source begins.
func WritePosition(w io.Writer, source, place string, text []byte) error {
	frame := fmt.Appendf(nil, "%c%d %s=%s\n", frameBegin, len(text), source, place)
	_, err := w.Write(append(frame, text...))
	return err
}

// ParsePosition splits the value of the flag ResumeFlag.
func ParsePosition(text string) (source, place string, ok bool) { return strings.Cut(text, "=") }

// Positions collects the places of the sources of a command. It is safe for concurrent use.
type Positions struct {
	mu     sync.Mutex
	places map[string]string
}

// maxPositions bounds the sources of one command.
const maxPositions = 4096

// List returns the positions, as the flag ResumeFlag takes them.
func (p *Positions) List() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(p.places)) {
		list = append(list, source+"="+p.places[source])
	}
	return list
}

func (p *Positions) set(source, place string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places == nil {
		p.places = make(map[string]string)
	}
	if _, known := p.places[source]; known || len(p.places) < maxPositions {
		p.places[source] = place
	}
}

// Writer returns a writer for an output with positions: it passes the text to w and stores the positions. A piece
// that has not arrived completely is left out.
func (p *Positions) Writer(w io.Writer) io.Writer { return &positionWriter{all: p, to: w} }

type positionWriter struct {
	all  *Positions
	to   io.Writer
	kept []byte
}

// Write implements io.Writer.
func (w *positionWriter) Write(b []byte) (int, error) {
	w.kept = append(w.kept, b...)
	for len(w.kept) > 0 {
		rest, more, err := w.next(w.kept)
		if err != nil {
			return 0, err
		}
		w.kept = rest
		if !more {
			break
		}
	}
	w.kept = bytes.Clone(w.kept)
	return len(b), nil
}

// next passes on one piece. More is false if the rest is incomplete.
func (w *positionWriter) next(b []byte) (rest []byte, more bool, err error) {
	begin := bytes.IndexByte(b, frameBegin)
	if begin != 0 { // text without a position, such as a warning
		if begin < 0 {
			begin = len(b)
		}
		_, err := w.to.Write(b[:begin])
		return b[begin:], true, err
	}
	end := bytes.IndexByte(b[:min(len(b), maxFrameHead)], '\n')
	if end < 0 && len(b) < maxFrameHead {
		return b, false, nil
	}
	size, position, ok := strings.Cut(string(b[1:max(1, end)]), " ")
	n, numberErr := strconv.Atoi(size)
	source, place, two := ParsePosition(position)
	if !ok || !two || numberErr != nil || n < 0 || n > maxFrame || end < 0 { // no frame
		_, err := w.to.Write(b[:1])
		return b[1:], true, err
	}
	if len(b) < end+1+n {
		return b, false, nil
	}
	if n > 0 {
		if _, err := w.to.Write(b[end+1 : end+1+n]); err != nil {
			return nil, false, err
		}
	}
	w.all.set(source, place)
	return b[end+1+n:], true, nil
}
