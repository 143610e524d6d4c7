package sshhost

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/xtaci/smux"
)

// protocol is the version of what the two ends say to each other. A later one keeps the form of the
// greeting.
const protocol = 1

// Greeting is the first line of a Server. Lines before it are what shells print at a login.
type Greeting struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of podtask
	// Memory and Disk are directories for files that are sent; they are made when files come.
	Memory string `json:"memory"`
	Disk   string `json:"disk"`
}

const (
	greetingPrefix = "podtask-session "
	// maxNoise bounds the bytes before the greeting, maxLine a line of the protocol.
	maxNoise = 64 << 10
	maxLine  = 4 << 20
)

// writeGreeting begins with an end of line, because a shell may have printed a text without one.
func writeGreeting(w io.Writer, g Greeting) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n"+greetingPrefix+string(text)+"\n")
	return err
}

// errNoise reports an answer that is not a greeting.
var errNoise = errors.New("it printed other text than podtask's greeting: shell startup files must print nothing in a command by ssh")

// errLongLine reports a line that is longer than any of the protocol.
var errLongLine = errors.New("a line has more than the limit")

// readGreeting reads up to the end of the greeting. Noise is what came before it.
func readGreeting(r *bufio.Reader) (g Greeting, noise string, err error) {
	var before bytes.Buffer
	for before.Len() < maxNoise {
		line, err := readLine(r, maxNoise)
		if text, ok := strings.CutPrefix(string(line), greetingPrefix); ok && err == nil {
			if err := json.Unmarshal([]byte(text), &g); err != nil || g.Protocol < 1 {
				return g, before.String(), errNoise
			}
			return g, before.String(), nil
		}
		before.Write(line)
		before.WriteByte('\n')
		if errors.Is(err, errLongLine) {
			return g, before.String(), errNoise
		}
		if err != nil {
			return g, before.String(), err
		}
	}
	return g, before.String(), errNoise
}

// readLine reads a line of at most limit bytes and returns it without its end.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return line[:limit], fmt.Errorf("%w of %d bytes", errLongLine, limit)
		case err == nil:
			return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

func readJSON(r *bufio.Reader, v any) error {
	line, err := readLine(r, maxLine)
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

func writeJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// opening is the first line of each stream. A command has five, of the same number: its request, with
// signals behind it and the exit code as the answer; files as a tar archive; and its input and
// outputs. Dial makes the stream a connection to an address of the other host's loopback.
type opening struct {
	Run  int    `json:"run,omitempty"`
	Part part   `json:"part,omitempty"`
	Dial string `json:"dial,omitempty"`
}

type part string

const (
	partRequest part = "request"
	partFiles   part = "files"
	partInput   part = "input"
	partOutput  part = "output"
	partErrors  part = "errors"
)

// runParts are the streams of a command, in the order in which they are opened.
var runParts = []part{partRequest, partFiles, partInput, partOutput, partErrors}

// Mode selects pipes or a terminal for the outputs of a command.
type Mode string

const (
	// Pipes means: the outputs are not terminals.
	Pipes Mode = ""
	// Screen means: both outputs are one terminal, and the input is none.
	Screen Mode = "screen"
	// Terminal means: the command has the terminal for itself.
	Terminal Mode = "terminal"
)

// Request is a command line to run on the other host.
type Request struct {
	Args []string `json:"args"` // behind "podtask"
	// Caller has variables of this machine, NAME=VALUE, that the command line or its documents
	// name. They are not the environment of the process.
	Caller []string `json:"caller,omitempty"`
	// Environment has variables that say how to print, such as TERM.
	Environment []string `json:"environment,omitempty"`
	Mode        Mode     `json:"mode,omitempty"`
	Size        Size     `json:"size"`
	// Dir is the working directory, below Memory or Disk of the greeting; empty for the home.
	Dir string `json:"dir,omitempty"`
	// Stops: the command ends by itself once it is told to, however long that takes.
	Stops bool `json:"stops,omitempty"`
}

// Size is the size of a terminal.
type Size struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// control is a line behind a request.
type control struct {
	Signal int   `json:"signal,omitempty"`
	Size   *Size `json:"size,omitempty"`
	// Closed is an output that nobody reads any more.
	Closed part `json:"closed,omitempty"`
}

// ending is the answer to a request. The error is for a command that could not be started.
type ending struct {
	Exit  int    `json:"exit"`
	Error string `json:"error,omitempty"`
}

// interval is the time between two signs of life. A client gives up after clientTimeout without
// one. A server waits longer, because a client that is suspended (Ctrl-Z) sends none.
const (
	interval      = 5 * time.Second
	clientTimeout = 20 * time.Second
	serverTimeout = 2 * time.Minute
)

func muxConfig(timeout time.Duration) *smux.Config {
	c := smux.DefaultConfig()
	c.Version = 2 // a reader that is slow holds up its own stream only
	c.KeepAliveInterval, c.KeepAliveTimeout = interval, timeout
	c.MaxStreamBuffer, c.MaxReceiveBuffer = 1<<20, 8<<20
	return c
}

// maxSkew is the greatest difference between the minor versions of the two programs.
const maxSkew = 2

// SkewError reports a podtask that is too old or too new for this one.
type SkewError struct {
	Here, There string
	Host        Host
}

func (e *SkewError) Error() string {
	return fmt.Sprintf("podtask %s on %s and %s here are more than %d minor versions apart: update the older one; `podtask host setup %s` copies this one there", e.There, e.Host, e.Here, maxSkew, e.Host)
}

// checkSkew returns a *SkewError for versions that are too far apart. Versions that are none,
// such as those of builds from a working tree, are not compared.
func checkSkew(h Host, here, there string, proto int) error {
	a, aok := minor(here)
	b, bok := minor(there)
	if proto == protocol && (!aok || !bok || a[0] == b[0] && max(a[1]-b[1], b[1]-a[1]) <= maxSkew) {
		return nil
	}
	return &SkewError{Here: printable(here), There: printable(there), Host: h}
}

// minor returns the major and the minor number of a version such as v1.4.2.
func minor(version string) (numbers [2]int, ok bool) {
	fields := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(fields) < 3 || strings.HasPrefix(version, "v0.0.0-") { // a pseudo-version of Go
		return numbers, false
	}
	for i := range numbers {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return numbers, false
		}
		numbers[i] = n
	}
	return numbers, true
}

// printable shortens a version to what can be printed.
func printable(version string) string {
	version = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, version)
	if version == "" {
		return "of an unknown version"
	}
	return version[:min(len(version), 64)]
}
