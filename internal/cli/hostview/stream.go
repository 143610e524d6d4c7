package hostview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/term"
)

// SSH returns what connects to the Server that a command line of podtask starts on another host.
func SSH(dial func(ctx context.Context, stderr io.Writer) (*sshhost.Link, error), args []string) func(ctx context.Context) (Stream, error) {
	return func(ctx context.Context) (Stream, error) {
		var said lastWords
		link, err := dial(ctx, &said)
		if err != nil {
			if why := said.line(); why != "" {
				err = fmt.Errorf("%w (%s)", err, why)
			}
			return nil, err
		}
		inRead, inWrite := io.Pipe()
		outRead, outWrite := io.Pipe()
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer cancel()
			code, err := link.Run(ctx, sshhost.Request{Args: args}, sshhost.Streams{In: inRead, Out: outWrite, Err: &said})
			if err == nil {
				err = said.failure(code)
			}
			_ = inRead.CloseWithError(io.ErrClosedPipe)
			_ = outWrite.CloseWithError(err)
			_ = link.Close()
		}()
		return &stream{Reader: outRead, WriteCloser: inWrite, end: func() {
			cancel()
			_ = outRead.Close()
			<-done
		}}, nil
	}
}

// Local returns what starts the Server of this machine.
func Local(command func(ctx context.Context) (*exec.Cmd, error)) func(ctx context.Context) (Stream, error) {
	return func(ctx context.Context) (Stream, error) {
		cmd, err := command(ctx)
		if err != nil {
			return nil, err
		}
		var said lastWords
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		read, write := io.Pipe()
		cmd.Stdout = write
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			err := cmd.Wait()
			if ended, ok := errors.AsType[*exec.ExitError](err); ok {
				err = said.failure(ended.ExitCode())
			}
			_ = write.CloseWithError(err)
		}()
		return &stream{Reader: read, WriteCloser: in, end: func() {
			_ = read.Close()
			<-done
		}}, nil
	}
}

type stream struct {
	io.Reader
	io.WriteCloser
	once sync.Once
	end  func()
}

// Close ends the Server.
func (s *stream) Close() error {
	err := s.WriteCloser.Close()
	s.once.Do(s.end)
	return err
}

// lastWords keeps the end of what a process wrote to stderr.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

const maxWords = 4096

// Write implements io.Writer.
func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = bytes.Clone(w.text[max(0, len(w.text)-maxWords):])
	return len(b), nil
}

// line returns the last line that is not empty.
func (w *lastWords) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.text)), "\n")
	return term.Line(lines[len(lines)-1])
}

// failure returns the error for a Server that has ended with an exit code.
func (w *lastWords) failure(code int) error {
	w.mu.Lock()
	text := string(w.text)
	w.mu.Unlock()
	switch {
	case code == 0:
		return nil
	case strings.Contains(text, "unknown command"):
		return errors.New("its podtask is too old for this view: `podtask host setup` copies this one there")
	}
	return fmt.Errorf("its podtask ended with %d: %s", code, w.line())
}
