package sshhost

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/xtaci/smux"
	"golang.org/x/sys/unix"
)

// Server runs commands for the other end of a Link.
type Server struct {
	Version    string
	Executable string   // podtask
	Environ    []string // of the commands
	Home       string   // their working directory
	MemoryDir  string   // for files that are sent, in memory
	DiskDir    string   // the same on disk
	Log        *slog.Logger
	// HangupLimit bounds a command after its terminal is gone, and after SIGTERM; 0 means 5 s.
	HangupLimit time.Duration

	greeting    Greeting
	mu          sync.Mutex // guards the fields below
	runs        map[int]*run
	directories []*os.File
}

// InnerArguments are the arguments of the process that runs a command. It reads a Line from file
// descriptor 3, so that other users of the host do not see the arguments of the command.
var InnerArguments = []string{"session", "--inner"}

// Line is the command line of an inner process.
type Line struct {
	Args   []string `json:"args"`
	Caller []string `json:"caller"`
	// SentDir has the files that were sent; empty for none.
	SentDir string `json:"sentDir,omitempty"`
}

// ReadLine reads the Line of an inner process.
func ReadLine() (Line, error) {
	var l Line
	f := os.NewFile(3, "line")
	if f == nil {
		return l, errors.New("no command line on file descriptor 3")
	}
	defer f.Close()
	err := json.NewDecoder(io.LimitReader(f, maxLine)).Decode(&l)
	return l, err
}

// run is a command whose streams are still arriving.
type run struct {
	parts   map[part]*smux.Stream
	readers map[part]*bufio.Reader
}

const (
	// maxRuns bounds the open commands and connections.
	maxRuns = 256
	// staleAge is the least age of a directory of sent files that may belong to a killed session.
	staleAge    = time.Minute
	hangupLimit = 5 * time.Second
	dialLimit   = 10 * time.Second
)

// Serve greets and runs commands until the other end is gone. Before it returns, all commands have
// ended and sent files are removed.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	s.runs = make(map[int]*run)
	// A command ends by SIGHUP when its terminal is gone, and would inherit that this process ignores it (nohup).
	// A signal that is caught is not inherited.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	for _, dir := range []string{s.MemoryDir, s.DiskDir} {
		sweep(dir)
	}
	id := rand.Text()
	s.greeting = Greeting{Protocol: protocol, Version: s.Version, Memory: filepath.Join(s.MemoryDir, id), Disk: filepath.Join(s.DiskDir, id)}
	if err := writeGreeting(out, s.greeting); err != nil {
		return err
	}
	session, err := smux.Server(struct {
		io.Reader
		io.WriteCloser
	}{in, out}, muxConfig(serverTimeout))
	if err != nil {
		return err
	}
	linked, unlink := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		<-session.CloseChan()
		unlink()
	})
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			break
		}
		if session.NumStreams() > maxRuns*len(runParts) {
			_ = stream.Close()
			continue
		}
		wg.Go(func() { s.accept(linked, stream) })
	}
	_ = session.Close()
	wg.Wait()
	return s.removeFiles()
}

// accept reads what a stream is for.
func (s *Server) accept(ctx context.Context, stream *smux.Stream) {
	r := bufio.NewReader(stream)
	var o opening
	if err := readJSON(r, &o); err != nil {
		_ = stream.Close()
		return
	}
	if o.Dial != "" {
		s.forward(ctx, stream, r, o.Dial)
		return
	}
	if !slices.Contains(runParts, o.Part) {
		_ = stream.Close()
		return
	}
	s.mu.Lock()
	c := s.runs[o.Run]
	if c == nil && len(s.runs) >= maxRuns || c != nil && c.parts[o.Part] != nil {
		s.mu.Unlock()
		_ = stream.Close() // it never becomes a command
		return
	}
	if c == nil {
		c = &run{make(map[part]*smux.Stream), make(map[part]*bufio.Reader)}
		s.runs[o.Run] = c
	}
	c.parts[o.Part], c.readers[o.Part] = stream, r
	complete := len(c.parts) == len(runParts)
	if complete {
		delete(s.runs, o.Run)
	}
	s.mu.Unlock()
	if complete {
		s.run(ctx, c)
	}
}

// run runs a command whose streams have all arrived.
func (s *Server) run(ctx context.Context, c *run) {
	defer func() {
		for _, stream := range c.parts {
			_ = stream.Close()
		}
	}()
	code, err := s.execute(ctx, c)
	e := ending{Exit: code}
	if err != nil {
		e = ending{Exit: 125, Error: err.Error()}
	}
	for _, p := range []part{partOutput, partErrors} {
		_ = c.parts[p].CloseWrite()
	}
	if err := writeJSON(c.parts[partRequest], e); err != nil {
		s.Log.Debug("the other end does not get the exit code", "error", err)
	}
}

func (s *Server) execute(ctx context.Context, c *run) (code int, err error) {
	var req Request
	if err := readJSON(c.readers[partRequest], &req); err != nil {
		return 0, fmt.Errorf("read the request: %w", err)
	}
	if err := s.receive(c.readers[partFiles], req); err != nil {
		return 0, fmt.Errorf("receive files: %w", err)
	}
	p := &remoteProcess{run: c, req: req, log: s.Log, limit: cmp.Or(s.HangupLimit, hangupLimit)}
	if err := p.start(s); err != nil {
		return 0, err
	}
	return p.wait(ctx), nil
}

// receive stores the files of a request.
func (s *Server) receive(r *bufio.Reader, req Request) error {
	if req.Dir == "" {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	dir := s.sentDir(req.Dir)
	if dir == "" {
		return fmt.Errorf("%s is no directory of this session", req.Dir)
	}
	if err := s.makeDirectory(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// The client is this user, so its links may lead where they like; nothing is written through them.
	if err := (&Extraction{Root: root, KeepOutside: true}).Unpack(r); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // the padding of the archive
		return err
	}
	if rel, err := filepath.Rel(dir, req.Dir); err == nil && rel != "." {
		return root.MkdirAll(rel, 0o700)
	}
	return nil
}

// sentDir returns the directory for sent files that has a working directory; empty for none.
func (s *Server) sentDir(dir string) string {
	for _, d := range []string{s.greeting.Memory, s.greeting.Disk} {
		if dir != "" && within(d, dir) {
			return d
		}
	}
	return ""
}

// within reports whether a path is a directory or below it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// makeDirectory makes a directory for sent files and locks it as long as this process lives.
func (s *Server) makeDirectory(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.directories, func(f *os.File) bool { return f.Name() == dir }) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	s.directories = append(s.directories, f)
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// removeFiles removes what was sent.
func (s *Server) removeFiles() error {
	var errs []error
	for _, f := range s.directories {
		errs = append(errs, os.RemoveAll(f.Name()), f.Close())
		_ = os.Remove(filepath.Dir(f.Name())) // fails while another session has a directory in it
	}
	return errors.Join(errs...)
}

// sweep removes the directories of sessions that were killed: nobody has their lock.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < staleAge {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}

// remoteProcess is a command that runs for the other end.
type remoteProcess struct {
	run   *run
	req   Request
	log   *slog.Logger
	limit time.Duration // between two signals that end it
	cmd   *exec.Cmd
	pty   *os.File // of the mode Screen or Terminal
	in    *os.File // to the command; nil if it has no input or the pty
	outs  map[part]*os.File

	exited chan struct{}
}

// PrintingVariables returns those variables of an environment that say how to print.
func PrintingVariables(environ []string) (env []string) {
	for _, e := range environ {
		name, _, ok := strings.Cut(e, "=")
		if ok && (slices.Contains(printing, name) || strings.HasPrefix(name, "LC_")) && !strings.ContainsRune(e, 0) {
			env = append(env, e)
		}
	}
	return env
}

var printing = []string{"TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE", "TZ"}

// environment returns the variables of a command: those of this host, and of the other end those
// that say how to print.
func environment(own, given []string) []string {
	var env []string
	for _, e := range own {
		if name, _, _ := strings.Cut(e, "="); name != "PODTASK_HOST" && !strings.HasPrefix(name, "SSH_") {
			env = append(env, e)
		}
	}
	return append(env, PrintingVariables(given)...)
}

// ends are the files of a command that is being started: the ends of pipes and of a terminal.
type ends struct {
	ours, theirs []*os.File
}

// pipe makes a pipe to or from the command.
func (e *ends) pipe(intoCommand bool) (ours, its *os.File, err error) {
	ours, its, err = os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if intoCommand {
		ours, its = its, ours
	}
	e.ours, e.theirs = append(e.ours, ours), append(e.theirs, its)
	return ours, its, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// start starts the command.
func (p *remoteProcess) start(s *Server) (err error) {
	var e ends
	defer func() {
		closeAll(e.theirs)
		if err != nil {
			closeAll(e.ours)
		}
	}()
	cmd := exec.Command(s.Executable, InnerArguments...)
	cmd.Env, cmd.Dir = environment(s.Environ, p.req.Environment), cmp.Or(p.req.Dir, s.Home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGHUP}
	line, lineEnd, err := e.pipe(true)
	if err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{lineEnd}
	if err := p.connect(cmd, &e); err != nil {
		return err
	}
	p.cmd, p.exited = cmd, make(chan struct{})
	started := make(chan error)
	go func() {
		// Pdeathsig is that of the thread: it must live as long as the command.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the state says how it ended
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start podtask: %w", err)
	}
	go func() {
		// It ends with the command at the latest, which has the other end of the pipe.
		text, err := json.Marshal(Line{Args: p.req.Args, Caller: p.req.Caller, SentDir: s.sentDir(p.req.Dir)})
		if err == nil {
			_, err = line.Write(text)
		}
		if err := errors.Join(err, line.Close()); err != nil {
			p.log.Debug("hand the command line over", "error", err)
		}
	}()
	return nil
}

// connect gives the command its input and outputs, as the mode of the request says.
func (p *remoteProcess) connect(cmd *exec.Cmd, e *ends) (err error) {
	if p.req.Mode != Pipes {
		var tty *os.File
		if p.pty, tty, err = pty.Open(); err != nil {
			return fmt.Errorf("make a terminal: %w", err)
		}
		e.ours, e.theirs = append(e.ours, p.pty), append(e.theirs, tty)
		if err := p.setUpTerminal(tty); err != nil {
			return err
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, 1
	}
	if p.req.Mode != Terminal {
		var its *os.File
		if p.in, its, err = e.pipe(true); err != nil {
			return err
		}
		cmd.Stdin = its
	}
	if p.req.Mode != Pipes {
		return nil
	}
	p.outs = make(map[part]*os.File)
	for to, w := range map[part]*io.Writer{partOutput: &cmd.Stdout, partErrors: &cmd.Stderr} {
		ours, its, err := e.pipe(false)
		if err != nil {
			return err
		}
		p.outs[to], *w = ours, its
	}
	return nil
}

// setUpTerminal gives the terminal its size. In the mode Screen, the terminal of the other end adds
// the carriage returns.
func (p *remoteProcess) setUpTerminal(tty *os.File) error {
	p.resize(p.req.Size)
	if p.req.Mode != Screen {
		return nil
	}
	t, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("set the terminal up: %w", err)
	}
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, t); err != nil {
		return fmt.Errorf("set the terminal up: %w", err)
	}
	return nil
}

func (p *remoteProcess) resize(s Size) {
	if p.pty == nil || s.Rows == 0 || s.Columns == 0 {
		return
	}
	// Control keeps the descriptor open meanwhile: the terminal may be closed at the same time.
	raw, err := p.pty.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) {
			failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		p.log.Debug("set the size of the terminal", "error", err)
	}
}

// wait moves data until the command has ended, and returns its exit code. When ctx ends, the command
// is told that its terminal is gone.
func (p *remoteProcess) wait(ctx context.Context) int {
	var outputs sync.WaitGroup
	for part, f := range p.outs {
		outputs.Go(func() { drain(p.run.parts[part], f) })
	}
	if p.pty != nil {
		outputs.Go(func() { drain(p.run.parts[partOutput], p.pty) })
	}
	go p.copyInput()    // ends with the stream
	go p.readControls() // likewise
	hung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(hung)
		p.hangUp()
	})
	<-p.exited
	if !stop() {
		<-hung
	}
	outputs.Wait()
	if p.in != nil {
		_ = p.in.Close()
	}
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// drain copies the output of a command. When the other end is gone, it reads the rest all the same, or
// the command would wait for a reader.
func drain(to *smux.Stream, from *os.File) {
	defer from.Close()
	_, _ = io.Copy(to, from)
	_, _ = io.Copy(io.Discard, from)
}

func (p *remoteProcess) copyInput() {
	to := p.in
	if to == nil {
		to = p.pty
	}
	_, _ = io.Copy(to, p.run.readers[partInput])
	if p.in != nil {
		_ = p.in.Close()
	}
}

func (p *remoteProcess) readControls() {
	for {
		var c control
		if err := readJSON(p.run.readers[partRequest], &c); err != nil {
			return
		}
		switch sig := syscall.Signal(c.Signal); {
		case c.Size != nil:
			p.resize(*c.Size)
		case c.Closed != "" && p.pty != nil:
			p.signal(syscall.SIGHUP)
		case c.Closed != "" && p.outs[c.Closed] != nil:
			_ = p.outs[c.Closed].Close() // so that the command finds it closed
		case slices.Contains(PassedSignals, os.Signal(sig)):
			p.signal(sig)
		}
	}
}

// PassedSignals are the signals that a command on another host gets.
var PassedSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// signal signals the command and what it started in its session, as a terminal does.
func (p *remoteProcess) signal(sig syscall.Signal) {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// hangUp ends the command. A foreground run stops its task when its terminal is gone, and gets
// the time for it.
func (p *remoteProcess) hangUp() {
	signals := []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGKILL}
	if p.req.Stops {
		signals = signals[:1]
	}
	for _, sig := range signals {
		p.signal(sig)
		timer := time.NewTimer(p.limit)
		select {
		case <-p.exited:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// forward connects a stream to an address of loopback.
func (s *Server) forward(ctx context.Context, stream *smux.Stream, r *bufio.Reader, address string) {
	defer stream.Close()
	to, err := netip.ParseAddrPort(address)
	if err == nil && !to.Addr().IsLoopback() {
		err = fmt.Errorf("%s is no address of loopback", to.Addr())
	}
	var conn net.Conn
	if err == nil {
		dialing, cancel := context.WithTimeout(ctx, dialLimit)
		conn, err = (&net.Dialer{}).DialContext(dialing, "tcp", to.String())
		cancel()
	}
	if err != nil {
		_ = writeJSON(stream, ending{Error: err.Error()})
		return
	}
	defer conn.Close()
	if err := writeJSON(stream, ending{}); err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	tcp, _ := conn.(*net.TCPConn)
	Join(&Conn{Reader: r, stream: stream}, tcp)
}

// HalfCloser is a connection whose directions end separately.
type HalfCloser interface {
	io.ReadWriter
	CloseWrite() error
}

// Join copies between two connections until both directions have ended.
func Join(a, b HalfCloser) {
	var wg sync.WaitGroup
	for _, d := range [][2]HalfCloser{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(d[0], d[1])
			_ = d[0].CloseWrite()
		})
	}
	wg.Wait()
}
