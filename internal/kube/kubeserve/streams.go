package kubeserve

import (
	"context"
	"fmt"
	"io"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	utilexec "k8s.io/utils/exec"
)

// exec runs a command for a caller. An exit code other than 0 is an error of a type that becomes
// the exit code of kubectl.
func (s *Server) exec(ctx context.Context, namespace, pod, container string, command []string, io api.AttachIO) error {
	streams, stop := streamsOf(ctx, io)
	defer stop()
	code, err := s.cfg.Pods.Exec(ctx, Ref{namespace, pod, container}, command, streams)
	if err == nil && code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	return err
}

func (s *Server) attach(ctx context.Context, namespace, pod, container string, io api.AttachIO) error {
	streams, stop := streamsOf(ctx, io)
	defer stop()
	return s.cfg.Pods.Attach(ctx, Ref{namespace, pod, container}, streams)
}

func (s *Server) forward(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("port %d is not one of 1 to 65535", port)
	}
	return s.cfg.Pods.Forward(ctx, Ref{Namespace: namespace, Pod: pod}, uint16(port), stream)
}

// streamsOf are the streams of a caller; missing ones take all output and give no input.
func streamsOf(ctx context.Context, from api.AttachIO) (s Streams, stop func()) {
	s = Streams{Stdout: io.Discard, Stderr: io.Discard, Terminal: from.TTY()}
	if in := from.Stdin(); in != nil {
		s.Stdin = in
	}
	if out := from.Stdout(); out != nil {
		s.Stdout = out
	}
	if out := from.Stderr(); out != nil {
		s.Stderr = out
	}
	ctx, stop = context.WithCancel(ctx)
	if from.Resize() != nil {
		sizes := make(chan Size)
		s.Resize = sizes
		go passSizes(ctx, from.Resize(), sizes)
	}
	return s, stop
}

// passSizes passes the sizes of a terminal on until ctx ends. The handlers report zero without
// end once the caller has closed the stream of sizes, so zero is the last.
func passSizes(ctx context.Context, from <-chan api.TermSize, to chan<- Size) {
	defer close(to)
	for {
		select {
		case size := <-from:
			if size == (api.TermSize{}) {
				return
			}
			select {
			case to <- Size{Columns: size.Width, Rows: size.Height}:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
