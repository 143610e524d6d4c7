package host

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/term"
	"github.com/urfave/cli/v2"
)

// PushCommand is `podtask push`.
func PushCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "push",
		Usage:     "send images of this machine to another host, without a registry",
		ArgsUsage: "IMAGE ...",
		Description: `podman save writes the images here, and podman load stores them there under the same names, so
that a definition with localhost/web:1 runs there too. Layers that the host has are not sent; the others are
compressed on their way.

Examples:
  podtask --host ssh://box push localhost/web:1`,
		Action: pusher{terminal: command.IsTerminal(p.Stderr), out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, find: p.FindOneHost, options: p.HostOptions}.run,
	}
}

// pusher is what `podtask push` uses.
type pusher struct {
	out, errOut io.Writer
	terminal    bool // errOut is one
	getenv      func(string) string
	find        func(*cli.Context) (command.ChosenHost, error)
	options     func() sshhost.Options
}

func (p pusher) run(c *cli.Context) error {
	images := c.Args().Slice()
	if len(images) == 0 {
		return command.Usagef("push", "no IMAGE to send")
	}
	for _, image := range images {
		if strings.HasPrefix(image, "-") || strings.TrimSpace(image) == "" {
			return command.Usagef("push", "%q is no name of an image", image)
		}
	}
	h, err := p.find(c)
	if err != nil {
		return err
	}
	if !h.Remote() {
		return command.Usagef("push", "push sends images to another host: name it with --host; `podman push` sends them to a registry")
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	for _, image := range images { // before anything is sent
		if out, err := p.podman(ctx, "image", "exists", "--", image).CombinedOutput(); err != nil {
			return fmt.Errorf("there is no image %s on this machine: %w %s", image, err, strings.TrimSpace(string(out)))
		}
	}
	link, err := sshhost.Dial(ctx, h.Host, p.options())
	if err != nil {
		if ctx.Err() != nil {
			return command.ExitStatus(command.ExitInterrupted)
		}
		return err
	}
	defer link.Close()
	for _, image := range images {
		if err := p.push(ctx, link, image); err != nil {
			if ctx.Err() != nil {
				return command.ExitStatus(command.ExitInterrupted)
			}
			return err
		}
	}
	return nil
}

// localImage is what podman image inspect prints of an image.
type localImage struct {
	ManifestType string
	RootFS       struct{ Layers []string }
}

// format returns the archive format that keeps the image as it is, with its ID: an OCI archive has no health
// check, and a Docker archive no annotations.
func (i localImage) format() []string {
	if strings.HasPrefix(i.ManifestType, "application/vnd.docker.") {
		return []string{"--format", "docker-archive"}
	}
	return []string{"--format", "oci-archive", "--uncompressed"} // so that a layer is named by the digest of its content
}

// push sends an image, without the layers that the host has. If one of them is gone when the host needs it, all are sent.
func (p pusher) push(ctx context.Context, link *sshhost.Link, name string) error {
	text, err := p.podman(ctx, "image", "inspect", "--format", "json", "--", name).Output()
	if err != nil {
		return fmt.Errorf("look at image %s: %w", name, err)
	}
	var found []localImage
	if err := json.Unmarshal(text, &found); err != nil || len(found) != 1 {
		return fmt.Errorf("look at image %s: podman image inspect printed %d images: %w", name, len(found), err)
	}
	there := p.layersThere(ctx, link, found[0].RootFS.Layers)
	err = p.send(ctx, link, name, found[0], there)
	if _, ok := errors.AsType[command.ExitStatus](err); ok && len(there) > 0 && ctx.Err() == nil {
		fmt.Fprintf(p.errOut, "sending all layers of %s\n", name)
		return p.send(ctx, link, name, found[0], nil)
	}
	return err
}

// layersThere returns which of the layers the host has; none if it cannot say.
func (p pusher) layersThere(ctx context.Context, link *sshhost.Link, layers []string) map[string]bool {
	out, err := command.AnswerOf(ctx, link, io.Discard, append([]string{"image", "layers", "--"}, layers...)...)
	if err != nil { // an older podtask, or an error that the load reports again
		return nil
	}
	there := make(map[string]bool)
	for _, word := range strings.Fields(string(out)) {
		if slices.Contains(layers, word) {
			there[word] = true
		}
	}
	return there
}

// send lets podman save write an image and podman load of the host read it.
func (p pusher) send(ctx context.Context, link *sshhost.Link, name string, image localImage, there map[string]bool) error {
	save := p.podman(ctx, slices.Concat([]string{"save", "--quiet"}, image.format(), []string{"--", name})...)
	save.Stderr = p.errOut
	archive, err := save.StdoutPipe()
	if err != nil {
		return err
	}
	if err := save.Start(); err != nil {
		return fmt.Errorf("run podman: %w", err)
	}
	read, write := io.Pipe()
	s := &sender{there: there, layers: len(image.RootFS.Layers), now: time.Now}
	if p.terminal {
		s.progress = func(text string) { fmt.Fprintf(p.errOut, "\r\x1b[K%s: %s", name, text) }
	}
	copied := make(chan error, 1)
	go func() {
		compressed, _ := gzip.NewWriterLevel(write, gzip.BestSpeed) // it fails for other levels only
		err := cmp.Or(s.copy(compressed, archive), compressed.Close())
		_ = archive.Close() // podman ends if it still writes
		write.CloseWithError(err)
		copied <- err
	}()
	code, runErr := link.Run(ctx, sshhost.Request{Args: []string{"image", "load"}},
		sshhost.Streams{In: read, Out: term.NewScreen(p.out), Err: term.NewScreen(p.errOut)})
	_ = read.Close()
	copyErr := <-copied
	saveErr := save.Wait()
	if p.terminal {
		fmt.Fprint(p.errOut, "\r\x1b[K")
	}
	var ended *exec.ExitError
	switch {
	case runErr != nil:
		return fmt.Errorf("%w; image %s is not there completely: run podtask push again", runErr, name)
	case code != 0:
		return command.ExitStatus(code) // it has printed the error
	case errors.As(saveErr, &ended):
		return command.ExitStatus(command.ExitOwnFailure) // likewise
	case saveErr != nil || copyErr != nil:
		return cmp.Or(copyErr, saveErr)
	}
	fmt.Fprintf(p.errOut, "%s: sent %d of %d layers, %s\n", name, s.layers-len(there), s.layers, units.HumanSize(float64(s.bytes)))
	return nil
}

// podman returns a command for the Podman of podtask on this machine.
func (p pusher) podman(ctx context.Context, args ...string) *exec.Cmd {
	if url := p.getenv("CONTAINER_HOST"); url != "" {
		args = append([]string{"--url", url}, args...)
	}
	return exec.CommandContext(ctx, "podman", args...)
}
