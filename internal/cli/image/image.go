package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// Command is `podtask image`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "image",
		Usage: "query registries about images, list and remove those podtask pulled",
		Description: `Examples:
  podtask image resolve docker.io/library/alpine:3.20
  podtask image ls
  podtask image prune --dry-run`,
		Subcommands: []*cli.Command{imageResolveCommand(p), imageListCommand(p), pendingCommand(p), imagePruneCommand(p), imageLoadCommand(p), imageLayersCommand(p)},
	}
}

// imageResolveCommand is `podtask image resolve`.
func imageResolveCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "resolve",
		Usage:     "query registries about images, and pull nothing",
		ArgsUsage: "REF ...",
		Description: `The output has the digest, the kind, the digest for the platform of this host and all
platforms. With --quick only the digest is requested, which Docker Hub does not count as
a pull.

Examples:
  podtask image resolve docker.io/library/alpine:3.20 ghcr.io/team/app:1
  podtask image resolve --platform linux/arm64 --format json quay.io/team/app:1`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quick", Usage: "request the digest only"},
			&cli.StringFlag{Name: "platform", Usage: "choose the image for `OS/ARCH` instead of this host's"},
			command.QuietFlag("digests"),
			command.NoTruncFlag("digests"),
			command.FormatFlag(command.ListFormats),
		},
		Action: command.WithMachine(p, newResolve),
	}
}

// imageListCommand is `podtask image ls`.
func imageListCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "ls",
		Usage: "list the images that podtask pulled",
		Description: `An image that must not be removed is listed with the reason.

Examples:
  podtask image ls
  podtask image ls --format json`,
		Flags:  []cli.Flag{command.QuietFlag("ids"), command.NoTruncFlag("ids"), command.FormatFlag(command.ListFormats), command.SortFlag()},
		Action: command.WithMachine(p, newList),
	}
}

// imagePruneCommand is `podtask image prune`.
func imagePruneCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "prune",
		Usage: "remove unused images that podtask pulled",
		Description: `Images that were there before podtask pulled them stay, and so do those that a task or
any other container uses.

Examples:
  podtask image prune --dry-run
  podtask image prune --older-than 168h`,
		Flags: []cli.Flag{
			command.QuietFlag("ids"), command.NoTruncFlag("ids"),
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "remove nothing, list what would be removed"},
			&cli.DurationFlag{Name: "older-than", Usage: "only images not used for `TIME`; never less than ten minutes", DefaultText: "10m"},
			&cli.IntFlag{Name: "limit", Usage: "at most `N`, least recently used first", DefaultText: "no limit"},
			command.FormatFlag(command.ListFormats),
		},
		Action: command.WithMachine(p, newPrune),
	}
}

// resolvedImage is an image as its registry describes it; templates see its fields.
type resolvedImage struct {
	Reference string `json:"reference"`
	// Canonical is name@digest.
	Canonical string `json:"canonical,omitempty"`
	Digest    string `json:"digest,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	// Platforms is empty with --quick.
	Platforms []images.Variant `json:"platforms,omitempty"`
	// PlatformDigest is the manifest for this host or --platform; empty if there is none.
	PlatformDigest string `json:"platformDigest,omitempty"`
	// Assumed: the reference has no registry, and docker.io was assumed.
	Assumed bool `json:"dockerHubAssumed,omitempty"`
	// NoDigest: the manifest has schema 1, which has no digest.
	NoDigest bool `json:"noDigest,omitempty"`
}

// Kind is index for several platforms, image for one.
func (r resolvedImage) Kind() string {
	switch {
	case r.NoDigest:
		return "schema 1"
	case strings.Contains(r.MediaType, "index") || strings.Contains(r.MediaType, "list"):
		return "index"
	case r.MediaType == "":
		return ""
	default:
		return "image"
	}
}

type resolveOptions struct {
	out    io.Writer
	errOut io.Writer
	warn   func(format string, args ...any)
	images *imagestore.Resolver
}

func newResolve(m *command.Machine) resolveOptions {
	return resolveOptions{out: m.Program.Stdout, errOut: m.Program.Stderr, warn: m.Program.Warn, images: m.Engine.Images}
}

// Run implements command.Runner.
func (o resolveOptions) Run(ctx context.Context, c *cli.Context) error {
	refs := c.Args().Slice()
	if len(refs) == 0 {
		return command.Usagef("image resolve", "no REF to resolve")
	}
	want := images.Here()
	if text := c.String("platform"); text != "" {
		var err error
		if want, err = images.ParsePlatform(text); err != nil {
			return command.Usagef("image resolve", "--platform: %v", err)
		}
	}
	found := make([]resolvedImage, len(refs))
	errs := make([]error, len(refs))
	var wg sync.WaitGroup
	for i, ref := range refs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			d, err := o.images.Describe(ctx, ref, want, c.Bool("quick"))
			found[i], errs[i] = newResolvedImage(d), err
		})
	}
	wg.Wait()
	code := 0
	for i, err := range errs {
		if err != nil {
			fmt.Fprintf(o.errOut, "Error: %v\n", err)
			code = command.ExitOwnFailure
			continue
		}
		if found[i].Assumed {
			command.WarnShort(o.warn, refs[i])
		}
		if len(found[i].Platforms) > 0 && found[i].PlatformDigest == "" {
			o.warn("%s has no image for %s", found[i].Reference, want)
		}
	}
	found = slices.DeleteFunc(found, func(r resolvedImage) bool { return r.Reference == "" })
	return errors.Join(o.print(c, found), command.ExitWith(code))
}

func newResolvedImage(d images.Description) resolvedImage {
	r := resolvedImage{
		Reference: d.Reference, Canonical: d.Canonical, Digest: d.Digest, MediaType: d.MediaType,
		Platforms: d.Variants, Assumed: d.Short, NoDigest: d.Skipped,
	}
	if d.Chosen != nil {
		r.PlatformDigest = d.Chosen.Digest
	}
	return r
}

func (o resolveOptions) print(c *cli.Context, found []resolvedImage) error {
	if c.Bool("quiet") {
		for _, r := range found {
			fmt.Fprintln(o.out, r.Digest)
		}
		return nil
	}
	return command.PrintItems(o.out, c, found, func(bool) error {
		return console.WriteTable(o.out, resolvedRows(c, found))
	})
}

func resolvedRows(c *cli.Context, found []resolvedImage) [][]string {
	rows := [][]string{{"REFERENCE", "DIGEST", "KIND", "PLATFORM DIGEST", "PLATFORMS"}}
	short := shortener(c, console.ShortDigest)
	for _, r := range found {
		var platforms []string
		for _, v := range r.Platforms {
			platforms = append(platforms, v.Platform.String())
		}
		rows = append(rows, []string{r.Reference, cmp.Or(short(r.Digest), "-"), cmp.Or(r.Kind(), "-"), cmp.Or(short(r.PlatformDigest), "-"), cmp.Or(strings.Join(platforms, " "), "-")})
	}
	return rows
}

type listOptions struct {
	out    io.Writer
	errOut io.Writer
	pruner *imagestore.Pruner
}

func newList(m *command.Machine) listOptions {
	return listOptions{out: m.Program.Stdout, errOut: m.Program.Stderr, pruner: m.Engine.Pruner}
}

// Run implements command.Runner.
func (o listOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	list, err := o.pruner.List(ctx)
	if err != nil {
		return err
	}
	kept := command.Column[imagestore.LocalImage]{Head: "KEPT BECAUSE", Cell: func(l imagestore.LocalImage) string {
		if l.Keep == "" && l.Manual {
			return "pulled with prefer-cached: only prune removes it"
		}
		return cmp.Or(l.Keep, command.NoValue)
	}}
	return printImages(o.out, o.errOut, c, list, kept)
}

type pruneOptions listOptions

func newPrune(m *command.Machine) pruneOptions { return pruneOptions(newList(m)) }

// Run implements command.Runner.
func (o pruneOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	if c.Int("limit") < 0 || c.Duration("older-than") < 0 {
		return command.Usagef("image prune", "--limit and --older-than must not be negative")
	}
	removed, err := o.pruner.Prune(ctx, imagestore.PruneOptions{
		MinAge: c.Duration("older-than"), Limit: c.Int("limit"), DryRun: c.Bool("dry-run"), Demanded: true,
	})
	if printErr := printImages(o.out, o.errOut, c, removed); err == nil {
		err = printErr
	}
	if !c.Bool("quiet") && err == nil {
		fmt.Fprintln(o.errOut, pruneText(removed, c.Bool("dry-run")))
	}
	return err
}

// pruneText returns how much was removed. Layers that images share are counted for each.
func pruneText(removed []imagestore.LocalImage, dry bool) string {
	var bytes int64
	for _, l := range removed {
		bytes += l.Size
	}
	did := "removed"
	if dry {
		did = "would remove"
	}
	switch len(removed) {
	case 0:
		return did + " nothing; `podtask image ls` says why images are kept"
	case 1:
		return fmt.Sprintf("%s 1 image of %s", did, console.BytesText(bytes))
	default:
		return fmt.Sprintf("%s %d images of up to %s", did, len(removed), console.BytesText(bytes))
	}
}

// shortener returns a function that shortens values; with --no-trunc it returns them as they are.
func shortener(c *cli.Context, shorten func(string) string) func(string) string {
	if c.Bool("no-trunc") {
		return func(whole string) string { return whole }
	}
	return shorten
}

// printImages prints a table of images, or on hints that podtask has pulled none; more are columns besides those of `image prune`.
func printImages(w, hints io.Writer, c *cli.Context, list []imagestore.LocalImage, more ...command.Column[imagestore.LocalImage]) error {
	type image = imagestore.LocalImage
	now, short := time.Now(), shortener(c, lifecycle.ShortID)
	id := func(l image) string { return short(l.ID) }
	columns := []command.Column[image]{
		{Head: "ID", Cell: id},
		{Head: "NAME", Cell: func(l image) string { return cmp.Or(strings.Join(l.Names, " "), l.Target) }},
		{Head: "SIZE", Cell: func(l image) string { return console.BytesText(l.Size) }, Order: func(a, b image) int { return cmp.Compare(b.Size, a.Size) }},
		{Head: "PULLED", Cell: func(l image) string { return console.Ago(now, l.PulledAt) }, Order: func(a, b image) int { return b.PulledAt.Compare(a.PulledAt) }},
		{Head: "USED", Cell: func(l image) string { return console.Ago(now, l.UsedAt) }, Order: func(a, b image) int { return b.UsedAt.Compare(a.UsedAt) }},
	}
	none := "" // prune says itself that it removed nothing
	if len(more) > 0 {
		none = "podtask has pulled no images. `podman images` lists those of Podman."
	}
	return command.Listing[image]{Items: list, ID: id, Columns: append(columns, more...), None: none, Hints: hints}.Print(w, c)
}
