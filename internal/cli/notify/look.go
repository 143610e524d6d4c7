package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/run/imagelook"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images/imageage"
)

// looker looks at the conditions that are no events. It starts nothing and asks Podman nothing.
type looker struct {
	engine   *engine.Engine
	stateDir string
	getenv   func(string) string
	updates  *imagelook.Looker
}

const (
	// minFree and minFiles: below, a disk is almost full.
	minFree, minFiles = 512 << 20, 3 // bytes, percent
	// askTimeout limits the question to the ingress proxy.
	askTimeout = 2 * time.Second
)

func (l looker) look(ctx context.Context) []notice.Look {
	disk := fullDisks(map[string]string{"the disk of the records": l.stateDir, "the disk of images": storageDir(l.getenv)}, conn.FreeSpace)
	away := map[string]string{}
	if o, is := l.engine.Podman.Outage(); is {
		away["podman"] = "its service at " + o.Socket + " has not answered since " + o.Since.UTC().Format(time.RFC3339)
	}
	pending := map[string]string{}
	waiting, _, err := l.updates.Pending()
	for _, p := range waiting {
		pending[p.For+" with "+p.Image.Ref] = pendingText(p)
	}
	looks := []notice.Look{{Condition: notice.Disk, Bad: disk}, {Condition: notice.PodmanAway, Bad: away}}
	if err == nil {
		looks = append(looks, notice.Look{Condition: notice.UpdatePending, Bad: pending})
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, runtimeDir, err := state.Dirs(l.getenv)
	if err != nil {
		return looks
	}
	s, err := ingress.Ask(ctx, ingress.SocketPath(runtimeDir))
	if err != nil || s == nil {
		return looks // nothing is known of certificates
	}
	return append(looks, notice.Look{Condition: notice.Certificate, Bad: badCertificates(s.Certificates)})
}

// badCertificates returns the problems of certificates by name. One that is asked for the first time has none yet.
func badCertificates(all []ingress.Certificate) map[string]string {
	bad := map[string]string{}
	for _, c := range all {
		if c.Problem != "" && !c.Pending {
			bad[c.Name] = c.Problem
		}
	}
	return bad
}

// fullDisks returns which of the directories, by what they are, are on a disk that is almost full. One that cannot be looked at is left out.
func fullDisks(dirs map[string]string, freeSpace func(dir string) (free uint64, files int, err error)) map[string]string {
	full := map[string]string{}
	for name, dir := range dirs {
		free, files, err := freeSpace(dir)
		switch {
		case err != nil:
		case free < minFree:
			full[name] = fmt.Sprintf("%s of %s are free", units.BytesSize(float64(free)), dir)
		case files < minFiles:
			full[name] = fmt.Sprintf("%d%% of the files of %s are free", files, dir)
		}
	}
	return full
}

// pendingText says since when and until when an update waits.
func pendingText(p imageage.Pending) string {
	text := "another image was seen at " + p.Since.UTC().Format(time.RFC3339)
	switch {
	case p.Why == "":
		return text + "; the next update takes it"
	case p.Until.IsZero():
		return text + "; it is not taken: " + p.Why
	}
	return text + "; it is taken from " + p.Until.UTC().Format(time.RFC3339) + ": " + p.Why
}
