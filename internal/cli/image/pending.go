package image

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/run/imagelook"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/urfave/cli/v2"
)

func pendingCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "pending", Usage: "list the images to which updates wait: what, since when, until when and for whom", ArgsUsage: " ",
		Description: `An update waits while this host has not known the image for the minimum age, or a rule of
the configuration holds it back (docs/minimum-age.md). No registry is asked: the list has
what was seen at the latest look. --format wide and json have what Podman's policy.json
demands of the signature of each image, too.

Examples:
  podtask image pending
  podtask image pending --format json`,
		Flags: []cli.Flag{
			command.NoTruncFlag("digests"), command.FormatFlag(command.ListFormats), command.SortFlag(),
		},
		Action: command.WithMachine(p, newPending),
	}
}

type pendingOptions struct {
	out, errOut io.Writer
	warn        func(format string, args ...any)
	looker      *imagelook.Looker
	trust       func(image string) string
}

func newPending(m *command.Machine) pendingOptions {
	p := m.Program
	return pendingOptions{out: p.Stdout, errOut: p.Stderr, warn: p.Warn, looker: imagelook.New(m.Log, m.Engine.Images, m.Engine.Tasks, m.Connector.StateDir), trust: m.Engine.Images.Trust}
}

// pendingRow is an update that waits.
type pendingRow struct {
	Image string `json:"image"`
	For   string `json:"for"`
	// Digest is the one that runs, New that of the tag.
	Digest string `json:"digest"`
	New    string `json:"newDigest"`
	// Since is the time at which this host saw New first; Until that from which it may be taken, absent if a rule never allows it.
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"`
	// Why is absent if the next update takes it.
	Why string `json:"why,omitempty"`
	// Signature is the demand of the signature policy of Podman on the image.
	Signature string `json:"signature,omitempty"`
}

func rowOf(p imageage.Pending) pendingRow {
	r := pendingRow{Image: p.Image.Ref, For: p.For, Digest: p.Digest, New: p.New, Since: p.Since, Why: p.Why}
	if !p.Until.IsZero() {
		r.Until = &p.Until
	}
	return r
}

// until says when an update may be taken.
func (r pendingRow) until() string {
	switch {
	case r.Until != nil:
		return r.Until.Local().Format("2006-01-02 15:04")
	case r.Why != "":
		return "never"
	}
	return "the next update"
}

// Run implements command.Runner.
func (o pendingOptions) Run(_ context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	waiting, unseen, err := o.looker.Pending()
	if err != nil {
		return fmt.Errorf("%w; the next look keeps it aside, and then each image is new again", err)
	}
	for _, ref := range slices.Sorted(maps.Keys(unseen)) {
		o.warn("%s could not be looked at: %s", ref, unseen[ref])
	}
	if at := o.looker.Damaged(); !at.IsZero() {
		o.warn("the book of what this host has seen was damaged at %s and was kept aside: no image is older than that", at.Format(time.RFC3339))
	}
	rows := []pendingRow{}
	for _, p := range waiting {
		r := rowOf(p)
		r.Signature = o.trust(r.Image)
		rows = append(rows, r)
	}
	short := console.ShortDigest
	if c.Bool("no-trunc") {
		short = func(whole string) string { return whole }
	}
	return command.Listing[pendingRow]{
		Items: rows, Hints: o.errOut, None: "No update waits.",
		Columns: []command.Column[pendingRow]{
			{Head: "IMAGE", Cell: func(r pendingRow) string { return r.Image }},
			{Head: "FOR", Cell: func(r pendingRow) string { return r.For }},
			{Head: "NEW", Cell: func(r pendingRow) string { return short(r.New) }},
			{Head: "SINCE", Cell: func(r pendingRow) string { return r.Since.Local().Format("2006-01-02 15:04") }, Order: func(a, b pendingRow) int { return a.Since.Compare(b.Since) }},
			{Head: "UNTIL", Cell: pendingRow.until},
			{Head: "WHY", Cell: func(r pendingRow) string { return r.Why }, Wide: true},
			{Head: "SIGNATURE", Cell: func(r pendingRow) string { return r.Signature }, Wide: true},
			{Head: "DIGEST", Cell: func(r pendingRow) string { return short(r.Digest) }, Wide: true},
		},
	}.Print(o.out, c)
}
