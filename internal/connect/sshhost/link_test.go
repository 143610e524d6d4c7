package sshhost

import (
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xtaci/smux"
)

func TestACommandRunsThere(t *testing.T) {
	t.Parallel()
	w := connect(t)
	if got, want := w.run(t, Request{Args: []string{"say", "a b", "--c=$d"}}, Streams{}), (result{"a b --c=$d\n", "and to stderr\n", 7, nil}); got != want {
		t.Errorf("%+v", got)
	}
	big := strings.Repeat("0123456789abcdef", 1<<17)
	if got := w.run(t, Request{Args: []string{"cat"}}, Streams{In: strings.NewReader(big)}); got.out != big || got.code != 0 {
		t.Errorf("%d bytes came back of %d: %d %v", len(got.out), len(big), got.code, got.failure)
	}
	if got := w.run(t, Request{Args: []string{"die"}}, Streams{}); got.code != 128+9 {
		t.Errorf("killed: %+v", got)
	}
}

func TestOnlyWhatSaysHowToPrintIsTakenFromTheCaller(t *testing.T) {
	t.Parallel()
	w := connect(t)
	got := w.run(t, Request{Args: []string{"environ"}, Caller: []string{"SECRET=hunter2"}, Environment: []string{"TERM=vt52", "LD_PRELOAD=/x.so", "LC_ALL=C", "PATH=/evil"}}, Streams{})
	for _, line := range []string{"TERM=vt52", "LC_ALL=C", "caller [SECRET=hunter2]"} {
		if !strings.Contains(got.out, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, got.out)
		}
	}
	for _, line := range []string{"SECRET=", "LD_PRELOAD", "/evil", "PODTASK_HOST"} {
		if strings.Contains(strings.ReplaceAll(got.out, "caller [SECRET=hunter2]", ""), line) {
			t.Errorf("%s reached the environment of the process", line)
		}
	}
}

func TestFilesKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	w := connect(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"one": "1", "deep/two": "2"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := Files{filepath.Join(dir, "one"): nil, filepath.Join(dir, "deep"): nil, filepath.Join(dir, "three"): []byte("3")}
	for _, base := range []string{w.Greeting.Memory, w.Greeting.Disk} {
		got := w.run(t, Request{Args: []string{"files", "one", "deep/two", "three", base + dir + "/one"}, Dir: filepath.Join(base, dir)}, Streams{Files: files})
		if want := "one: 1 <nil>\ndeep/two: 2 <nil>\nthree: 3 <nil>\n" + base + dir + "/one: 1 <nil>\n"; got.out != want {
			t.Errorf("%+v", got)
		}
	}
	if got := w.run(t, Request{Args: []string{"say"}, Dir: filepath.Join(w.Greeting.Memory, "../..")}, Streams{Files: files}); got.failure == nil {
		t.Errorf("a directory outside: %+v", got)
	}
	got := w.run(t, Request{Args: []string{"say"}, Dir: filepath.Join(w.Greeting.Memory, dir)}, Streams{Files: Files{filepath.Join(dir, "none"): nil}})
	if got.failure == nil || !strings.Contains(got.failure.Error(), "none") {
		t.Errorf("a file that is missing: %+v", got)
	}
}

func TestTerminals(t *testing.T) {
	t.Parallel()
	w := connect(t)
	size := Size{Rows: 33, Columns: 111}
	for mode, want := range map[Mode]string{
		Pipes:    "false false false 0 0 ",
		Screen:   "false true true 111 33 <nil>",
		Terminal: "true true true 111 33 <nil>",
	} {
		if got := w.run(t, Request{Args: []string{"terminal"}, Mode: mode, Size: size}, Streams{}); !strings.HasPrefix(got.out, want) {
			t.Errorf("%q: %+v, want %s", mode, got, want)
		}
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Pipes, Screen, Terminal} {
		w := connect(t)
		out, signals := newBuffer(), make(chan os.Signal, 1)
		go func() {
			out.await(t, "ready")
			signals <- syscall.SIGINT
		}()
		code, err := w.Run(t.Context(), Request{Args: []string{"wait"}, Mode: mode}, Streams{Out: out, Err: io.Discard, Signals: signals})
		if code != 3 || err != nil || !strings.Contains(out.String(), "got interrupt") {
			t.Errorf("%q: %d %v %s", mode, code, err, out)
		}
	}
}

// A host that gives signs of life and does nothing else does not keep a command from ending here.
func TestTheThirdSignalEndsACommandHere(t *testing.T) {
	t.Parallel()
	ours, its := pair()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_ = writeGreeting(its, Greeting{Protocol: protocol, Version: "1.4.0"})
		session, err := smux.Server(its, muxConfig(serverTimeout))
		if err != nil {
			t.Error(err)
			return
		}
		for {
			if _, err := session.AcceptStream(); err != nil { // and never reads it
				return
			}
		}
	}()
	l, err := newLink(Host{Name: "box"}, ours, Options{Version: "1.4.0"})
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal)
	go func() {
		for _, sig := range []os.Signal{syscall.SIGWINCH, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGINT, syscall.SIGWINCH, syscall.SIGTERM} {
			signals <- sig
		}
	}()
	var lost *LostError
	if _, err := l.Run(t.Context(), Request{Args: []string{"ps"}}, Streams{Out: io.Discard, Err: io.Discard, Signals: signals, Size: func() Size { return Size{} }}); !errors.As(err, &lost) || !strings.Contains(err.Error(), "did not end at 3 signals") {
		t.Errorf("%v", err)
	}
	_ = l.Close()
	_ = ours.Close()
	_ = its.Close()
	<-read
}

// closedWriter is an output that nobody reads.
type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestAClosedOutputIsClosedThere(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Pipes, Screen} {
		w := connect(t)
		code, err := w.Run(t.Context(), Request{Args: []string{"much"}, Mode: mode}, Streams{Out: closedWriter{}, Err: io.Discard})
		if want := map[Mode]int{Pipes: 128 + int(syscall.SIGPIPE), Screen: 128 + int(syscall.SIGHUP)}[mode]; code != want || err != nil {
			t.Errorf("%q: %d %v", mode, code, err)
		}
	}
}

// A server that was started with nohup ends commands as another one does.
func TestACommandDoesNotInheritNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	w := connect(t)
	code, err := w.Run(t.Context(), Request{Args: []string{"much"}, Mode: Screen}, Streams{Out: closedWriter{}, Err: io.Discard})
	if code != 128+int(syscall.SIGHUP) || err != nil {
		t.Errorf("%d %v", code, err)
	}
}

func TestAResizedTerminalIsAnnounced(t *testing.T) {
	t.Parallel()
	w := connect(t)
	out, signals := newBuffer(), make(chan os.Signal, 1)
	go func() {
		out.await(t, "ready")
		signals <- syscall.SIGWINCH
	}()
	size := func() Size { return Size{Rows: 10, Columns: 20} }
	code, err := w.Run(t.Context(), Request{Args: []string{"wait"}, Mode: Screen, Size: Size{Rows: 1, Columns: 1}}, Streams{Out: out, Err: io.Discard, Signals: signals, Size: size})
	if code != 3 || err != nil || !strings.Contains(out.String(), "window") {
		t.Errorf("%d %v %s", code, err, out)
	}
}

// A link that breaks ends the run here with an error, and the command there with the loss of its terminal.
func TestABrokenLinkEndsBothSides(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Pipes, Screen, Terminal} {
		w := connect(t)
		note := filepath.Join(t.TempDir(), "note")
		out := newBuffer()
		go func() {
			out.await(t, "ready")
			_ = w.conn.Close()
		}()
		code, err := w.Run(t.Context(), Request{Args: []string{"wait", "hangup", note}, Mode: mode, Stops: true}, Streams{Out: out, Err: io.Discard})
		var lost *LostError
		if !errors.As(err, &lost) || code != 0 {
			t.Errorf("%q: %d %v", mode, code, err)
		}
		if err := <-w.served; err != nil {
			t.Error(err)
		}
		w.served <- nil
		if text, err := os.ReadFile(note); string(text) != "hangup" {
			t.Errorf("%q: the command was told %q %v", mode, text, err)
		}
	}
}

// A command that does not end when its terminal is gone is killed; one that never stops writing, too.
func TestNothingOutlivesTheLink(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"wait", "none"}, {"much"}, {"cat"}} {
		w := connectWith(t, 50*time.Millisecond)
		out := newBuffer()
		go func() {
			if args[0] == "wait" {
				out.await(t, "ready")
			}
			_ = w.conn.Close()
		}()
		in, hold := io.Pipe()
		defer hold.Close()
		if _, err := w.Run(t.Context(), Request{Args: args}, Streams{In: in, Out: out, Err: io.Discard}); err == nil {
			t.Errorf("%q: no error", args)
		}
		if err := <-w.served; err != nil { // it waits for the command
			t.Error(err)
		}
		w.served <- nil
	}
}

func TestConnectionsToLoopbackOnly(t *testing.T) {
	t.Parallel()
	w := connect(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := w.DialLoopback(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Error(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(c); string(text) != "hello" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	_ = c.Close()
	for _, bad := range []string{"192.0.2.1:80", "localhost:80", "127.0.0.1", "unix:/x", "127.0.0.1:1"} {
		if c, err := w.DialLoopback(bad); err == nil {
			_ = c.Close()
			t.Errorf("%s is connected to", bad)
		}
	}
}

// TestHostileClients: what a client sends that is no command of podtask's own reaches no other host, no directory but the session's, and
// does not keep the commands of the same link from running.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	w := connect(t)
	send := func(text string) {
		t.Helper()
		stream, err := w.session.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(stream, text); err != nil {
			t.Fatal(err)
		}
		_, _ = stream.Read(make([]byte, 1)) // the answer, or its end
		_ = stream.Close()
	}
	for _, text := range []string{
		"\n", "{}\n", "null\n", "[]\n", "{\"run\":1,\"part\":\"other\"}\n", "{\"run\":1e99,\"part\":\"request\"}\n", "\x00\xff\n", strings.Repeat("[", 1<<16) + "\n",
	} {
		send(text)
	}
	for _, address := range []string{"169.254.169.254:80", "[fe80::1%lo]:80", "[::ffff:169.254.169.254]:80", "0.0.0.0:22", "[::]:22", "10.0.0.1:22", "127.0.0.1:99999", "127.0.0.1:0\n", "2130706433:80"} {
		if c, err := w.DialLoopback(address); err == nil {
			_ = c.Close()
			t.Errorf("%q is connected to", address)
		}
	}
	outside := t.TempDir()
	for _, dir := range []string{outside, "/", "..", w.Greeting.Memory + "/../../../other", w.Greeting.Disk + "x", filepath.Dir(w.Greeting.Memory)} {
		if _, err := w.Run(t.Context(), Request{Args: []string{"say", "x"}, Dir: dir}, Streams{Out: io.Discard, Err: io.Discard}); err == nil {
			t.Errorf("a command runs in %s", dir)
		}
	}
	for run := range 3 * maxRuns { // none of them becomes a command
		stream, err := w.session.OpenStream()
		if err == nil {
			err = writeJSON(stream, opening{Run: 1000 + run, Part: partFiles})
			_ = stream.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out := newBuffer()
	if code, err := w.Run(t.Context(), Request{Args: []string{"say", "hello"}, Environment: []string{"LD_PRELOAD=/x", "PATH=/x", "TERM=a\x00b"}}, Streams{Out: out, Err: io.Discard}); err == nil && (code != 7 || out.String() != "hello\n") {
		t.Errorf("%d %q", code, out)
	}
}

// hostileAnswers are what a server may say in place of its greeting.
func TestAnswersThatAreNoGreeting(t *testing.T) {
	t.Parallel()
	good := greetingPrefix + `{"protocol":1,"version":"1.4.0","memory":"/m","disk":"/d"}` + "\n"
	for name, tt := range map[string]struct{ text, want string }{
		"good":           {good, ""},
		"after a motd":   {"Welcome to box!\r\n\x1b[2Jtext\n" + good, ""},
		"nothing":        {"", "EOF"},
		"huge":           {strings.Repeat("x", maxNoise*2), "other text than"},
		"huge in lines":  {strings.Repeat("x\n", maxNoise), "other text than"},
		"no JSON":        {greetingPrefix + "x\n", "other text than"},
		"no protocol":    {greetingPrefix + "{}\n", "other text than"},
		"a cut greeting": {good[:30], "EOF"},
		"too new":        {greetingPrefix + `{"protocol":9,"version":"1.4.0"}` + "\n", "minor versions apart"},
		"too old":        {greetingPrefix + `{"protocol":1,"version":"1.1.0"}` + "\n", "update the older one"},
		"escapes":        {greetingPrefix + `{"protocol":1,"version":"1.1.0\u001b[2J"}` + "\n", "minor versions apart"},
	} {
		l, err := newLink(Host{Name: "box"}, duplex{Reader: strings.NewReader(tt.text), WriteCloser: nopWriter{}}, Options{Version: "1.4.2"})
		if l != nil {
			_ = l.session.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.ContainsRune(err.Error(), 0x1b)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

type nopWriter struct{}

func (nopWriter) Write(p []byte) (int, error) { return len(p), nil }
func (nopWriter) Close() error                { return nil }

func TestVersionsMayBeTwoMinorsApart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		here, there string
		ok          bool
	}{
		{"1.4.0", "1.4.9", true}, {"1.4.0", "1.6.0", true}, {"v1.4.0", "1.2.0", true}, {"1.4.0", "1.7.0", false}, {"1.4.0", "1.1.0", false},
		{"1.4.0", "2.4.0", false}, {"1.9.0", "unknown", true}, {"v0.0.0-20261126204312-c5ddb7bbdf10+dirty", "1.4.0", true}, {"1.4.0-rc1", "1.9.0", false},
	} {
		if err := checkSkew(Host{Name: "box"}, tt.here, tt.there, protocol); (err == nil) != tt.ok {
			t.Errorf("%s and %s: %v", tt.here, tt.there, err)
		}
	}
}

func TestFormsOfHosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ssh://box":               "box podtask",
		"ssh://me@box.net:2222":   "-p 2222 -l me -- box.net",
		"ssh://[2001:db8::1]:22/": "-p 22 -- 2001:db8::1",
		"ssh://a_b":               "-- a_b",
	} {
		h, err := ParseHost(text)
		got := strings.Join(h.Arguments(true, "podtask"), " ")
		if err != nil || !strings.HasSuffix(got, strings.TrimSuffix(want, " podtask")+" podtask") || strings.Contains(got, "BatchMode") {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{
		"", "box", "ssh://", "http://box", "ssh://-oProxyCommand=x", "ssh://-l@box", "ssh://me@-x", "ssh://%2doX@box", "ssh://a b", "ssh://a;b", "ssh://$(id)",
		"ssh://`id`", "ssh://a'b", "ssh://box/path", "ssh://box?x=y", "ssh://box#x", "ssh://box:0", "ssh://box:99999", "ssh://box:x", "ssh://me:hunter2@box",
		"ssh://a,b", "ssh://box\n", "ssh://me%0a@box", "ssh://%0abox", "ssh://.box", "ssh://" + strings.Repeat("a", 300), "ssh://me%20x@box", "ssh://me%24(id)@box", "ssh://[fe80::1%25eth0]",
	} {
		if h, err := ParseHost(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q is %+v, %v", bad, h, err)
		}
	}
	if !slices.Contains((Host{Name: "x"}).Arguments(false, ""), "-oBatchMode=yes") {
		t.Error("without a terminal ssh may ask")
	}
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"ssh://me@box:22", "ssh://-x", "ssh://[::1]", "ssh://%2d@b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHost(text)
		if err != nil {
			return
		}
		if strings.HasPrefix(h.Name, "-") || strings.HasPrefix(h.User, "-") || strings.ContainsAny(h.Name+h.User, " \t\n;'\"`|&<>(){}*?\\/") {
			t.Errorf("%q is %+v", text, h)
		}
		if again, err := ParseHost(h.String()); err != nil || again != h {
			t.Errorf("%q: %s is %+v, %v", text, h, again, err)
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Add(greetingPrefix + `{"protocol":1}` + "\n")
	f.Add("motd\n" + greetingPrefix + "{")
	f.Fuzz(func(t *testing.T, text string) {
		g, noise, err := readGreeting(reader(text))
		if err == nil && g.Protocol < 1 || len(noise) > 2*maxNoise+2 {
			t.Errorf("%q: %+v %d", text, g, len(noise))
		}
	})
}

func FuzzContexts(f *testing.F) {
	f.Add(`{"current":"box","contexts":[{"name":"box","host":"ssh://me@box"}]}`)
	f.Add(`{"contexts":[{"name":"local","host":"ssh://-x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c Contexts
		if err := c.parse([]byte(text)); err != nil {
			return
		}
		for _, x := range c.Contexts {
			if h, err := c.Find(x.Name); err != nil || h == (Host{}) {
				t.Errorf("%q: %s is %+v, %v", text, x.Name, h, err)
			}
		}
	})
}

// A connection that is closed here ends ssh; that is not why it was closed.
func TestReasonOfALostConnection(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"ssh ended": true, "gave no sign of life": false} {
		in, far := io.Pipe()
		l := &Link{conn: &watchedConn{Reader: in, WriteCloser: far}}
		if broken {
			far.Close()
		} else {
			l.conn.Close() // as the session does after clientTimeout
		}
		if n, err := l.conn.Read(make([]byte, 1)); err == nil {
			t.Fatalf("%d bytes", n)
		}
		if err := l.lost(); !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
