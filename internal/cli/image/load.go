package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/urfave/cli/v2"
)

// imageLoadCommand is what `podtask push` runs on the other host.
func imageLoadCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "load",
		Usage:       "store the images of an archive on stdin, as podman load does",
		Description: "Examples:\n  podman save localhost/web:1 | podtask image load",
		Hidden:      true,
		Action: func(c *cli.Context) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			archive, err := uncompressed(p.Stdin)
			if err != nil {
				return err
			}
			cmd := podman(c.Context, p.Getenv, "load", "--quiet")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = archive, p.Stdout, p.Stderr
			err = cmd.Run()
			var ended *exec.ExitError
			switch {
			case errors.As(err, &ended):
				return command.ExitStatus(command.ExitOwnFailure) // Podman has printed the error
			case err != nil:
				return fmt.Errorf("let podman load the archive: %w", err)
			}
			return nil
		},
	}
}

// uncompressed returns an archive that may be compressed with gzip. Podman 4.3 reads no compressed archive of a Docker image.
func uncompressed(r io.Reader) (io.Reader, error) {
	archive := bufio.NewReader(r)
	if magic, err := archive.Peek(2); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return archive, nil // Podman says what is wrong with it
	}
	return gzip.NewReader(archive)
}

// imageLayersCommand is what `podtask push` asks the other host.
func imageLayersCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "layers",
		Usage:       "print those of the layers that an image of this host has",
		ArgsUsage:   "DIGEST ...",
		Description: "Examples:\n  podtask image layers sha256:6a59b7e0a1d2d6a5b4a8c6f57a1a83b2b2c7e9f5d4c3b2a190817263544f5e6d",
		Hidden:      true,
		Action: func(c *cli.Context) error {
			images, err := podman(c.Context, p.Getenv, "images", "--all", "--quiet", "--no-trunc").Output()
			if err != nil {
				return fmt.Errorf("list images: %w", err)
			}
			ids := strings.Fields(string(images))
			slices.Sort(ids)
			have := make(map[string]bool)
			for some := range slices.Chunk(slices.Compact(ids), 100) {
				layers, err := podman(c.Context, p.Getenv, append([]string{"image", "inspect", "--format", "{{range .RootFS.Layers}}{{println .}}{{end}}", "--"}, some...)...).Output()
				if err != nil {
					return fmt.Errorf("look at images: %w", err)
				}
				for _, layer := range strings.Fields(string(layers)) {
					have[layer] = true
				}
			}
			for _, layer := range c.Args().Slice() {
				if have[layer] {
					fmt.Fprintln(p.Stdout, layer)
				}
			}
			return nil
		},
	}
}

// podman returns a command for the Podman of podtask.
func podman(ctx context.Context, getenv func(string) string, args ...string) *exec.Cmd {
	if url := getenv("CONTAINER_HOST"); url != "" {
		args = append([]string{"--url", url}, args...)
	}
	return exec.CommandContext(ctx, "podman", args...)
}
