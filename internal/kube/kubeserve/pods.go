package kubeserve

import (
	"context"
	"errors"
	"io"
	"time"
)

// Ref names a container of a Pod.
type Ref struct{ Namespace, Pod, Container string }

// Pods are the Pods of this node. An error that wraps ErrNotFound or ErrRefused is the caller's
// fault and is reported as such.
type Pods interface {
	// Logs calls fn, never concurrently, for each line that q selects. It returns the error of fn.
	Logs(ctx context.Context, ref Ref, q LogQuery, fn func(Line) error) error
	// Exec runs a command in a container and returns its exit code. It ends the command when ctx
	// ends, and does not wait for the end of its input.
	Exec(ctx context.Context, ref Ref, command []string, s Streams) (code int, err error)
	// Attach connects to the main process of a container until that ends or ctx does.
	Attach(ctx context.Context, ref Ref, s Streams) error
	// Forward connects stream with a TCP port of a Pod, until one of them ends.
	Forward(ctx context.Context, ref Ref, port uint16, stream io.ReadWriter) error
	// Usage returns what the node and its Pods use.
	Usage(ctx context.Context) (Usage, error)
}

var (
	// ErrNotFound is the error if this node has no such Pod.
	ErrNotFound = errors.New("not found")
	// ErrRefused is the error if the Pod exists, and its state does not allow the request.
	ErrRefused = errors.New("refused")
)

// LogQuery selects log lines.
type LogQuery struct {
	Follow bool
	// Previous selects the run of the container before the present one.
	Previous bool
	// Since leaves out older lines; zero: none.
	Since time.Time
	// Tail is the number of last lines to begin with; negative: all.
	Tail int
}

// Line is one line, without its line feed.
type Line struct {
	Time time.Time
	Text string
	// Unended: it has no line feed, because the container ended there.
	Unended bool
}

// Streams connect a process in a container with its user. Stdin is nil if the process gets no
// input. With Terminal all output goes to Stdout, and Resize gives the sizes of the terminal.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Terminal       bool
	Resize         <-chan Size
}

// Size is the size of a terminal in characters.
type Size struct{ Columns, Rows uint16 }

// Usage is the resource usage of a node and its Pods.
type Usage struct {
	At   time.Time
	Node Counts
	Pods []PodUsage
}

// PodUsage is the resource usage of a Pod.
type PodUsage struct {
	Namespace, Name, UID string
	Total                Counts
	Containers           []ContainerUsage
}

// ContainerUsage is the resource usage of a container.
type ContainerUsage struct {
	Name string
	Counts
}

// Counts are time on CPUs since Started and memory in bytes without what could be dropped at once.
type Counts struct {
	Started time.Time
	CPU     time.Duration
	Memory  uint64
}
