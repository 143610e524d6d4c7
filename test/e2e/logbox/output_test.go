package logbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/docker/docker/daemon/logger"
	_ "github.com/docker/docker/daemon/logger/awslogs"
	_ "github.com/docker/docker/daemon/logger/fluentd"
	_ "github.com/docker/docker/daemon/logger/gelf"
	_ "github.com/docker/docker/daemon/logger/loggerutils/cache"
	_ "github.com/docker/docker/daemon/logger/splunk"
	_ "github.com/docker/docker/daemon/logger/syslog"

	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// TestMain gives Docker's awslogs credentials.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"} {
		os.Setenv(name, value)
	}
	_ = log.SetLevel("panic") // Docker's drivers say each group that does not exist yet
	os.Exit(m.Run())
}

// write is one write of a container.
type write struct {
	stream logroute.Stream
	data   []byte
}

// output is what a container writes.
type output []write

// of is what comes on one stream.
func (o output) of(s logroute.Stream) []byte {
	var all []byte
	for _, w := range o {
		if w.stream == s {
			all = append(all, w.data...)
		}
	}
	return all
}

// last is in the last record of each stream.
const last = "the end"

// kinds are texts that senders treat in a special way.
var kinds = []string{
	"hello", "", " ", "\t", "cr\r", "two\rhalves", "nul\x00byte", "\xff\xfe not UTF-8 \xc3", "grüße €", "2026-01-02 begin", "  continued",
	`{"level":"info","n":1}`, `{"level":`, "<b>&amp;</b>", `"quoted" \ back`, "\x1b[31mred\x1b[0m", "\u2028", "%s %d %%", "{{.Name}}",
}

// random returns output in pieces of any size, with lines of all kinds. Where one ends does not
// say where a write does. Long lines are of ASCII: podtask never cuts inside a character.
func random(r *rand.Rand, streams int, longest int) (o output) {
	var texts [2]strings.Builder
	for s := range streams {
		for range 1 + r.IntN(20) {
			line := kinds[r.IntN(len(kinds))]
			switch r.IntN(12) {
			case 0:
				line = strings.Repeat("x", r.IntN(longest)/2*2+1)
			case 1: // about where lines are cut; one of exactly that length is followed by nothing here, by an empty record with Docker
				line = strings.Repeat("y", min(longest, 16<<10)-1+2*r.IntN(2))
			}
			texts[s].WriteString(line + "\n")
		}
		texts[s].WriteString(last)
		if r.IntN(2) == 0 {
			texts[s].WriteByte('\n')
		}
	}
	left := [2][]byte{[]byte(texts[0].String()), []byte(texts[1].String())}
	for len(left[0])+len(left[1]) > 0 {
		s := r.IntN(2)
		n := min(len(left[s]), 1+r.IntN(9000))
		if n > 0 {
			o = append(o, write{logroute.Stream(s), left[s][:n]})
			left[s] = left[s][n:]
		}
	}
	return o
}

// conmonRead is how much conmon reads at once.
const conmonRead = 8 << 10

// place writes the log file of a container as conmon does, in two segments.
func (o output) place(t *testing.T) logfiles.Files {
	t.Helper()
	files := logfiles.In(t.TempDir()).Of("task", 0)
	if err := files.Place(); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 9, 12, 0, 0, 0, time.UTC)
	for i, w := range o {
		var b []byte
		for data := w.data; len(data) > 0; {
			read := data[:min(len(data), conmonRead)]
			data = data[len(read):]
			at = at.Add(time.Millisecond)
			for len(read) > 0 {
				line, rest, whole := bytes.Cut(read, []byte("\n"))
				b = logroute.Piece{Time: at, Stream: w.stream, Last: whole, Text: line}.Append(b)
				read = rest
			}
		}
		f, err := os.OpenFile(files.Path(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(b)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if i == len(o)/2 {
			if _, err := files.Rotate(1, func(int64) error { return os.Remove(files.Path()) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := files.Place(); err != nil {
		t.Fatal(err)
	}
	if err := files.Seal(at); err != nil {
		t.Fatal(err)
	}
	return files
}

// sender is what podtask's senders are.
type sender interface {
	Add(logroute.Entry)
	Full() bool
	Settle(before time.Time) bool
	Send(ctx context.Context) (logroute.Sent, error)
	Limits() logroute.Limits
}

// podtask sends output through a sender of podtask, as the owner of a task does.
func podtask(t *testing.T, s sender, o output) {
	t.Helper()
	if c, ok := s.(io.Closer); ok {
		defer c.Close()
	}
	r := o.place(t).Reader(logroute.Position{}, s.Limits().LineBytes)
	defer r.Close()
	send := func(until func() bool) {
		for moved := true; moved && !until(); {
			sent, err := s.Send(t.Context())
			for range 2 { // the stream was just made
				if err != nil {
					sent, err = s.Send(t.Context())
				}
			}
			if err != nil || sent.Lost > 0 {
				t.Fatalf("sent %+v, %v", sent, err)
			}
			moved = sent.Moved
		}
	}
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Add(e)
		if s.Full() {
			send(func() bool { return !s.Full() })
		}
	}
	for _, e := range r.Rest() {
		s.Add(e)
	}
	s.Settle(time.Unix(1<<40, 0))
	send(func() bool { return false })
	if r.Damaged > 0 {
		t.Errorf("%d lines are damaged", r.Damaged)
	}
}

// info says to Docker's drivers what origin says to podtask's.
func info(options map[string]string) logger.Info {
	o := origin(options)
	return logger.Info{
		Config: options, ContainerID: o.ContainerID, ContainerName: o.ContainerName, ContainerEntrypoint: o.ContainerEntrypoint, ContainerArgs: o.ContainerArgs,
		ContainerImageID: o.ContainerImageID, ContainerImageName: o.ContainerImageName, ContainerCreated: o.ContainerCreated, ContainerEnv: o.ContainerEnv,
		ContainerLabels: o.ContainerLabels, DaemonName: o.DaemonName,
	}
}

func origin(options map[string]string) logdriver.Origin {
	return logdriver.Origin{
		Config: options, ContainerID: strings.Repeat("0123456789abcdef", 4), ContainerName: "/podtask-0123-app", ContainerEntrypoint: "/app", ContainerArgs: []string{"-v", "a b"},
		ContainerImageID: "sha256:" + strings.Repeat("fedcba9876543210", 4), ContainerImageName: "registry/shop:1", ContainerCreated: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		ContainerEnv: []string{"STAGE=test", "PATH=/bin", "EMPTY="}, ContainerLabels: map[string]string{"team": "blue", "tier": "web", "_hidden": "yes"}, DaemonName: "podtask",
	}
}

// docker sends output through a driver of Docker.
func docker(t *testing.T, driver string, options map[string]string, o output) {
	t.Helper()
	if err := logger.ValidateLogOpts(driver, options); err != nil {
		t.Fatal(err)
	}
	create, err := logger.GetLogDriver(driver)
	if err != nil {
		t.Fatal(err)
	}
	l, err := create(info(options))
	if err != nil {
		t.Fatal(err)
	}
	c := logger.NewCopier(map[string]io.Reader{"stdout": bytes.NewReader(o.of(logroute.Stdout)), "stderr": bytes.NewReader(o.of(logroute.Stderr))}, l)
	c.Run()
	c.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// seeds runs fn with n random generators.
func seeds(t *testing.T, n int, fn func(t *testing.T, r *rand.Rand)) {
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { fn(t, rand.New(rand.NewPCG(uint64(seed), 1))) })
	}
}
